package httpapi

import (
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Served is a request that was answered, for whoever counts them. No text of the caller's is in it.
type Served struct {
	// Operation is its id in the OpenAPI document, and Method its method. Both are empty where there is none for what was
	// asked.
	Operation, Method string
	Status            int  // 499 if nobody waited for the answer
	Code              Code // of the refusal or failure; empty where there was none
	Took              time.Duration
}

const documentPattern = "GET /openapi.json"

// operations are the ids of the document's operations, and of the document itself, by their method and path.
func operations(document *huma.OpenAPI) map[string]string {
	out := map[string]string{documentPattern: "openapi"}
	for path, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil {
				out[op.Method+" "+path] = op.OperationID
			}
		}
	}
	return out
}

// count tells of a request whoever counts them.
func (f *front) count(in *info, status int, took time.Duration) {
	if f.observe == nil {
		return
	}
	s := Served{Operation: f.operations[in.operation], Status: status, Code: in.code, Took: took}
	if s.Operation != "" {
		s.Method, _, _ = strings.Cut(in.operation, " ")
	}
	f.observe(s)
}
