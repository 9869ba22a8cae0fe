package v1alpha1_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// policy is the least that a person has to write.
func policy(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PrototypePolicy"))
	return u
}

// aBlackout is a list with one blackout, of which one field is set.
func aBlackout(field, value string) []any {
	b := map[string]any{"start": "0 0 24 12 *", "duration": "72h"}
	b[field] = value
	return []any{b}
}

// TestPolicyIsRefused has a case for every rule that a policy can break.
func TestPolicyIsRefused(t *testing.T) {
	annotation := []any{"", "-x", "Kured/x", "weave.works/", "/x", "a b", strings.Repeat("x", 64)}
	zone := []any{"Local", "Europe/Atlantis", "+02:00", "", "Europe/Berlin "}
	cron := []any{"", "@daily", "* * * *", "0 2 * * * *", "TZ=UTC 0 2 * * *", "CRON_TZ=UTC 0 2 * * *", " 0 2 * * *", "every night"}
	names := func(values ...any) []any { return []any{values} }
	long := strings.Repeat("x", 4097)
	tests := []struct {
		path   string
		values []any
		says   string
	}{
		{"pools", []any{map[string]any{"names": []any{"a"}, "nodeSelector": map[string]any{}}}, "use either names or nodeSelector"},
		{"pools.names", []any{[]any{}}, "should have at least 1 items"},
		{"pools.names", names("a", "a"), "Duplicate value"},
		{"pools.names", names(""), "spec.pools.names[0]"},
		{"pools.names", names(strings.Repeat("p", 129)), "spec.pools.names[0]: Too long"},
		{"patched", []any{map[string]any{}}, "set either preset, or both"},
		{"patched", []any{map[string]any{"mostRecentPatch": "a"}, map[string]any{"rebootPending": "b"}}, "set either preset, or both"},
		{"patched", []any{
			map[string]any{"preset": "kured", "mostRecentPatch": "a"},
			map[string]any{"preset": "kamino", "rebootPending": "b"},
			map[string]any{"preset": "kured", "mostRecentPatch": "a", "rebootPending": "b"},
		}, "set either preset"},
		{"patched.preset", []any{"", "Kured", "wsus"}, `supported values: "kured", "kamino"`},
		{"patched.mostRecentPatch", annotation, "spec.patched.mostRecentPatch"},
		{"patched.rebootPending", annotation, "spec.patched.rebootPending"},
		{"selection.minReadyTime", []any{"-1s", "1d", "soon", "", "1h 30m"},
			"minReadyTime must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"selection.minReadyTime", []any{"", "soon", "1d"}, "spec.selection.minReadyTime"},
		{"selection.minCandidates", []any{int64(0), int64(-1)}, "should be greater than or equal to 1"},
		{"selection.minCandidates", []any{int64(100001)}, "should be less than or equal to 100000"},
		{"selection.keepFromScaleDown", []any{"-1s", "169h"}, "keepFromScaleDown must be a time such as 90m or 36h (days have no unit), and at most 168h"},
		{"selection.maxImageAge", []any{"-1s"}, "maxImageAge must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"selection.maxImageAge", []any{"30d", int64(30)}, "spec.selection.maxImageAge"},
		{"selection.ignoreNodes", names("n", "n"), "Duplicate value"},
		{"selection.ignoreNodes", names(""), "spec.selection.ignoreNodes[0]"},
		{"selection.ignoreAnnotations", names(""), "spec.selection.ignoreAnnotations[0]"},
		{"selection.ignoreLabels", names(""), "spec.selection.ignoreLabels[0]"},
		{"selection.refuse", []any{"", long}, "spec.selection.refuse"},
		{"selection.score", []any{"", long}, "spec.selection.score"},
		{"schedule.cron", cron, "spec.schedule.cron"},
		{"schedule.window", []any{"1h"}, "window and timeZone need cron"},
		{"schedule.timeZone", []any{"UTC"}, "window and timeZone need cron"},
		{"schedule", []any{map[string]any{"cron": "0 2 * * *", "window": "59s"}},
			"window must be a time such as 90s, 30m or 36h (days have no unit), and at least 1m"},
		{"schedule.minInterval", []any{"-1s"}, "minInterval must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"schedule.blackouts", []any{aBlackout("duration", "0s"), aBlackout("duration", "-1h")},
			"duration must be a time such as 90s, 30m or 36h (days have no unit), and at least 1m"},
		{"schedule.blackouts", []any{aBlackout("start", "@daily"), aBlackout("start", "")}, "spec.schedule.blackouts[0].start"},
		{"schedule.blackouts", []any{aBlackout("timeZone", "Mars/Olympus")}, "spec.schedule.blackouts[0].timeZone"},
		{"schedule.blackouts", []any{[]any{map[string]any{"start": "0 0 * * *"}}}, "spec.schedule.blackouts[0].duration: Required value"},
		{"schedule.blackouts", []any{[]any{map[string]any{"duration": "1h"}}}, "spec.schedule.blackouts[0].start: Required value"},
		{"settings.keep", []any{int64(1)}, "should be greater than or equal to 2"},
		{"settings.drain.timeout", []any{"0s"}, "timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"},
		{"maxConcurrent", []any{int64(0), int64(-1)}, "should be greater than or equal to 1"},
		{"rebuild.atImages", []any{int64(1), int64(-1)}, "should be greater than or equal to 2"},
		{"rebuild.atImages", []any{int64(1001)}, "should be less than or equal to 1000"},
		{"rebuild", []any{map[string]any{"outdated": map[string]any{"after": "-1h"}}},
			"after must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"rebuild", []any{map[string]any{"outdated": map[string]any{"perHour": int64(-1)}}}, "should be greater than or equal to 1"},
		{"rebuild", []any{map[string]any{"outdated": map[string]any{"perHour": int64(1001)}}}, "should be less than or equal to 1000"},
		{"maxConcurrent", []any{int64(1001)}, "should be less than or equal to 1000"},
		{"failures.limit", []any{int64(0), int64(-1)}, "should be greater than or equal to 1"},
		{"failures.limit", []any{int64(101)}, "should be less than or equal to 100"},
		{"failures.backoff", []any{"-1s"}, "backoff must be a time such as 90s, 30m or 36h (days have no unit), and not negative"},
		{"suspend", []any{"yes"}, "must be of type boolean"},
	}
	for _, value := range zone {
		tests = append(tests, struct {
			path   string
			values []any
			says   string
		}{"schedule", []any{map[string]any{"cron": "0 2 * * *", "timeZone": value}}, "spec.schedule.timeZone"})
	}
	c := apitest.Client(t)
	for _, test := range tests {
		for _, value := range test.values {
			err := c.Create(t.Context(), with(t, policy("refused"), test.path, value))
			switch {
			case err == nil:
				t.Errorf("%s = %q was taken", test.path, value)
				_ = c.Delete(t.Context(), policy("refused"))
			case !apierrors.IsInvalid(err):
				t.Errorf("%s = %q: got %v, want Invalid", test.path, value, err)
			case !strings.Contains(err.Error(), test.says):
				t.Errorf("%s = %q: got %q, want it to say %q", test.path, value, err, test.says)
			}
		}
	}
}

// TestPolicyIsAccepted walks along the inner side of each limit.
func TestPolicyIsAccepted(t *testing.T) {
	c := apitest.Client(t)
	tests := map[string][]any{
		"pools":                       {map[string]any{}, map[string]any{"nodeSelector": map[string]any{}}},
		"pools.names":                 {[]any{"w", strings.Repeat("p", 128)}},
		"pools.nodeSelector":          {map[string]any{"matchLabels": map[string]any{"pool": "a"}}},
		"patched.preset":              {"kured", "kamino"},
		"patched":                     {map[string]any{"mostRecentPatch": "example.com/patched", "rebootPending": "reboot_Pending"}},
		"selection.minReadyTime":      {"0s", "90m"},
		"selection.minCandidates":     {int64(1), int64(100000)},
		"selection.keepFromScaleDown": {"0s", "168h"},
		"selection.maxImageAge":       {"0s", "720h"},
		"selection.ignoreNodes":       {[]any{}, []any{"n1", "n2"}},
		"selection.ignoreAnnotations": {[]any{"example.com/keep"}},
		"selection.refuse":            {"x", strings.Repeat("x", 4096)},
		"schedule.cron":               {"0 2 * * *", "*/5  0-23/2 1,15 JAN-mar MON", "0 0 30 2 *"},
		"schedule": {
			map[string]any{"cron": "0 2 * * *", "window": "1m", "timeZone": "Europe/Berlin"},
			map[string]any{"cron": "0 2 * * *", "timeZone": "Etc/GMT+5"},
			map[string]any{"blackouts": aBlackout("timeZone", "America/Argentina/Buenos_Aires"), "minInterval": "0s"},
		},
		"rebuild": {map[string]any{}, map[string]any{"outdated": map[string]any{}},
			map[string]any{"outdated": map[string]any{"after": "0s", "perHour": int64(1000)}}},
		"rebuild.atImages": {int64(2), int64(1000)},
		"maxConcurrent":    {int64(1), int64(1000)},
		"failures.limit":   {int64(1), int64(100)},
		"failures.backoff": {"0s"},
		"suspend":          {true},
		"dryRun":           {true},
	}
	for path, values := range tests {
		for _, value := range values {
			u := with(t, policy("taken"), path, value)
			if err := client.WithFieldValidation(c, "Strict").Create(t.Context(), u); err != nil {
				t.Errorf("%s = %v was refused: %v", path, value, err)
				continue
			}
			if err := c.Delete(t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
	}
}
