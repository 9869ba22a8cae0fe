// Package query implements the query protocol: parameters with paths as names ("Filter.1.Value.2=x"), and answers in
// XML. The package knows no action and no service.
package query

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Value is a parameter: a text, or parts by name. Numbered parts form a list. A nil Value is an absent parameter; all
// methods accept nil.
type Value struct {
	Text  string            `json:"text,omitempty"`
	Parts map[string]*Value `json:"parts,omitempty"`
	// read has the names of the parts that a caller has read, for the parameters of a tracked request.
	read map[string]bool
}

// Parse builds a tree from the parameters of a form.
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

// At returns the value at a path such as "LaunchTemplate.Version"; nil if absent.
func (v *Value) At(path string) *Value {
	for name := range strings.SplitSeq(path, ".") {
		if v == nil {
			return nil
		}
		if v.read != nil {
			v.read[name] = true
		}
		v = v.Parts[name]
	}
	return v
}

// Track forgets which parts were read, and records reads from now on.
func (v *Value) Track() { v.read = map[string]bool{} }

// Unread returns the names of the parts that no caller has read since Track, sorted.
func (v *Value) Unread() []string {
	var out []string
	for _, name := range v.names() {
		if !v.read[name] {
			out = append(out, name)
		}
	}
	return out
}

// Rest is a deep copy without the named parts. Rest reads all parts of the copy.
func (v *Value) Rest(without ...string) *Value {
	out := v.Copy(without...)
	for _, name := range out.names() {
		v.At(name)
	}
	return out
}

// Get is the text at a path; empty if there is none.
func (v *Value) Get(path string) string {
	if at := v.At(path); at != nil {
		return at.Text
	}
	return ""
}

// Has reports whether a path has a value. An empty text is a value.
func (v *Value) Has(path string) bool { return v.At(path) != nil }

// True reports whether the text at a path is "true".
func (v *Value) True(path string) bool { return strings.EqualFold(v.Get(path), "true") }

// List returns the list at a path, sorted by number. The numbers may be below "member".
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

// Texts returns the texts of the list at a path.
func (v *Value) Texts(path string) []string {
	var out []string
	for _, e := range v.List(path) {
		out = append(out, e.Text)
	}
	return out
}

// IsList reports whether the parts of the value are numbered.
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

// Names are the names of the value's parts, sorted. The caller reads all parts.
func (v *Value) Names() []string {
	all := v.names()
	for _, name := range all {
		v.At(name)
	}
	return all
}

func (v *Value) names() []string {
	if v == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.Parts))
}

// Copy is a deep copy without the named parts.
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

// Over is a copy of the value in which parts of other replace parts with the same name.
func (v *Value) Over(other *Value) *Value {
	out := v.Copy()
	if out == nil {
		out = &Value{}
	}
	for _, name := range other.names() {
		if out.Parts == nil {
			out.Parts = map[string]*Value{}
		}
		out.Parts[name] = other.Parts[name].Copy()
	}
	return out
}

// String is a canonical form on one line: equal values have equal strings.
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
	for _, name := range v.names() {
		v.Parts[name].write(out, strings.TrimPrefix(path+"."+name, "."))
	}
}
