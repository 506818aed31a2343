package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/agrajag-dev/agrajag/internal/text"
)

const (
	// stdin is the name of a file that stands for the standard input.
	stdin = "-"
	// maxInput bounds what is read of a file, in bytes.
	maxInput = 16 << 20
	// maxCell and maxError bound what of a stranger's text is shown in a table and in a message, in bytes.
	maxCell, maxError = 200, 4000
)

// streams are what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// inRead says that the standard input is used up.
	inRead bool
	// terminal says that the output is read by a person as it is written.
	terminal bool
}

// flush hands over what was written so far, in a command that goes on.
func (s *streams) flush() error {
	if buffered, ok := s.out.(interface{ Flush() error }); ok {
		return buffered.Flush()
	}
	return nil
}

// read reads a file, or the standard input once.
func (s *streams) read(name string) (data []byte, err error) {
	from := s.in
	switch {
	case name != stdin:
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	case s.inRead:
		return nil, errors.New("the standard input can be named only once")
	default:
		s.inRead = true
	}
	if data, err = io.ReadAll(io.LimitReader(from, maxInput+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", label(name), err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s has more than %d bytes; split it", label(name), maxInput)
	}
	return data, nil
}

// label is how a file is called in messages.
func label(name string) string {
	if name == stdin {
		return "<stdin>"
	}
	return name
}

// note tells people something beside the output. That they cannot be told is no reason to stop.
func (s *streams) note(format string, args ...any) {
	_, _ = fmt.Fprintln(s.err, plain(fmt.Sprintf(format, args...), maxError))
}

// print writes a line of the output, in which strangers' text is made harmless for a terminal.
func (s *streams) print(format string, args ...any) error {
	_, err := fmt.Fprintln(s.out, plain(fmt.Sprintf(format, args...), maxError))
	return err
}

// object writes a value as JSON or YAML.
func (s *streams) object(format string, value any) error {
	if format == "yaml" {
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = s.out.Write(data)
		return err
	}
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// Colours of states, as terminals know them (ECMA-48).
var stateColours = map[string]string{"OK": "\x1b[32m", "DEGRADED": "\x1b[33m", "DOWN": "\x1b[31m"}

const endColour = "\x1b[0m"

// coloured writes rows under a head, whose cells in a column begin with a state; color is auto, always or never.
func (s *streams) coloured(color string, head []string, rows [][]string, column int) error {
	if color == "never" || color == "auto" && (!s.terminal || os.Getenv("NO_COLOR") != "") {
		return s.table(head, rows)
	}
	var plainTable strings.Builder
	copied := *s
	copied.out = &plainTable
	if err := copied.table(head, rows); err != nil {
		return err
	}
	// Colours come after the table was laid out: they have no width.
	for i, line := range strings.SplitAfter(plainTable.String(), "\n") {
		if i > 0 && i <= len(rows) {
			state, _, _ := strings.Cut(rows[i-1][column], " ")
			if at := strings.Index(line, " "+state); at >= 0 && stateColours[state] != "" {
				line = line[:at+1] + stateColours[state] + state + endColour + line[at+1+len(state):]
			}
		}
		if _, err := io.WriteString(s.out, line); err != nil {
			return err
		}
	}
	return nil
}

// facts writes names and what they are, one below the other, without those that are empty.
func (s *streams) facts(list [][2]string) error {
	w := tabwriter.NewWriter(s.out, 0, 8, 3, ' ', 0)
	for _, fact := range list {
		if value := plain(fact[1], maxError); value != "" {
			if _, err := fmt.Fprintf(w, "%s:\t%s\n", fact[0], value); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// table writes rows under a head.
func (s *streams) table(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(s.out, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = plain(cell, maxCell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

func plain(s string, limit int) string {
	indent := len(s) - len(strings.TrimLeft(s, " "))
	return s[:min(indent, limit)] + text.Plain(s, limit)
}

func join(words []string) string { return strings.Join(words, ", ") }

// short is a wait as people write it: 24h, 1h30m, 33.5s.
func short(d time.Duration) string {
	s := d.Round(time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
