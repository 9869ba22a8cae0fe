// Package query is the wire of clouds that speak the query protocol: parameters whose names are paths
// ("Filter.1.Value.2=x"), and answers in XML. It knows no action and no service.
package query

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Value is a parameter or what is below it: a text, or parts by their name, of which numbered ones are a list. A nil
// Value is one that was not given, and can be asked like any other.
type Value struct {
	Text  string            `json:"text,omitempty"`
	Parts map[string]*Value `json:"parts,omitempty"`
}

// Parse makes one tree of a form's parameters.
func Parse(form url.Values) *Value {
	root := &Value{}
	for name, values := range form {
		if len(values) > 0 {
			root.put(strings.Split(name, "."), values[0])
		}
	}
	return root
}

func (v *Value) put(path []string, text string) {
	for _, name := range path {
		if v.Parts == nil {
			v.Parts = map[string]*Value{}
		}
		next := v.Parts[name]
		if next == nil {
			next = &Value{}
			v.Parts[name] = next
		}
		v = next
	}
	v.Text = text
}

// At is what stands at a path such as "LaunchTemplate.Version"; nil if that was not given.
func (v *Value) At(path string) *Value {
	for name := range strings.SplitSeq(path, ".") {
		if v == nil {
			return nil
		}
		v = v.Parts[name]
	}
	return v
}

// Get is the text at a path; empty if there is none.
func (v *Value) Get(path string) string {
	if at := v.At(path); at != nil {
		return at.Text
	}
	return ""
}

// Has tells whether something was given at a path, an empty text included.
func (v *Value) Has(path string) bool { return v.At(path) != nil }

// True tells whether the text at a path is "true".
func (v *Value) True(path string) bool { return strings.EqualFold(v.Get(path), "true") }

// List is the list at a path in the order of its numbers, whether they stand there or below "member".
func (v *Value) List(path string) []*Value {
	at := v.At(path)
	if at == nil {
		return nil
	}
	if member := at.Parts["member"]; member != nil {
		at = member
	}
	var numbers []int
	for name := range at.Parts {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	out := make([]*Value, 0, len(numbers))
	for _, n := range numbers {
		out = append(out, at.Parts[strconv.Itoa(n)])
	}
	return out
}

// Texts is the list at a path where it is one of texts.
func (v *Value) Texts(path string) []string {
	var out []string
	for _, e := range v.List(path) {
		out = append(out, e.Text)
	}
	return out
}

// IsList tells whether the value's parts are numbered.
func (v *Value) IsList() bool {
	if v == nil || len(v.Parts) == 0 {
		return false
	}
	if v.Parts["member"] != nil {
		return true
	}
	for name := range v.Parts {
		if _, err := strconv.Atoi(name); err != nil {
			return false
		}
	}
	return true
}

// Names are the names of the value's parts, sorted.
func (v *Value) Names() []string {
	if v == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.Parts))
}

// Copy is a value of its own without the named parts.
func (v *Value) Copy(without ...string) *Value {
	if v == nil {
		return nil
	}
	out := &Value{Text: v.Text}
	for name, part := range v.Parts {
		if slices.Contains(without, name) {
			continue
		}
		if out.Parts == nil {
			out.Parts = map[string]*Value{}
		}
		out.Parts[name] = part.Copy()
	}
	return out
}

// Set writes a text at a path.
func (v *Value) Set(path, text string) { v.put(strings.Split(path, "."), text) }

// Over is the value with another's parts in place of its own of these names. Neither is changed.
func (v *Value) Over(other *Value) *Value {
	out := v.Copy()
	if out == nil {
		out = &Value{}
	}
	for _, name := range other.Names() {
		if out.Parts == nil {
			out.Parts = map[string]*Value{}
		}
		out.Parts[name] = other.Parts[name].Copy()
	}
	return out
}

// String is the value on one line in a form that is equal for equal values.
func (v *Value) String() string {
	var out strings.Builder
	v.write(&out, "")
	return out.String()
}

func (v *Value) write(out *strings.Builder, path string) {
	if v == nil {
		return
	}
	if len(v.Parts) == 0 {
		out.WriteString(path + "=" + url.QueryEscape(v.Text) + "&")
	}
	for _, name := range v.Names() {
		v.Parts[name].write(out, strings.TrimPrefix(path+"."+name, "."))
	}
}
