package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml/ast"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// yamlReader reads values out of parsed YAML and collects what is wrong with them, where a decoder would stop at the
// first mistake. Its methods answer whether the value could be read.
//
// It follows no references: what stands in the file is all there is, and no few lines stand for a billion.
type yamlReader struct{ faults []lineError }

func (y *yamlReader) wrong(n ast.Node, format string, args ...any) bool {
	y.faults = append(y.faults, lineError{lineOf(n), fmt.Sprintf(format, args...)})
	return false
}

// members hands the members of a mapping to those who read them. None may be unknown, or stand twice.
func (y *yamlReader) members(n ast.Node, what string, readers map[string]func(ast.Node)) bool {
	m, ok := n.(ast.MapNode)
	if !ok {
		return y.unexpected(n, what, "a mapping")
	}
	first := make(map[string]int)
	for i := m.MapRange(); i.Next(); {
		name, ok := y.key(i.Key())
		if !ok {
			continue
		}
		line := lineOf(i.Key())
		read, known := readers[name]
		switch {
		case first[name] != 0:
			y.wrong(i.Key(), "%s: stands on line %d already", name, first[name])
			continue
		case !known:
			y.wrong(i.Key(), "%s: is not known; there are %s", shorten(name, 80), strings.Join(slices.Sorted(maps.Keys(readers)), ", "))
		default:
			read(i.Value())
		}
		first[name] = line
	}
	return true
}

// key is the name of a member.
func (y *yamlReader) key(n ast.MapKeyNode) (string, bool) {
	if k, ok := n.(*ast.StringNode); ok {
		return k.Value, true
	}
	return "", y.unexpected(n, "a member's name", "text, in quotes if need be,")
}

// unexpected says what is expected instead of a value.
func (y *yamlReader) unexpected(n ast.Node, name, want string) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return y.wrong(n, "anchors and references (&, * and <<) are not allowed here: write it out, or put text in quotes")
	case *ast.TagNode:
		return y.wrong(n, "tags (!) are not allowed here: put text in quotes")
	}
	return y.wrong(n, "%s: %s is expected", name, want)
}

func (y *yamlReader) text(name string, n ast.Node, to *string) bool {
	switch n := n.(type) {
	case *ast.StringNode:
		*to = n.Value
	case *ast.LiteralNode:
		*to = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return y.wrong(n, "%s: text is expected: put it in quotes", name)
	default:
		return y.unexpected(n, name, "text")
	}
	return true
}

// filled is text that must not be empty: nothing would stand for a default.
func (y *yamlReader) filled(name string, n ast.Node, to *string) bool {
	if !y.text(name, n, to) {
		return false
	}
	if *to == "" {
		return y.wrong(n, "%s: must not be empty", name)
	}
	return true
}

func (y *yamlReader) count(name string, n ast.Node, most int, to *int) bool {
	v := int64(-1)
	number, ok := n.(*ast.IntegerNode)
	if !ok {
		return y.unexpected(n, name, fmt.Sprintf("a number from 1 to %d", most))
	}
	switch u := number.Value.(type) {
	case int64:
		v = u
	case uint64:
		v = int64(min(u, math.MaxInt64))
	}
	if v < 1 || v > int64(most) {
		return y.wrong(n, "%s: a number from 1 to %d is expected", name, most)
	}
	*to = int(v)
	return true
}

func (y *yamlReader) duration(name string, n ast.Node, to *time.Duration) bool {
	const want = "a duration such as 90s, 12h or 7d"
	text, ok := n.(*ast.StringNode)
	if !ok {
		return y.unexpected(n, name, want)
	}
	d, err := config.ParseDuration(text.Value)
	if err != nil {
		return y.wrong(n, "%s: %s is expected", name, want)
	}
	*to = d
	return true
}

func (y *yamlReader) flag(name string, n ast.Node, to **bool) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return y.unexpected(n, name, "true or false")
	}
	*to = &b.Value
	return true
}

// object is a mapping as JSON.
func (y *yamlReader) object(name string, n ast.Node, to *jsontext.Value) bool {
	if _, ok := n.(ast.MapNode); !ok {
		return y.unexpected(n, name, "a mapping")
	}
	before := len(y.faults)
	text := y.json(nil, name, n)
	if len(y.faults) > before {
		return false
	}
	*to = text
	return true
}

// json appends a value as JSON, its members in the order of the file.
func (y *yamlReader) json(b []byte, name string, n ast.Node) []byte {
	switch n := n.(type) {
	case ast.MapNode:
		b = append(b, '{')
		seen := make(map[string]bool)
		for i := n.MapRange(); i.Next(); {
			key, ok := y.key(i.Key())
			if !ok {
				continue
			}
			if seen[key] {
				y.wrong(i.Key(), "%s: %q stands twice", name, shorten(key, 80))
			}
			if len(seen) > 0 {
				b = append(b, ',')
			}
			seen[key] = true
			b = append(y.jsonScalar(b, name, i.Key(), key), ':')
			b = y.json(b, name, i.Value())
		}
		return append(b, '}')
	case *ast.SequenceNode:
		b = append(b, '[')
		for i, v := range n.Values {
			if i > 0 {
				b = append(b, ',')
			}
			b = y.json(b, name, v)
		}
		return append(b, ']')
	case *ast.StringNode:
		return y.jsonScalar(b, name, n, n.Value)
	case *ast.LiteralNode:
		return y.jsonScalar(b, name, n, n.Value.Value)
	case *ast.IntegerNode:
		return y.jsonScalar(b, name, n, n.Value)
	case *ast.FloatNode:
		return y.jsonScalar(b, name, n, n.Value)
	case *ast.BoolNode:
		return y.jsonScalar(b, name, n, n.Value)
	case *ast.NullNode:
		return append(b, "null"...)
	}
	y.unexpected(n, name, "what JSON can hold")
	return b
}

func (y *yamlReader) jsonScalar(b []byte, name string, n ast.Node, v any) []byte {
	text, err := job.Encode(v)
	if err != nil {
		y.wrong(n, "%s: %s", name, err)
	}
	return append(b, text...)
}
