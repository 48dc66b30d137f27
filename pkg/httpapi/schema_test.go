package httpapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// openAPI is what the tests read of the document.
type openAPI struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string                `json:"operationId"`
		Security    []map[string][]string `json:"security"`
		RequestBody *struct {
			Required bool
			Content  map[string]struct {
				Schema struct {
					Ref string `json:"$ref"`
				}
			}
		} `json:"requestBody"`
		Responses map[string]any `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
			Required   []string
		}
	}
}

func document(t *testing.T, s *served) openAPI {
	t.Helper()
	a := s.ask("GET", "/openapi.json", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/openapi+json", a.header.Get("Content-Type"))
	var d openAPI
	require.NoError(t, json.Unmarshal([]byte(a.body), &d))
	return d
}

func TestTheDocumentDescribesWhatIsServed(t *testing.T) {
	d := document(t, serveTest(t))
	require.Equal(t, "3.1.0", d.OpenAPI)
	require.Len(t, d.Paths, 5)
	for path, body := range map[string]string{"/v1/jobs": "Spec", "/v1/jobs/bulk": "SpecMany"} {
		op := d.Paths[path]["post"]
		require.NotNil(t, op.RequestBody, path)
		require.True(t, op.RequestBody.Required)
		require.Equal(t, "#/components/schemas/"+body, op.RequestBody.Content["application/json"].Schema.Ref)
		require.NotEmpty(t, op.Security, path)
	}
	require.Empty(t, d.Paths["/healthz"]["get"].Security)
	require.Equal(t, []string{"type"}, d.Components.Schemas["Spec"].Required)
	require.NotContains(t, d.Components.Schemas, "ErrorModel", "problems are described as they are")
	for schema, of := range map[string]reflect.Type{
		"Spec": reflect.TypeFor[job.Spec](), "Record": reflect.TypeFor[job.Job](),
		"Attempt": reflect.TypeFor[job.Attempt](), "Retry": reflect.TypeFor[job.Retry](),
	} {
		var described []string
		for name := range d.Components.Schemas[schema].Properties {
			described = append(described, name)
		}
		names := slices.DeleteFunc(memberNames(of), func(n string) bool { return n == "" }) // embedded
		require.ElementsMatch(t, names, described, schema)
	}
}

func TestSchedulesAreDescribedAsTheyAre(t *testing.T) {
	require.ElementsMatch(t, memberNames(reflect.TypeFor[scheduler.Spec]()), memberNames(reflect.TypeFor[ScheduleSpec]()))
	record := slices.DeleteFunc(memberNames(reflect.TypeFor[Schedule]()), func(n string) bool { return n == "" }) // embedded
	stored := slices.DeleteFunc(memberNames(reflect.TypeFor[scheduler.Schedule]()), func(n string) bool { return n == "" })
	require.ElementsMatch(t, stored, record)
}
