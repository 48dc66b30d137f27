package command

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Split cuts a command line into a program and its arguments, at spaces, with the quotes and backslashes of
// a shell. Since no shell runs the command, whatever only a shell could do (variables, pipes, redirections,
// several commands, patterns) is refused instead of being passed on as text; quoted, it is text.
func Split(line string) ([]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "")
	if err != nil {
		var pe syntax.ParseError
		if errors.As(err, &pe) {
			return nil, fmt.Errorf("column %d: %s", pe.Pos.Col(), pe.Text)
		}
		return nil, err
	}
	if len(file.Stmts) == 0 {
		return nil, errors.New("no program is named")
	}
	stmt := file.Stmts[0]
	call, simple := stmt.Cmd.(*syntax.CallExpr)
	switch {
	case len(file.Stmts) > 1 || !simple || stmt.Background || stmt.Negated || len(stmt.Redirs) > 0:
		return nil, needsShell("more than one program with its arguments")
	case len(call.Assigns) > 0:
		return nil, needsShell("a variable set before the program")
	}
	for _, w := range call.Args {
		if err := plain(w.Parts, false); err != nil {
			return nil, err
		}
	}
	return expand.Fields(&expand.Config{}, call.Args...)
}

func needsShell(what string) error {
	return fmt.Errorf("%s needs a shell, and none is used: quote it, or run one (sh -c '...')", what)
}

// plain refuses the parts of a word that a shell would replace.
func plain(parts []syntax.WordPart, quoted bool) error {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if err := plain(p.Parts, true); err != nil {
				return err
			}
		case *syntax.Lit:
			if quoted {
				continue
			}
			if unescaped(p.Value, "*?[{") {
				return needsShell(fmt.Sprintf("the pattern %s", p.Value))
			}
			if i == 0 && strings.HasPrefix(p.Value, "~") {
				return needsShell(fmt.Sprintf("the home directory in %s", p.Value))
			}
		default:
			return needsShell("a $ or ` that is not in single quotes")
		}
	}
	return nil
}

// unescaped reports whether any of chars stands in s without a backslash before it.
func unescaped(s, chars string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if strings.IndexByte(chars, s[i]) >= 0 {
			return true
		}
	}
	return false
}
