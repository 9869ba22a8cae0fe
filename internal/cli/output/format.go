package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is a form of output, the value of the flag -o.
type Format string

// Forms of output. Text is the default.
const (
	Text  Format = ""
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// ParseFormat reads the flag -o. known are the formats of the command.
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

// Machine reports whether a program reads the output, so that the output holds only the object.
func (f Format) Machine() bool { return f == JSON || f == YAML || f == Name }

// Value writes a value as JSON or YAML. YAML cannot escape characters that change the direction of text: a value with such
// characters becomes JSON, which is valid YAML.
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
