package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// Hostile texts in a name, a tag or an error.
var hostile = map[string]struct{ text, shown string }{
	"clipboard":            {"a\x1b]52;c;cm0gLXJm\x07b", "a�]52;c;cm0gLXJm�b"},
	"hidden text":          {"a\x1b[8mb\x1b[0m", "a�[8mb�[0m"},
	"C1 as characters":     {"a\u009b8mb\u009d0;t\u009c", "a�8mb�0;t�"},
	"C1 as bytes":          {"a\x9b8mb", "a�8mb"},
	"another direction":    {"a\u202eb\u2066c\u200f\u061c", "a�b�c��"},
	"backspace and delete": {"ab\b\x7fc\x00", "ab��c�"},
	"a line over another":  {"a\rb", "a�b"},
	"lines and columns":    {"a\tb\nc\r\nd", "a\tb\nc\nd"},
	"other languages":      {"zwölf 一 🙂 שלום e\u0301 a\u200db", "zwölf 一 🙂 שלום e\u0301 a\u200db"},
}

func TestControlCharactersAreReplaced(t *testing.T) {
	for name, test := range hostile {
		for _, piece := range []int{1, 2, 100} { // characters may come in parts
			var out bytes.Buffer
			s := NewSafe(&out)
			for rest := []byte(test.text); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				part := rest[:min(piece, len(rest))]
				if n, err := s.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if out.String() != test.shown {
				t.Errorf("%s, %d bytes at once: %q, want %q", name, piece, out.String(), test.shown)
			}
		}
	}
}

func TestNothingControlsATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		s := NewSafe(&out)
		for _, part := range rapid.SliceOf(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x1b[\r\n\x9b\xc2\xe2\x80\xae"))))).Draw(t, "parts") {
			_, _ = s.Write(part)
		}
		if !utf8.Valid(out.Bytes()) || bytes.ContainsFunc(out.Bytes(), hidden) {
			t.Fatalf("%q", out.String())
		}
	})
}

func TestASafeWriterReportsErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	if _, err := NewSafe(failing{broken}).Write([]byte("a")); !errors.Is(err, broken) {
		t.Error(err)
	}
	var out bytes.Buffer
	if Raw(NewSafe(&out)) != &out || Raw(&out) != &out {
		t.Error("the writer below is another")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestValuesSurviveEscapes: JSON and YAML escape control characters without a change of the value.
func TestValuesSurviveEscapes(t *testing.T) {
	for _, format := range []Format{JSON, YAML} {
		for name, test := range hostile {
			want := strings.ToValidUTF8(test.text, "�")
			var out bytes.Buffer
			if err := Value(NewSafe(&out), format, map[string]string{"said": test.text}); err != nil {
				t.Fatal(err)
			}
			if bytes.ContainsFunc(out.Bytes(), hidden) {
				t.Errorf("%s as %s: %q", name, format, out.String())
			}
			var got struct{ Said string }
			if err := unmarshal(format, out.Bytes(), &got); err != nil || got.Said != want {
				t.Errorf("%s as %s: %v, %q, want %q", name, format, err, got.Said, want)
			}
		}
	}
}

func unmarshal(format Format, text []byte, into any) error {
	if format == YAML {
		return yaml.Unmarshal(text, into)
	}
	return json.Unmarshal(text, into)
}
