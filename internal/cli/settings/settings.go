// Package settings reads the settings of a single capture: a file with fields of a policy's spec, and flags.
package settings

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy/policyfile"
)

// Invalid is the reason why a file has no valid settings.
type Invalid struct{ err error }

func invalidf(format string, args ...any) error { return &Invalid{fmt.Errorf(format, args...)} }

// Error implements error.
func (i *Invalid) Error() string { return i.err.Error() }

// Unwrap returns the cause.
func (i *Invalid) Unwrap() error { return i.err }

// Capture holds the fields of a policy's spec that apply to a single capture.
type Capture struct {
	// Settings of the capture, with the API's defaults.
	Settings v1alpha1.Settings
	// MaxConcurrent is how many nodes of the cluster may be out of service at once; zero without the field.
	MaxConcurrent int32
	// Pioneer of the capture; nil without the field.
	Pioneer *v1alpha1.PioneerSettings
	// Written holds the settings as written. The API refuses zeros, such as keep: 0, which Settings cannot hold.
	Written map[string]any
}

// captureFields are the fields of a settings file.
type captureFields struct {
	Settings      v1alpha1.Settings `json:"settings,omitzero"`
	MaxConcurrent *int32            `json:"maxConcurrent,omitempty"`

	Pioneer *v1alpha1.PioneerSettings `json:"pioneer,omitempty"`
}

// Value is a setting from elsewhere, such as a flag, with its path below settings.
type Value struct {
	Path  string
	Value any
}

// Read reads the file at the path, or standard input for -; no path is an empty file.
func Read(in io.Reader, path string, values ...Value) (Capture, error) {
	var text []byte
	var err error
	name := path
	switch path {
	case "":
		name = "the flags"
	case "-":
		name = "standard input"
		text, err = io.ReadAll(in)
	default:
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return Capture{}, invalidf("--filename: %w", err)
	}
	return Parse(name, text, values...)
}

// Parse reads the content of a settings file: the fields settings, maxConcurrent and pioneer of a policy's spec. Each of the values
// replaces the setting in the file. name is the file's name, for messages. All errors are Invalid.
func Parse(name string, text []byte, values ...Value) (Capture, error) {
	whole, err := onlyDocument(name, text)
	if err != nil {
		return Capture{}, err
	}
	var fields captureFields
	if err := decode(name, whole, &fields); err != nil {
		return Capture{}, err
	}
	if fields.MaxConcurrent != nil && *fields.MaxConcurrent < 1 {
		return Capture{}, invalidf("%s: maxConcurrent must be at least 1, not %d", name, *fields.MaxConcurrent)
	}
	c := Capture{Written: map[string]any{}, Pioneer: fields.Pioneer}
	if fields.MaxConcurrent != nil {
		c.MaxConcurrent = *fields.MaxConcurrent
	}
	if written, isMap := whole["settings"].(map[string]any); isMap {
		c.Written = written
	}
	for _, v := range values {
		set(c.Written, v)
	}
	if err := decode(name, map[string]any{"settings": c.Written}, &fields); err != nil {
		return Capture{}, err
	}
	c.Settings = fields.Settings.Defaulted()
	return c, nil
}

// onlyDocument returns the only document of a YAML stream; an empty stream is an empty document.
func onlyDocument(name string, text []byte) (map[string]any, error) {
	whole := map[string]any{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for found := false; ; {
		document, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return whole, nil
		case err != nil:
			return nil, invalidf("%s: %w", name, err)
		}
		read, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, invalidf("%s: %w", name, err)
		}
		switch {
		case string(read) == "null":
			continue
		case found:
			return nil, invalidf("%s contains several documents: use a single document with the fields settings, maxConcurrent and pioneer", name)
		}
		found = true
		if err := kjson.UnmarshalCaseSensitivePreserveInts(read, &whole); err != nil {
			return nil, invalidf("%s: %w", name, err)
		}
	}
}

// decode reads fields strictly: an unknown field is an error with the field's path.
func decode(name string, from map[string]any, into *captureFields) error {
	*into = captureFields{}
	if err := decodeAs(from, into); err != nil {
		at, err := firstWrong("", from, err, func(alone map[string]any) map[string]any { return alone })
		return invalidf("%s: %s%w", name, at, policyfile.Unquoted(err))
	}
	return nil
}

// decodeAs returns all unknown fields in one error.
func decodeAs(from map[string]any, into *captureFields) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err != nil || len(unknown) == 0 {
		return err
	}
	words := make([]string, len(unknown))
	for i, u := range unknown {
		words[i] = u.Error()
	}
	return fmt.Errorf("%s: use the fields settings, maxConcurrent and pioneer of a policy's spec", strings.Join(words, ", "))
}

// firstWrong returns the path of the first value that cannot be decoded alone, and the reason. whole puts a value back into
// the objects above. Without such a value, firstWrong returns the reason of the whole.
func firstWrong(path string, of map[string]any, why error, whole func(map[string]any) map[string]any) (string, error) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		within := func(value any) map[string]any { return whole(map[string]any{key: value}) }
		err := decodeAs(within(of[key]), &captureFields{})
		if err == nil || strings.HasPrefix(err.Error(), "unknown field") {
			continue
		}
		if inner, isMap := of[key].(map[string]any); isMap {
			return firstWrong(path+key+".", inner, err, func(alone map[string]any) map[string]any { return within(alone) })
		}
		return path + key + ": ", err
	}
	return "", why
}

// set writes a value at its path, with the objects above.
func set(into map[string]any, v Value) {
	first, rest, below := strings.Cut(v.Path, ".")
	if !below {
		into[first] = v.Value
		return
	}
	inner, isMap := into[first].(map[string]any)
	if !isMap {
		inner = map[string]any{}
		into[first] = inner
	}
	set(inner, Value{Path: rest, Value: v.Value})
}
