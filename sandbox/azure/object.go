package azure

import (
	"encoding/json"
	"strings"
)

// object is a JSON object from a client. Stored objects never change in place: a change creates a new object, so that
// readers of the old object need no lock.
type object = map[string]any

// copyOf makes a deep copy.
func copyOf(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(object, len(t))
		for k, e := range t {
			out[k] = copyOf(e)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = copyOf(e)
		}
		return out
	default:
		return v
	}
}

func copyObject(o object) object {
	if o == nil {
		return object{}
	}
	return copyOf(o).(object)
}

// mergePatch applies RFC 7396: null removes, objects merge, everything else replaces.
func mergePatch(target, patch object) object {
	out := copyObject(target)
	for k, v := range patch {
		switch p := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			old, _ := out[k].(object)
			out[k] = mergePatch(old, p)
		default:
			out[k] = copyOf(v)
		}
	}
	return out
}

// at finds a value by path; nil if there is none.
func at(o object, path ...string) any {
	var v any = o
	for _, key := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func text(o object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func truth(o object, path ...string) bool {
	b, _ := at(o, path...).(bool)
	return b
}

func list(o object, path ...string) []any {
	l, _ := at(o, path...).([]any)
	return l
}

func child(o object, path ...string) object {
	m, _ := at(o, path...).(object)
	return m
}

// number reads an integer of any Go or JSON type.
func number(o object, path ...string) (int64, bool) {
	switch n := at(o, path...).(type) {
	case float64:
		return int64(n), n == float64(int64(n))
	case int:
		return int64(n), true
	case int64:
		return n, true
	default:
		return 0, false
	}
}

// put sets a value by path in place, and creates missing objects. Use put only on unshared objects.
func put(o object, value any, path ...string) {
	for _, key := range path[:len(path)-1] {
		next, ok := o[key].(object)
		if !ok {
			next = object{}
			o[key] = next
		}
		o = next
	}
	o[path[len(path)-1]] = value
}

// same compares two JSON values.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func fold(s string) string { return strings.ToLower(s) }
