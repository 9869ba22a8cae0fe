package trial_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/trial"
)

func TestLimitsWithinATimeout(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, soak time.Duration
		want          trial.Limits
	}{
		"the defaults": {2 * time.Hour, 10 * time.Minute, trial.Limits{Soak: 10 * time.Minute}.Defaulted()},
		"a long soak":  {6 * time.Hour, time.Hour, trial.Limits{Soak: time.Hour}.Defaulted()},
		"short": {time.Minute, 3 * time.Second, trial.Limits{
			Provision: 30 * time.Second, Register: 30 * time.Second, Ready: 30 * time.Second, Daemons: 30 * time.Second,
			Settle: 3 * time.Second, Soak: 3 * time.Second, Measure: 30 * time.Second, Job: 30 * time.Second, Reboot: 30 * time.Second,
		}},
		"no soak": {2 * time.Hour, 0, trial.Limits{Settle: 1, Soak: 1}.Defaulted()},
	} {
		if diff := cmp.Diff(c.want, trial.Within(c.timeout, c.soak)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
