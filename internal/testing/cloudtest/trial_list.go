package cloudtest

import (
	"maps"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func listsTrials(t *testing.T, s suite) {
	power, spec := toTry(t, s)
	listed := func(when string, want ...cloud.TrialSpec) []cloud.TrialSpec {
		t.Helper()
		list := got(power.Trials(t.Context(), s.Pool))(t)
		if len(list) != len(want) {
			t.Fatalf("%s, these are listed: %+v", when, list)
		}
		for i, have := range list {
			if have.Name != want[i].Name || have.Version != want[i].Version || have.Pool != s.Pool || !maps.Equal(have.Tags, want[i].Tags) {
				t.Errorf("%s, it is listed as %+v, and was begun as %+v", when, have, want[i])
			}
		}
		return list
	}
	listed("before")
	unchanged := stands(t, s)
	must(t, func() error { _, err := power.EnsureTrial(t.Context(), spec); return err }())
	listed("just begun", spec)
	built := beginTrial(t, s, power, spec)
	if found := got(power.Trials(t.Context()))(t); len(found) > 0 {
		t.Errorf("of no pool, these are listed: %+v", found)
	}
	endTrial(t, s, power, listed("at work", spec)[0], built.Instances...)
	listed("ended")
	unchanged(t)
}
