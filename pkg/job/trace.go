package job

import "strings"

// MaxTraceState is how many bytes of vendors' own state a trace may carry along.
const MaxTraceState = 512

// Trace names the operation that a job comes from, as W3C Trace Context writes it, so that whoever runs the job can say
// what it belongs to. It travels in the headers of a job's messages, from each to the next, and stands in no document.
//
// The zero value is none. One that is not well-formed counts as none: nothing fails because of it.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate, which means nothing without a parent
}

const (
	parentLen = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	// knownFlags are the bits of a parent's flags that version 00 gives a meaning: sampled, and random.
	knownFlags = 0x03
	// maxMembers is how many entries a state may have.
	maxMembers = 32
)

// NewTrace is the trace that a traceparent and a tracestate name, or none. A state that is not well-formed, or longer
// than MaxTraceState, is left out. The parent is of version 00 afterwards, whichever it was.
func NewTrace(parent, state string) Trace {
	parent = cleanParent(parent)
	if parent == "" {
		return Trace{}
	}
	if !validState(state) {
		state = ""
	}
	return Trace{Parent: parent, State: state}
}

// cleanParent is a traceparent in the form of version 00, or nothing if it is none. Of a later version only the
// beginning is known.
func cleanParent(p string) string {
	if len(p) < parentLen || p[2] != '-' || p[35] != '-' || p[52] != '-' {
		return ""
	}
	version, trace, span, flags := p[:2], p[3:35], p[36:52], p[53:parentLen]
	if !lowerHex(version) || !lowerHex(trace) || !lowerHex(span) || !lowerHex(flags) ||
		version == "ff" || zeros(trace) || zeros(span) {
		return ""
	}
	low := strings.IndexByte(hexDigits, flags[1])
	if version == "00" {
		if len(p) > parentLen {
			return ""
		}
		if flags[0] == '0' && low <= knownFlags { // as it is nearly always
			return p
		}
	}
	if len(p) > parentLen && p[parentLen] != '-' {
		return ""
	}
	return "00" + p[2:parentLen-2] + "0" + hexDigits[low&knownFlags:low&knownFlags+1]
}

const hexDigits = "0123456789abcdef"

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

// validState reports whether s is a list of key=value as W3C Trace Context has it, and short enough.
func validState(s string) bool {
	if s == "" || len(s) > MaxTraceState {
		return false
	}
	seen := make(map[string]bool, 4)
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue // allowed: a list may have gaps
		}
		key, value, found := strings.Cut(member, "=")
		if !found || !validStateKey(key) || !validStateValue(value) || seen[key] {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0 && len(seen) <= maxMembers
}

// validStateKey takes a plain key, or a tenant's, which is tenant@system.
func validStateKey(k string) bool {
	tenant, system, multi := strings.Cut(k, "@")
	if !multi {
		return plainKey(k, 256) && lower(k[0])
	}
	return plainKey(tenant, 241) && (lower(tenant[0]) || digit(tenant[0])) && plainKey(system, 14) && lower(system[0])
}

func plainKey(k string, most int) bool {
	for i := range len(k) {
		if c := k[i]; !lower(c) && !digit(c) && strings.IndexByte("_-*/", c) < 0 {
			return false
		}
	}
	return k != "" && len(k) <= most
}

func validStateValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return v != "" && len(v) <= 256
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }
