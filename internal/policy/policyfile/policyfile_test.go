package policyfile

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const head = "apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\n"

// policy is a document with one policy of the name, and further lines.
func policy(name string, more ...string) string {
	return head + "metadata: {name: " + name + "}\n" + strings.Join(more, "\n") + "\n"
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
		why  string
	}{
		"one":                       {policy("a"), []string{"a"}, ""},
		"two":                       {policy("a") + "---\n" + policy("b"), []string{"a", "b"}, ""},
		"two of a name, as written": {policy("a") + "---\n" + policy("a"), []string{"a", "a"}, ""},
		"empty documents":           {"---\n---\n" + policy("a") + "---\n\n", []string{"a"}, ""},
		"comments around it":        {"# mine\n" + policy("a") + "# the end\n", []string{"a"}, ""},
		"a document of comments":    {"# mine\n---\n" + policy("a"), []string{"a"}, ""},
		"JSON":                      {`{"apiVersion": "kamino.dev/v1alpha1", "kind": "PrototypePolicy", "metadata": {"name": "a"}}`, []string{"a"}, ""},
		"line ends of Windows":      {strings.ReplaceAll(policy("a")+"---\n"+policy("b"), "\n", "\r\n"), []string{"a", "b"}, ""},
		"no line end at the end":    {strings.TrimSpace(policy("a")), []string{"a"}, ""},
		"an end marked":             {policy("a") + "...\n", []string{"a"}, ""},
		"a setting":                 {policy("a", "spec: {suspend: true}"), []string{"a"}, ""},
		"nothing":                   {"", nil, "mine.yaml contains no policy"},
		"nothing but a line":        {"---\n", nil, "mine.yaml contains no policy"},
		"no YAML":                   {"a: [", nil, "mine.yaml: "},
		"a field that there is not": {policy("a", "spec: {suspended: true}"), nil, `unknown field "spec.suspended"`},
		"a field twice":             {policy("a", "spec: {suspend: true, suspend: false}"), nil, "already set"},
		"a value of another type":   {policy("a", "spec: {suspend: 3}"), nil, "mine.yaml: "},
		"a number that is too large": {policy("a", "spec: {settings: {outOfService: {maxUnavailable: 4294967296}}}"), nil,
			"cannot unmarshal number 4294967296"},
		"YAML's boolean for Off": {policy("a", "spec: {rollback: {mode: Off}}"), nil, `YAML reads Off without quotes as false, so write "Off"`},
		"a time that is none":    {policy("a", "spec: {rollback: {joinTimeout: soon}}"), nil, "mine.yaml: "},
		"a list":                 {"- a\n- b\n", nil, "mine.yaml: "},
		"another kind": {"apiVersion: kamino.dev/v1alpha1\nkind: Prototype\n", nil,
			"mine.yaml contains a Prototype of kamino.dev/v1alpha1: only PrototypePolicies"},
		"another version":               {"apiVersion: kamino.dev/v9\nkind: PrototypePolicy\n", nil, "of kamino.dev/v9"},
		"no kind":                       {"metadata: {name: a}\n", nil, "only PrototypePolicies"},
		"a good one, then another kind": {policy("a") + "---\napiVersion: v1\nkind: ConfigMap\n", nil, "contains a ConfigMap of v1"},
		"a good one, then no YAML":      {policy("a") + "---\na: [\n", nil, "mine.yaml: "},
		"a good one, then a typing":     {policy("a") + "---\n" + policy("b", "spek: {}"), nil, "spek"},
	} {
		got, err := Parse("mine.yaml", []byte(test.text))
		var invalid *Invalid
		switch {
		case (err == nil) != (test.why == ""), len(got) != len(test.want):
			t.Errorf("%s: %d policies, %v", name, len(got), err)
		case err != nil && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), test.why)):
			t.Errorf("%s: %v does not say %q", name, err, test.why)
		}
		for i := range got {
			if got[i].Name != test.want[i] {
				t.Errorf("%s: policy %d is %s", name, i, got[i].Name)
			}
		}
	}
}

// TestTheSettingsAreRead: the result equals the text.
func TestTheSettingsAreRead(t *testing.T) {
	got, err := Parse("mine.yaml", []byte(policy("a", "spec:", "  suspend: true", "  settings: {keep: 7}")))
	if err != nil || !got[0].Spec.Suspend || got[0].Spec.Settings.Keep != 7 || got[0].UID != "" {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestRejected: the error names the policy as its author does, and keeps the server's whole message.
func TestRejected(t *testing.T) {
	wrong := field.ErrorList{field.Invalid(field.NewPath("spec", "settings", "keep"), 1, "should be 2 or more")}
	refused := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PrototypePolicy").GroupKind(), "check-x7k2p", wrong)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"of the trial":    {refused, "policy mine: spec.settings.keep: Invalid value: 1: should be 2 or more"},
		"of nothing":      {errors.New("away"), "policy mine: away"},
		"of two of these": {errors.New(`x is invalid: y is invalid: z`), "policy mine: y is invalid: z"},
	} {
		if got := Rejected("mine", test.err).Error(); got != test.want || strings.Contains(got, "x7k2p") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if cause := errors.New("cause"); !errors.Is(Invalidf("file: %w", cause), cause) {
		t.Error("the cause is lost")
	}
}

// TestUnquoted: only a boolean for a text has the advice about quotes.
func TestUnquoted(t *testing.T) {
	for text, want := range map[string]bool{
		"spec: {rollback: {mode: Off}}":                 true,
		"spec: {settings: {trial: {mode: off}}}":        true,
		"spec: {pools: {names: [yes]}}":                 true,
		"spec: {rollback: {mode: 3}}":                   false,
		"spec: {settings: {outOfService: yes}}":         false,
		"spec: {settings: {keep: yes}}":                 false,
		"spec: {rollback: {mode: \"Off\"}, suspend: 3}": false,
	} {
		_, err := Parse("mine.yaml", []byte(policy("a", text)))
		if err == nil {
			t.Errorf("%s is accepted", text)
			continue
		}
		if got := strings.Contains(err.Error(), `so write "Off"`); got != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if policies, err := Parse("mine.yaml", []byte(policy("a", `spec: {rollback: {mode: "Off"}}`))); err != nil ||
		policies[0].Spec.Rollback.Mode != v1alpha1.RollbackOff {
		t.Errorf("%v, %+v", err, policies)
	}
}
