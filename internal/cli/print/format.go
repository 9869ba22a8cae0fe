package print

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is a form of output, as the flag -o names it.
type Format string

// The forms of output. Text is what a command says when nothing was asked for.
const (
	Text  Format = ""
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// ParseFormat reads the flag -o. The formats are the ones that the command knows.
func ParseFormat(text string, known ...Format) (Format, error) {
	if f := Format(text); f == Text || slices.Contains(known, f) {
		return f, nil
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = string(f)
	}
	return Text, fmt.Errorf("unknown output format %q: use %s", text, strings.Join(names, ", "))
}

// Machine tells whether a program reads the output, so that nothing but the object may stand in it.
func (f Format) Machine() bool { return f == JSON || f == YAML || f == Name }

// Value writes a value as JSON or YAML. YAML has no way to escape what changes the direction of text: a value that holds such characters
// is written as JSON, which is YAML too.
func Value(w io.Writer, format Format, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	plain := text
	text = escaped(plain)
	if format == YAML && bytes.Equal(text, plain) {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err = w.Write(append(bytes.TrimRight(text, "\n"), '\n'))
	return err
}
