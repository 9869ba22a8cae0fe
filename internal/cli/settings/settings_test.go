package settings

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		values  []Value
		want    func(*v1alpha1.Settings) // what differs from the defaults
		most    int32
		pioneer *v1alpha1.PioneerSettings
		written map[string]any
	}{
		"nothing":     {text: "", written: map[string]any{}},
		"comments":    {text: "# mine\n---\n", written: map[string]any{}},
		"no settings": {text: "settings:\n", written: map[string]any{}},
		"a limit":     {text: "maxConcurrent: 3", most: 3, written: map[string]any{}},
		"a pioneer":   {text: "pioneer: {patches: All}", pioneer: &v1alpha1.PioneerSettings{Patches: v1alpha1.PatchAll}, written: map[string]any{}},
		"a setting":   {text: "settings: {keep: 7}", want: func(s *v1alpha1.Settings) { s.Keep = 7 }, written: map[string]any{"keep": int64(7)}},
		"JSON": {text: `{"settings": {"keep": 7}}`, want: func(s *v1alpha1.Settings) { s.Keep = 7 },
			written: map[string]any{"keep": int64(7)}},
		"line ends of Windows": {text: "settings:\r\n  keep: 7\r\n", want: func(s *v1alpha1.Settings) { s.Keep = 7 },
			written: map[string]any{"keep": int64(7)}},
		"a zero, as written": {text: "settings: {keep: 0}", written: map[string]any{"keep": int64(0)}},
		"a zero time":        {text: "settings: {drain: {timeout: 0s}}", written: map[string]any{"drain": map[string]any{"timeout": "0s"}}},
		"a flag without a file": {values: []Value{{"drain.force", true}}, want: func(s *v1alpha1.Settings) { s.Drain.Force = true },
			written: map[string]any{"drain": map[string]any{"force": true}}},
		"a flag next to a field": {text: "settings: {trial: {soak: 1m}}", values: []Value{{"trial.mode", "Off"}},
			want:    func(s *v1alpha1.Settings) { s.Trial.Mode = "Off"; s.Trial.Soak.Duration = time.Minute },
			written: map[string]any{"trial": map[string]any{"mode": "Off", "soak": "1m"}}},
		"a flag before a field": {text: "settings: {trial: {mode: Apart}}", values: []Value{{"trial.mode", "Off"}},
			want: func(s *v1alpha1.Settings) { s.Trial.Mode = "Off" }, written: map[string]any{"trial": map[string]any{"mode": "Off"}}},
		"a flag below nothing": {text: "settings: {trial: }", values: []Value{{"trial.mode", "Off"}},
			want: func(s *v1alpha1.Settings) { s.Trial.Mode = "Off" }, written: map[string]any{"trial": map[string]any{"mode": "Off"}}},
		"a flag of the top": {values: []Value{{"keep", int64(4)}}, want: func(s *v1alpha1.Settings) { s.Keep = 4 },
			written: map[string]any{"keep": int64(4)}},
	} {
		want := Capture{Settings: v1alpha1.Settings{}.Defaulted(), MaxConcurrent: test.most, Pioneer: test.pioneer, Written: test.written}
		if test.want != nil {
			test.want(&want.Settings)
		}
		got, err := Parse("mine.yaml", []byte(test.text), test.values...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestBadSettings: a settings file with an error is refused, and the message names the file and the field.
func TestBadSettings(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":             {"a: [", "mine.yaml: "},
		"a list":              {"- a\n- b\n", "mine.yaml: json: cannot unmarshal array"},
		"settings at the top": {"keep: 7", `mine.yaml: unknown field "keep": use the fields settings, maxConcurrent and pioneer of a policy's spec`},
		"a whole policy": {"apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: a}\n",
			`unknown field "apiVersion", unknown field "kind", unknown field "metadata"`},
		"an unknown setting": {"settings: {kepe: 7}", `unknown field "settings.kepe"`},
		"one below":          {"settings: {drain: {timeOut: 7m}}", `unknown field "settings.drain.timeOut"`},
		"two":                {"settings: {kepe: 7, drain: {timeOut: 7m}}", `"settings.drain.timeOut", unknown field "settings.kepe"`},
		"another case":       {"Settings: {keep: 7}", `unknown field "Settings"`},
		"a field twice":      {"settings: {keep: 7, keep: 8}", `key "keep" already set`},
		"two documents":      {"settings: {}\n---\nsettings: {}\n", "mine.yaml contains several documents"},
		"a limit of none":    {"maxConcurrent: 0", "mine.yaml: maxConcurrent must be at least 1, not 0"},
		"a negative limit":   {"maxConcurrent: -1", "mine.yaml: maxConcurrent must be at least 1, not -1"},
		"a time without a unit": {"settings: {keep: 7, drain: {force: true, timeout: \"15\"}}",
			`mine.yaml: settings.drain.timeout: time: missing unit in duration "15"`},
		"a number for a time":      {"settings: {outOfService: {deadline: 5}}", "mine.yaml: settings.outOfService.deadline: "},
		"a word for a number":      {"settings: {keep: many}", "mine.yaml: settings.keep: "},
		"a number that is too big": {"settings: {keep: 4294967296}", "mine.yaml: settings.keep: "},
		"a value for an object":    {"settings: {drain: fast}", "mine.yaml: settings.drain: "},
		"a list of settings":       {"settings: [keep]", "mine.yaml: settings: "},
		"a wrong list":             {"settings: {trial: {ignoreDaemonSets: a/b}}", "mine.yaml: settings.trial.ignoreDaemonSets: "},
		"unknown and wrong":        {"settings: {a: 1, keep: many}", "mine.yaml: settings.keep: "},
		"YAML's boolean for Off": {"settings: {trial: {mode: off}}",
			`of type string: YAML reads Off without quotes as false, so write "Off"`},
		"a separator within a map": {"settings:\n  keep: 7\n---\nmaxConcurrent: 1\n", "several documents"},
	} {
		_, err := Parse("mine.yaml", []byte(test.text))
		var invalid *Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := Parse("the flags", nil, Value{"keep", "many"}); err == nil || !strings.Contains(err.Error(), "the flags: settings.keep: ") {
		t.Errorf("a flag with a wrong value: %v", err)
	}
}
