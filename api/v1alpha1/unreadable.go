package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Unreadable names the fields of a stored object that this version of Kamino cannot decode. An older or newer definition
// may have allowed these fields. Without Unreadable, one such object would make whole lists of objects unreadable.
type Unreadable []string

const (
	// maxUnreadable is how many fields are named, and maxValue how much of a value is shown, in bytes.
	maxUnreadable = 5
	maxValue      = 40
)

// InSpec reports whether anything but the status cannot be decoded.
func (u Unreadable) InSpec() bool {
	return slices.ContainsFunc(u, func(field string) bool { return !strings.HasPrefix(field, "status") })
}

// in returns an error if a part of the field cannot be decoded.
func (u Unreadable) in(field string) error {
	for _, one := range u {
		if rest, is := strings.CutPrefix(one, field); is && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, " ")) {
			return fmt.Errorf("%s cannot be read: %s", field, one)
		}
	}
	return nil
}

// String lists the fields with their values.
func (u Unreadable) String() string {
	message := strings.Join(u[:min(len(u), maxUnreadable)], "; ")
	if more := len(u) - maxUnreadable; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return message
}

// Of is a sentence about an object with these unreadable fields; empty without such fields.
func (u Unreadable) Of(kind, name string) string {
	if len(u) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s cannot be read: %s", kind, name, u)
}

// UnmarshalJSON decodes what can be decoded.
func (p *Prototype) UnmarshalJSON(text []byte) error {
	type plain Prototype
	unreadable, err := decodeReadable(text, (*plain)(p))
	p.Unreadable = unreadable
	return err
}

// UnmarshalJSON decodes what can be decoded.
func (p *PrototypePolicy) UnmarshalJSON(text []byte) error {
	type plain PrototypePolicy
	unreadable, err := decodeReadable(text, (*plain)(p))
	p.Unreadable = unreadable
	return err
}

// UnmarshalJSON decodes what can be decoded.
func (o *NodeOrder) UnmarshalJSON(text []byte) error {
	type plain NodeOrder
	unreadable, err := decodeReadable(text, (*plain)(o))
	o.Unreadable = unreadable
	return err
}

// decodeReadable decodes an object as the decoder of Kubernetes does, without unreadable fields.
func decodeReadable[T any](text []byte, into *T) (Unreadable, error) {
	whole := utiljson.Unmarshal(text, into)
	if whole == nil {
		return nil, nil
	}
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, whole
	}
	c := cleaner{decodes: func(object any) bool {
		text, err := json.Marshal(object)
		return err == nil && utiljson.Unmarshal(text, new(T)) == nil
	}}
	readable, _ := c.clean("", object, func(value any) any { return value })
	text, err := json.Marshal(readable)
	if err != nil {
		return nil, whole
	}
	*into = *new(T) // the first attempt has filled in a part
	return c.unreadable, utiljson.Unmarshal(text, into)
}

// cleaner leaves unreadable fields out of an object.
type cleaner struct {
	decodes    func(object any) bool
	unreadable Unreadable
}

// clean returns as much of a value as can be decoded, and false if nothing can. within makes an object that holds only this value.
func (c *cleaner) clean(path string, value any, within func(any) any) (any, bool) {
	if c.decodes(within(value)) {
		return value, true
	}
	switch of := value.(type) {
	case map[string]any:
		if !c.decodes(within(map[string]any{})) {
			break
		}
		kept := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if readable, found := c.clean(join(path, key), of[key], func(v any) any { return within(map[string]any{key: v}) }); found {
				kept[key] = readable
			}
		}
		return kept, true
	case []any:
		if !c.decodes(within([]any{})) {
			break
		}
		kept := []any{}
		for i, item := range of {
			if readable, found := c.clean(fmt.Sprintf("%s[%d]", path, i), item, func(v any) any { return within([]any{v}) }); found {
				kept = append(kept, readable)
			}
		}
		return kept, true
	}
	c.unreadable = append(c.unreadable, fmt.Sprintf("%s is %s", path, short(value)))
	return nil, false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// short is the beginning of a value, as JSON.
func short(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "no JSON"
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(string(text[:maxValue]), "") + "…"
	}
	return string(text)
}
