package kvbucket

import (
	"strings"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// encode writes a key as the bucket has it: reversibly, and readable. Each '/' is the '.' between two tokens; in what
// stands between them, letters, digits, '-' and '_' stand for themselves, and any other byte is =XX. Where nothing stands
// between them, the token is a single '=', since none may be empty. So a key has a prefix that ends in '/' just where its
// name has that prefix's tokens, and more: v/acme//x is v.acme.=.x. The longest key takes three times its 764 bytes,
// which leaves its subject well below the 4 KB at which the server closes the connection.
func encode(key string) string {
	const digits = "0123456789ABCDEF"
	n, empty := 0, true
	for i := range len(key) {
		switch c := key[i]; {
		case plain(c):
			empty = false
		case c == '/':
			n, empty = n+1, true
		default:
			n, empty = n+2, false
		}
	}
	if n == 0 && !empty {
		return key
	}
	out := make([]byte, 0, len(key)+n+1)
	empty = true // so far, the token
	for i := range len(key) {
		switch c := key[i]; {
		case plain(c):
			out, empty = append(out, c), false
		case c == '/':
			if empty {
				out = append(out, '=')
			}
			out, empty = append(out, '.'), true
		default:
			out, empty = append(out, '=', digits[c>>4], digits[c&15]), false
		}
	}
	if empty {
		out = append(out, '=')
	}
	return string(out)
}

// decode reverses encode. It takes only what encode writes: whatever else stands in the bucket is not one of our keys.
func decode(name string) (string, bool) {
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			out = append(out, '/')
		case c == '=' && (i == 0 || name[i-1] == '.') && (i+1 == len(name) || name[i+1] == '.'):
			// the token of nothing
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
// tokens can tell apart: none, where the prefix is empty or ends in '/'.
func filter(prefix string) string {
	i := strings.LastIndexByte(prefix, '/')
	if i < 0 {
		return ">"
	}
	return encode(prefix[:i]) + ".>"
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
