package streams

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Weight says how bad it is that a setting is not what jetcrew would make.
type Weight int

// The weights.
const (
	Odd    Weight = iota // somebody may have wanted it
	Grave                // jobs wait, or are lost sooner or later
	Broken               // jobs that were acknowledged are lost or hidden at once, or nothing works: it is refused
)

// Drift is a setting of a stream or consumer that is not what jetcrew would make.
type Drift struct {
	Name   string // of the stream or consumer
	Field  string
	Want   string
	Have   string
	Weight Weight
	Why    string // what comes of it, where that is known
	Remedy string // what to do about it
	Mends  bool   // whoever may manage streams mends it when a store or a queue is opened
	Mended bool
}

func (d Drift) String() string {
	text := fmt.Sprintf("%s: %s is %s, want %s", d.Name, d.Field, d.Have, d.Want)
	if d.Why != "" {
		text += ": " + d.Why
	}
	if d.Mended {
		text += " (mended)"
	}
	return text
}

// Drift lists what was found to differ since the store was opened.
func (s *Store) Drift() []Drift {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.drift)
}

func (s *Store) report(ds []Drift) {
	for _, d := range ds {
		s.log.Warn().Str("name", d.Name).Str("field", d.Field).Str("want", d.Want).Str("have", d.Have).
			Bool("mended", d.Mended).Msg("settings drift")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		if !slices.Contains(s.drift, d) {
			s.drift = append(s.drift, d)
		}
	}
}

// rule is what is known of a setting. One that there is no rule for is odd when it differs.
type rule struct {
	weight Weight
	mends  bool
	why    string
	remedy string
}

const (
	remedyMend  = "run jetcrew setup as a user that may change streams: it mends this"
	remedyEdit  = "set it back, unless it was set on purpose; jetcrew does not change it by itself"
	remedyAnew  = "it cannot be taken back: use another namespace (JETCREW_NAMESPACE), or delete the stream and the workers' bucket, which loses what is in them, and run jetcrew setup"
	remedyMoved = "take it out (nats stream edit); what came meanwhile is not where jobs stand: look for it, and put it in again"
)

// differing are the settings in which a configuration differs from another, apart from those that are free, with what
// the rules say of them. It goes through all fields that there are: what a later version adds is not overlooked.
func differing[T any](name string, want, have T, rules map[string]rule, free ...string) []Drift {
	var out []Drift
	w, h := reflect.ValueOf(want), reflect.ValueOf(have)
	for i := range w.NumField() {
		field := fieldName(w.Type().Field(i))
		if slices.Contains(free, field) || alike(w.Field(i), h.Field(i)) {
			continue
		}
		r := rules[field]
		d := Drift{
			Name: name, Field: field, Want: show(w.Field(i)), Have: show(h.Field(i)),
			Weight: r.weight, Mends: r.mends, Why: r.why, Remedy: r.remedy,
		}
		switch {
		case d.Remedy != "":
		case d.Mends:
			d.Remedy = remedyMend
		default:
			d.Remedy = remedyEdit
		}
		out = append(out, d)
	}
	return out
}

// mended is a configuration with those settings put right that may be.
func mended[T any](want, have T, drift []Drift) T {
	w, h := reflect.ValueOf(want), reflect.ValueOf(&have).Elem()
	for i := range w.NumField() {
		field := fieldName(w.Type().Field(i))
		if slices.ContainsFunc(drift, func(d Drift) bool { return d.Mends && d.Field == field }) {
			h.Field(i).Set(w.Field(i))
		}
	}
	return have
}

// refusal is what keeps a stream or consumer from being used, each with what to do, or "".
func refusal(drift []Drift, manage Manage) string {
	var out []string
	for _, d := range drift {
		if d.Weight == Broken && (!d.Mends || manage == ManageVerify) {
			out = append(out, d.String()+": "+d.Remedy)
		}
	}
	return strings.Join(out, "; ")
}

// mendable reports whether there is anything to mend.
func mendable(drift []Drift) bool {
	return slices.ContainsFunc(drift, func(d Drift) bool { return d.Mends })
}

// fieldName is a setting's name as the server and its tools have it.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// alike compares two values of a setting as the server does: no limit is -1, 0 or less, and order does not matter.
func alike(want, have reflect.Value) bool {
	switch {
	case want.CanInt() && want.Int() == -1:
		return have.Int() <= 0
	case (want.Kind() == reflect.Slice || want.Kind() == reflect.Map) && want.Len() == 0 && have.Len() == 0:
		return true
	}
	if w, ok := want.Interface().([]string); ok {
		return slices.Equal(slices.Sorted(slices.Values(w)), slices.Sorted(slices.Values(have.Interface().([]string))))
	}
	return reflect.DeepEqual(want.Interface(), have.Interface())
}

// show is a value of a setting as people read it.
func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Struct:
		if v.IsZero() {
			return "none"
		}
		if words, ok := v.Interface().([]string); ok {
			return strings.Join(words, " ")
		}
		b, err := json.Marshal(v.Interface())
		if err != nil {
			return fmt.Sprint(v.Interface())
		}
		return string(b)
	case reflect.String:
		if v.Len() == 0 {
			return "none"
		}
	}
	return fmt.Sprint(v.Interface())
}
