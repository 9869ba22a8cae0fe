package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// parsed is the result of a capture's flags, with a standard input.
func parsed(t *testing.T, in string, args ...string) (captureFlags, error) {
	t.Helper()
	var flags captureFlags
	set := pflag.NewFlagSet("capture", pflag.ContinueOnError)
	flags.bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := flags.complete(set, []string{"node-1"}, strings.NewReader(in), testNow)
	return flags, err
}

// TestSettingsOfACapture: settings come from the file. A given flag replaces its setting in the file, and an absent flag
// does not.
func TestSettingsOfACapture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	content := "maxConcurrent: 3\nsettings: {keep: 7, drain: {force: true, timeout: 1m}, promotion: {mode: Manual}, trial: {mode: Apart, soak: 1m}}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ofFile := v1alpha1.Settings{
		Keep: 7, Drain: v1alpha1.DrainSettings{Force: true, Timeout: metav1.Duration{Duration: time.Minute}},
		Promotion: v1alpha1.PromotionSettings{Mode: v1alpha1.PromotionManual},
		Trial:     v1alpha1.TrialSettings{Mode: v1alpha1.TrialApart, Soak: &metav1.Duration{Duration: time.Minute}},
	}
	for name, test := range map[string]struct {
		in   string
		args []string
		want func(*v1alpha1.Settings)
		most int32
	}{
		"no file": {args: nil, want: func(s *v1alpha1.Settings) { *s = v1alpha1.Settings{} }},
		"a file":  {args: []string{"-f", file}, want: func(*v1alpha1.Settings) {}, most: 3},
		"standard input": {in: "settings: {keep: 5}", args: []string{"-f", "-"}, want: func(s *v1alpha1.Settings) {
			*s = v1alpha1.Settings{Keep: 5}
		}},
		"flags over a file": {
			args: []string{"-f", file, "--force=false", "--promotion=Automatic", "--trial=Off", "--profile=eks"},
			want: func(s *v1alpha1.Settings) {
				s.Drain.Force, s.Promotion.Mode, s.Trial.Mode = false, v1alpha1.PromotionAutomatic, v1alpha1.TrialOff
				s.Generalize.Profile = v1alpha1.ProfileEKS
			}, most: 3,
		},
	} {
		got, err := parsed(t, test.in, test.args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := *ofFile.DeepCopy()
		test.want(&want)
		if diff := cmp.Diff(want.Defaulted(), got.Settings); diff != "" || got.MaxConcurrent != test.most {
			t.Errorf("%s: at most %d at once, want %d (-want +got):\n%s", name, got.MaxConcurrent, test.most, diff)
		}
	}
}
