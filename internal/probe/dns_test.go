package probe

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is a name server of a test. It answers each name with the next of its rounds, the last one again and again. A
// round is a list of addresses, before which names may stand: those are a chain of aliases.
type zone struct {
	mu     sync.Mutex
	rounds map[string][]string
	asked  map[string]int
}

// resolver starts the name server and returns a resolver that asks it alone.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	z.asked = map[string]int{}
	go z.serve(conn)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (z *zone) serve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		reply, err := z.answer(query).Pack()
		if err == nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func (z *zone) answer(query dnsmessage.Message) *dnsmessage.Message {
	question := query.Questions[0]
	reply := &dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
	owner := question.Name
	for _, entry := range z.round(question) {
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		addr, err := netip.ParseAddr(entry)
		switch {
		case err != nil:
			alias := dnsmessage.MustNewName(entry)
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
			owner = alias
		case addr.Is4() && question.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	if len(reply.Answers) == 0 {
		reply.RCode = dnsmessage.RCodeNameError
	}
	return reply
}

// round returns what a question is answered with, and turns to the next round.
func (z *zone) round(question dnsmessage.Question) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	name := strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")
	rounds := z.rounds[name]
	if len(rounds) == 0 {
		return nil
	}
	key := name + question.Type.String()
	round := rounds[min(z.asked[key], len(rounds)-1)]
	z.asked[key]++
	return strings.Fields(round)
}
