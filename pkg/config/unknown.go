package config

import (
	"fmt"
	"strings"
)

// jobFacts begins the variables that tell a program which job it runs. It may well call jetcrew.
const jobFacts = "JETCREW_JOB_"

// nearby is how many mistakes a misspelt name may have and still be taken for the one that was meant.
const nearby = 2

// unknownVariable is the warning for a variable that looks like ours and is not; nothing for any other.
// The value is not shown: a misspelt JETCREW_PASSWORD holds a password.
func unknownVariable(name string) string {
	if !strings.HasPrefix(name, "JETCREW_") || strings.HasPrefix(name, jobFacts) {
		return ""
	}
	nearest, best := "", nearby+1
	for _, f := range fields {
		if d := distance(name, f.variable); d < best {
			nearest, best = f.variable, d
		}
	}
	text := fmt.Sprintf("the environment sets %q, which does not exist and is ignored", cut(name))
	if nearest != "" {
		text += "; did you mean " + nearest + "?"
	}
	return text
}

// distance is Levenshtein's: how many bytes must be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
