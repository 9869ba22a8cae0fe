package capi

import (
	"slices"
	"strings"
	"testing"
)

// TestInstancesToDelete: names of instances show their state. r is ready, u is unready, l has the latest model, o has an older
// model, and a star is a mark.
func TestInstancesToDelete(t *testing.T) {
	for name, c := range map[string]struct {
		all     string
		desired int
		away    int
		skips   bool
		want    string
	}{
		"nothing to do":              {"rl0 rl1", 2, 1, false, ""},
		"older ones, the gate skips": {"ro0 ro1", 2, 1, true, ""},
		"older ones roll":            {"ro0 ro1 rl2", 3, 1, false, "ro0"},
		"older ones may not be away": {"ro0 ro1", 2, 0, false, ""},
		"older ones, one is away":    {"ro0 uo1", 2, 1, false, ""},
		"too many, the oldest":       {"ro0 rl1 ro2", 2, 0, true, "ro0"},
		"too many, an older model":   {"rl0 ro1 rl2", 2, 0, false, "ro1"},
		"too many, not ready first":  {"ro0 uo1 ro2", 2, 0, true, "uo1"},
		"marked alone":               {"ro0 ro1 rl2*", 2, 1, false, "rl2*"},
		"marked though not too many": {"rl0 rl1*", 2, 1, true, "rl1*"},
	} {
		var all []poolMachine
		for text := range strings.FieldsSeq(c.all) {
			all = append(all, poolMachine{name: text, ready: text[0] == 'r', latest: text[1] == 'l', marked: strings.HasSuffix(text, "*")})
		}
		if have := instancesToDelete(all, c.desired, c.away, c.skips); !slices.Equal(have, strings.Fields(c.want)) {
			t.Errorf("%s: %v go, want %s", name, have, c.want)
		}
	}
}
