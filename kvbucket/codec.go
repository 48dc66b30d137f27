package kvbucket

import (
	"strings"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// encode writes a key as the bucket has it: reversibly, and readable. Letters, digits, '-' and '_' stand for themselves;
// a '/' between two bytes that are none is the '.' between two tokens; any other byte is =XX. The longest key takes three
// times its 764 bytes, which leaves its subject well below the 4 KB at which the server closes the connection.
func encode(key string) string {
	n := 0
	for i := range len(key) {
		if !plain(key[i]) {
			n++
		}
	}
	if n == 0 {
		return key
	}
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(key)+2*n)
	for i := range len(key) {
		switch c := key[i]; {
		case plain(c):
			out = append(out, c)
		case c == '/' && separates(key, i):
			out = append(out, '.')
		default:
			out = append(out, '=', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

// separates reports whether the '/' at i stands between two bytes that are none.
func separates(key string, i int) bool {
	return i > 0 && i+1 < len(key) && key[i-1] != '/' && key[i+1] != '/'
}

// decode reverses encode. It takes only what encode writes: whatever else stands in the bucket is not one of our keys.
func decode(name string) (string, bool) {
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			out = append(out, '/')
		case c == '=' && i+2 < len(name):
			hi, lo := unhex(name[i+1]), unhex(name[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			out = append(out, byte(hi<<4|lo))
			i += 2
		default:
			out = append(out, c)
		}
	}
	key := string(out)
	return key, kv.CheckKey(key) == nil && encode(key) == name
}

// filter is a subject filter, below the bucket's prefix, that every key with a prefix matches, and as few others as whole
// tokens can tell apart. A '/' at the end of the prefix does not tell yet whether it will separate tokens (v/acme//x is
// v.acme=2F=2Fx), so neither it nor the token before it is part of the filter.
func filter(prefix string) string {
	certain := encode(strings.TrimRight(prefix, "/"))
	return certain[:strings.LastIndexByte(certain, '.')+1] + ">"
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
