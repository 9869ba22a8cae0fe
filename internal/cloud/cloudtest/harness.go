package cloudtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Harness is one provider with one fresh pool: capturable, held by nothing, at least two running instances,
// no image version yet, room for at least one instance more. Fields are needed unless they say otherwise.
type Harness struct {
	Provider cloud.Provider
	Pool     cloud.PoolID
	// Instances of the pool, two or more, all running.
	Instances []cloud.InstanceID
	// Missing is the well-formed ID of an instance of the pool that does not exist.
	Missing cloud.InstanceID
	// Advance lets some time pass, so that long work may have moved on.
	Advance func(t testing.TB)
	// Looks is how often the suite looks, with an Advance between, before it gives up; 400 if zero.
	Looks int
	// Node is what the Node of an instance of the pool says of itself. Optional: by default its provider ID alone.
	Node func(t testing.TB, id cloud.InstanceID) cloud.NodeValues
	// FoldsCase tells that IDs which differ only in case name the same instance.
	FoldsCase bool
	// List names the instances that the pool has now. Optional: without it, what a grown pool's new
	// instances are built from is not tested.
	List func(t testing.TB) []cloud.InstanceID
	// Generalize does to a running instance's disk what the cloud demands of an image's source. Optional.
	Generalize func(t testing.TB, id cloud.InstanceID)
	// PowerOffGuest makes a running instance's guest switch itself off. Optional: without it, that way of
	// stopping is not tested.
	PowerOffGuest func(t testing.TB, id cloud.InstanceID)
	// SetUpgrades makes the pool's own policy one by which the cloud changes running instances with each write of
	// the pool, or one by which it never does. Optional: for a cloud that has no such policy.
	SetUpgrades func(t testing.TB, automatic bool)
	// Crowd leaves no room in the cloud for an instance more than there are, and Bind has the credential, or the cloud, refuse to
	// remove instances. Optional: without them, what the preflight says of a donor that does not return is not tested.
	Crowd, Bind func(t testing.TB)
	// Apart tells that versions are tried beside the pool only, in a cloud that tells nobody beforehand whether there is room.
	Apart bool
}

// Run runs the whole suite, one subtest for each sentence. It calls fresh once in each, with that
// subtest's t: fresh may call t.Parallel, t.Cleanup or t.Skip.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, c := range slices.Concat(lookCases, memberCases, instanceCases, holdCases, snapshotCases, imageCases, recipeCases, capacityCases, upgradeCases, restoreCases, censusCases, shelfCases, atlasCases, rebuildCases, removeCases, trialCases) {
		t.Run(c.sentence, func(t *testing.T) {
			h := fresh(t)
			if h.Looks == 0 {
				h.Looks = 400
			}
			if len(h.Instances) < 2 {
				t.Fatalf("the harness has %d instances, the suite needs two", len(h.Instances))
			}
			c.run(t, suite{Harness: h, p: h.Provider, a: h.Instances[0], b: h.Instances[1]})
		})
	}
}

// testCase is one sentence of the contract.
type testCase struct {
	sentence string
	run      func(t *testing.T, s suite)
}

// suite is what a test works on: a is the donor, b the instance that nothing may happen to.
type suite struct {
	Harness
	p    cloud.Provider
	a, b cloud.InstanceID
	// publishes, if set, makes versions in place of the provider.
	publishes func(t *testing.T, versions ...string)
}

// until looks until done, and ends the test if that takes too many looks.
func (s suite) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range s.Looks {
		if done() {
			return
		}
		s.Advance(t)
	}
	t.Fatalf("after %d looks: not %s", s.Looks, what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		checkError(t, err)
		t.Fatal(err)
	}
}

// got is must for a call that returns a value.
func got[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// wantError demands an error of the kind, made as the contract says.
func wantError(t *testing.T, err error, kind cloud.Kind) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of kind %s", kind)
	}
	checkError(t, err)
	if cloud.KindOf(err) != kind {
		t.Fatalf("error %q is of kind %s, want %s", err, cloud.KindOf(err), kind)
	}
}

var kinds = []cloud.Kind{
	cloud.NotFound, cloud.Conflict, cloud.Unauthenticated, cloud.Denied, cloud.Invalid,
	cloud.QuotaExceeded, cloud.Throttled, cloud.Refused, cloud.Unsupported, cloud.Unavailable,
}

// checkError checks that an error is one that a caller can act on and a person can read.
func checkError(t *testing.T, err error) {
	t.Helper()
	var e *cloud.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("error %q is no *cloud.Error", err)
	case !slices.Contains(kinds, e.Kind):
		t.Errorf("error %q has the unknown kind %q", err, e.Kind)
	case e.Op == "":
		t.Errorf("error %q does not say what was attempted", err)
	}
}
