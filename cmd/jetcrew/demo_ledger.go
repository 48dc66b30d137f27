package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// What a ledger says of an attempt.
const (
	ledgerStart = "start"
	ledgerDone  = "done"
	ledgerFail  = "fail"
)

// ledger is a file outside the system to which workers write what their handlers did, a line each, in one
// write: what a killed worker wrote stays.
type ledger struct{ f *os.File }

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &ledger{f}, nil
}

func (l *ledger) close() error { return l.f.Close() }

func (l *ledger) write(what string, j *job.Job) error {
	_, err := fmt.Fprintf(l.f, "%s %s %d %d %d\n", what, j.ID, j.Attempts, os.Getpid(), time.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("write to the ledger: %w", err)
	}
	return nil
}

// entry is one line of a ledger.
type entry struct {
	what    string
	id      string
	attempt int
	pid     int
	at      time.Time
}

func readLedger(path string) ([]entry, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	var out []entry
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		var e entry
		var nanos int64
		if _, err := fmt.Sscanf(s.Text(), "%s %s %d %d %d", &e.what, &e.id, &e.attempt, &e.pid, &nanos); err != nil {
			return nil, fmt.Errorf("ledger line %q: %w", s.Text(), err)
		}
		e.at = time.Unix(0, nanos)
		out = append(out, e)
	}
	return out, s.Err()
}
