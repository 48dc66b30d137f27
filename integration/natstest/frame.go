package natstest

import (
	"bytes"
	"strconv"
)

// frames cuts one direction of a NATS connection into protocol messages: a
// line, and for those that carry a payload the payload too.
type frames struct {
	rest []byte
}

// push adds what came, and hands every message that is complete to each.
func (f *frames) push(p []byte, each func(frame []byte)) {
	f.rest = append(f.rest, p...)
	used := 0
	for {
		n := frameLen(f.rest[used:])
		if n == 0 {
			break
		}
		each(f.rest[used : used+n])
		used += n
	}
	f.rest = append(f.rest[:0], f.rest[used:]...)
}

// frameLen is the length of the first message in b, 0 if it is not complete.
func frameLen(b []byte) int {
	line, _, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return 0
	}
	n := len(line) + 1
	verb, args, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	switch string(bytes.ToUpper(verb)) {
	case "MSG", "HMSG", "PUB", "HPUB":
		fields := bytes.Fields(args)
		if len(fields) == 0 {
			return n
		}
		size, err := strconv.Atoi(string(fields[len(fields)-1]))
		if err != nil || size < 0 {
			return n // not ours to judge: the peer will
		}
		n += size + len("\r\n")
	}
	if n > len(b) {
		return 0
	}
	return n
}

// IsPubAck recognises JetStream's answer to a publish, positive or not.
func IsPubAck(frame []byte) bool {
	if !bytes.HasPrefix(frame, []byte("MSG ")) || bytes.Contains(frame, []byte(`"type":`)) {
		return false
	}
	return bytes.Contains(frame, []byte(`"stream":`)) && bytes.Contains(frame, []byte(`"seq":`))
}
