package cloudtest

import (
	"maps"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func listsTrials(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	listed := func(when string, want ...cloud.TrialSpec) []cloud.TrialSpec {
		t.Helper()
		list := got(power.Trials(t.Context(), s.Pool))(t)
		if len(list) != len(want) {
			t.Fatalf("%s, these are listed: %+v", when, list)
		}
		for i, have := range list {
			if have.Name != want[i].Name || have.InPool != want[i].InPool || have.Version != want[i].Version || have.Pool != s.Pool ||
				have.InPool && have.Image != want[i].Image || !maps.Equal(have.Tags, want[i].Tags) {
				t.Errorf("%s, it is listed as %+v, and was begun as %+v", when, have, want[i])
			}
		}
		return list
	}
	listed("before")
	for _, inPool := range ways(s) {
		unchanged := stands(t, s)
		spec := trialSpec(t, s, "listed", inPool)
		must(t, func() error { _, err := power.EnsureTrial(t.Context(), spec); return err }())
		listed("just begun", spec)
		built := beginTrial(t, s, power, spec)
		if found := got(power.Trials(t.Context()))(t); len(found) > 0 {
			t.Errorf("of no pool, these are listed: %+v", found)
		}
		listed("at work", spec)
		if inPool { // closed by another process
			must(t, power.CloseTrial(t.Context(), listed("open", spec)[0]))
		}
		endTrial(t, s, power, listed("closed", spec)[0], built.Instances...)
		listed("ended")
		unchanged(t)
	}
}

func triesBesideOnly(t *testing.T, s suite) {
	if !s.Apart {
		t.Skip("this provider tries versions in the pool, too")
	}
	power, _ := toTry(t, s, false)
	unchanged := stands(t, s)
	spec := trialSpec(t, s, "in-the-pool", true)
	_, err := power.EnsureTrial(t.Context(), spec)
	wantRefusal(t, err)
	endTrial(t, s, power, spec)
	s.Advance(t)
	unchanged(t)
}
