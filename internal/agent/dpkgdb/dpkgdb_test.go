package dpkgdb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestEach(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		"\n \n\n":                    nil,
		"a line without a name\n":    nil,
		"Package: a\n":               {"map[package:a]"},
		"Package: a\nVERSION:  1:2 ": {"map[package:a version:1:2]"},
		"Package: a\n\n\nPackage: b\nVersion: 1\n":                    {"map[package:a]", "map[package:b version:1]"},
		"Description: first\n second: x\n\tthird: y\n.\nPackage: a\n": {"map[description:first package:a]"},
	} {
		var got []string
		if err := Each(strings.NewReader(text), func(fields map[string]string) { got = append(got, fmt.Sprint(fields)) }); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestALongLineIsAnError(t *testing.T) {
	if err := Each(strings.NewReader(strings.Repeat("x", maxLine+1)), func(map[string]string) {}); err == nil {
		t.Error("the list is cut without an error")
	}
}
