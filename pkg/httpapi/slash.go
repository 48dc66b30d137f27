package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// http.ServeMux takes a segment of a path that is exactly %2F for the end of the path, and finds no route. A name that is
// a slash and nothing else goes past it under another name, which nobody else can know.
var slashName = "/" + newID()

// pastMux is a request whose segments that are a slash have the other name.
func pastMux(r *http.Request) *http.Request {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	found := false
	for i, s := range segments {
		if strings.EqualFold(s, "%2F") {
			segments[i], found = url.PathEscape(slashName), true
		}
	}
	if !found {
		return r
	}
	out, u := *r, *r.URL
	u.RawPath = strings.Join(segments, "/")
	path, err := url.PathUnescape(u.RawPath)
	if err != nil { // it was unescaped before
		return r
	}
	u.Path, out.URL = path, &u
	return &out
}

// slashMux is a mux whose handlers find a slash under its own name.
type slashMux struct{ *http.ServeMux }

// HandleFunc registers a handler.
func (m slashMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	names := wildcards.FindAllStringSubmatch(pattern, -1)
	m.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		for _, n := range names {
			if r.PathValue(n[1]) == slashName {
				r.SetPathValue(n[1], "/")
			}
		}
		h(w, r)
	})
}
