package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecode(f *testing.F) {
	for _, s := range []string{one, `{"jobs":[` + one + `]}`, `{"type":"t","type":"u"}`, "{\"type\":\"\xff\"}", strings.Repeat("[", 200), `{"":0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, p := decodeSpec(body)
		if p == nil {
			require.True(t, json.Valid(body))
			require.NotEmpty(t, spec.Type)
			require.NotEmpty(t, spec.ID)
		}
		specs, q := decodeBulk(body)
		if q == nil {
			require.NotEmpty(t, specs)
			require.NotNil(t, p, "nothing is both")
		}
		for _, problem := range []*Problem{p, q} {
			if problem != nil {
				require.NotEmpty(t, problem.Errors)
				b, err := json.Marshal(problem)
				require.NoError(t, err)
				require.Less(t, len(b), 32<<10, "a problem is not as large as what it is about")
			}
		}
	})
}
