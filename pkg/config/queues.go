package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxConcurrency is the most jobs at a time that a queue may be given in one worker.
const MaxConcurrency = 5_000

// QueueSetting is one queue that a worker takes jobs from.
type QueueSetting struct {
	Name        string
	Concurrency int // jobs at a time; 0 takes nothing
}

// Queues is a list such as default=4,mail=10. A name without a number takes JETCREW_CONCURRENCY.
type Queues []QueueSetting

// UnmarshalText reads the list; a number that is not given is -1 until Load knows the default.
func (q *Queues) UnmarshalText(text []byte) error {
	seen := make(map[string]bool)
	var out Queues
	for part := range strings.SplitSeq(string(text), ",") {
		s := QueueSetting{Name: strings.TrimSpace(part), Concurrency: -1}
		if at := strings.LastIndexByte(s.Name, '='); at >= 0 {
			n, err := strconv.Atoi(strings.TrimSpace(s.Name[at+1:]))
			if err != nil || n < 0 || n > MaxConcurrency {
				return fmt.Errorf("%q has no number from 0 to %d", s.Name, MaxConcurrency)
			}
			s.Name, s.Concurrency = strings.TrimSpace(s.Name[:at]), n
		}
		if s.Name == "" {
			return errors.New("a queue has no name")
		}
		if seen[s.Name] {
			return fmt.Errorf("queue %q is named twice", s.Name)
		}
		seen[s.Name] = true
		out = append(out, s)
	}
	*q = out
	return nil
}

// String is the list as it is written in the environment.
func (q Queues) String() string {
	parts := make([]string, len(q))
	for i, s := range q {
		parts[i] = s.Name
		if s.Concurrency >= 0 {
			parts[i] += "=" + strconv.Itoa(s.Concurrency)
		}
	}
	return strings.Join(parts, ",")
}

// Map is the list as a worker takes it.
func (q Queues) Map() map[string]int {
	m := make(map[string]int, len(q))
	for _, s := range q {
		m[s.Name] = s.Concurrency
	}
	return m
}
