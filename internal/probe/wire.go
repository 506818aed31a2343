package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxExchanges bounds the requests of one MCP session. A probe takes six, and one more for each further page of the list
// of tools; a server that asks its client questions makes it answer each with another request.
const maxExchanges = 24

// maxValues bounds the JSON values of one answer: what a value takes in memory may be fifty times as long as it is written.
// A list of tools of maxListing bytes has fewer, unless that is its purpose; an answer of maxAnswer bytes cannot have more.
const maxValues = 64 << 10

// Answers that are no evidence against the tool, but cannot be used.
var (
	errTooLarge = fmt.Errorf("the answer is larger than %d KiB", maxAnswer>>10)
	errTooMany  = fmt.Errorf("the server asked for more than %d requests", maxExchanges)
)

// wire is the HTTP side of one MCP probe. It adds the credential, bounds what is read, and remembers how the last
// exchange ended, which the SDK's errors do not tell.
type wire struct {
	ctx context.Context // ends every exchange, because the SDK detaches some from the caller's context
	run *run

	mu      sync.Mutex
	count   int          // exchanges begun
	latest  int          // number of the exchange that answer and err speak of
	sealed  bool         // nothing more is recorded
	listing bool         // the list of tools is read, which may be larger than an answer
	heard   bytes.Buffer // what was read of it
	answer  *answer      // nil: there was none
	err     error        // why there is no whole answer
}

// last returns the last answer and why the last exchange ended without a whole one.
func (w *wire) last() (*answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer, w.err
}

// seal ends the recording: what follows closes the session.
func (w *wire) seal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sealed = true
}

// listen begins or ends the reading of a page of the list of tools, and returns what was read until then.
func (w *wire) listen(on bool) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := bytes.Clone(w.heard.Bytes())
	w.listing = on
	w.heard.Reset()
	return heard
}

// bound returns how much of an answer's body may be read.
func (w *wire) bound() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listing {
		return maxListing
	}
	return maxAnswer
}

// hear remembers what was read if it is of the list of tools.
func (w *wire) hear(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listing && w.heard.Len() <= maxListing {
		w.heard.Write(p)
	}
}

// record remembers how an exchange stands, unless a later one has begun to be answered: the SDK reads the ends of streams
// in the background.
func (w *wire) record(number int, a *answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sealed && number >= w.latest {
		w.latest, w.answer, w.err = number, a, err
	}
}

// admit numbers an exchange and returns why it must not take place, nil if it may. The closing of a session has no number:
// it says nothing about the tool.
func (w *wire) admit(request *http.Request) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.run.target.url
	if request.URL.Scheme != target.Scheme || request.URL.Host != target.Host {
		// The SDK has no reason to ask another host. Should it find one, the credential does not follow.
		return w.count, errors.New("the request is for another host than the Tool's")
	}
	if request.Method == http.MethodDelete {
		return -1, w.ctx.Err()
	}
	w.count++
	if w.count > maxExchanges {
		return w.count, errTooMany
	}
	return w.count, w.ctx.Err()
}

// RoundTrip sends one request of the SDK.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	number, err := w.admit(request)
	if err != nil {
		w.record(number, nil, err)
		return nil, err
	}
	ctx, cancel := context.WithCancel(request.Context())
	stop := context.AfterFunc(w.ctx, cancel)
	release := func() { stop(); cancel() }
	request = request.Clone(ctx)
	request.Header.Set("User-Agent", userAgent)
	if w.run.credential != nil {
		w.run.target.setCredential(request.Header, w.run.credential)
	}
	response, err := w.run.prober.transport.RoundTrip(request)
	if err != nil {
		release()
		w.record(number, nil, err)
		return nil, err
	}
	if !isSuccess(response.StatusCode) {
		// The SDK reads some of these answers and some not, so they are read here, and it gets what was read.
		a, _ := read(response)
		_ = response.Body.Close()
		release()
		w.record(number, a, nil)
		response.Body = io.NopCloser(bytes.NewReader([]byte(a.body)))
		return response, nil
	}
	a := &answer{status: response.StatusCode, headers: response.Header}
	w.record(number, a, nil)
	response.Body = &boundedBody{ReadCloser: response.Body, left: w.bound() + 1, wire: w, number: number, answer: a, release: release}
	return response, nil
}

// boundedBody fails a body that is too large, and remembers it if it breaks off.
type boundedBody struct {
	io.ReadCloser
	left    int // one more than may be read, so that the end of the largest answer is seen
	values  int // JSON values so far
	wire    *wire
	number  int
	answer  *answer
	release func()
}

// Read reads on until the bound.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 || b.values > maxValues {
		b.wire.record(b.number, b.answer, errTooLarge)
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	for _, sign := range []string{"{", "[", ","} { // Each begins a value at most.
		b.values += bytes.Count(p[:n], []byte(sign))
	}
	b.wire.hear(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		b.wire.record(b.number, b.answer, err)
	}
	return n, err
}

// Close ends the exchange.
func (b *boundedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
