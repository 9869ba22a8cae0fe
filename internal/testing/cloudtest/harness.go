// Package cloudtest is the conformance suite for every cloud.Provider. Each sentence of the contract in package cloud
// has at least one test here. A provider's tests call Run with a Harness that makes a fresh pool in the cloud or in a
// simulation.
//
// The suite checks only the contract. It waits by repeated reads after Harness.Advance, a limited number of times, and
// never by the wall clock.
package cloudtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Harness is a provider with a fresh pool: capturable, unprotected, with at least two running instances, no versions,
// and room for another instance. Fields are required unless documented as optional.
type Harness struct {
	Provider cloud.Provider
	Pool     cloud.PoolID
	// Instances of the pool, two or more, all running.
	Instances []cloud.InstanceID
	// Missing is the well-formed ID of a missing instance of the pool.
	Missing cloud.InstanceID
	// Advance lets time pass, so that long operations make progress.
	Advance func(t testing.TB)
	// Looks is the number of reads, with an Advance between, before the suite gives up. Zero means 400.
	Looks int
	// Node returns the values of an instance's Node. Optional; default: only the provider ID.
	Node func(t testing.TB, id cloud.InstanceID) cloud.NodeValues
	// FoldsCase is true if IDs that differ only in case are equal.
	FoldsCase bool
	// List returns the current instances of the pool. Optional; without List the versions of new instances are not
	// tested.
	List func(t testing.TB) []cloud.InstanceID
	// Generalize prepares a running instance's disk as the cloud requires for an image. Optional.
	Generalize func(t testing.TB, id cloud.InstanceID)
	// PowerOffGuest powers off a running instance from the guest. Optional; without it such a power-off is not tested.
	PowerOffGuest func(t testing.TB, id cloud.InstanceID)
	// Console sets the serial console of an instance. Optional; without it consoles are not tested.
	Console func(t testing.TB, id cloud.InstanceID, text string)
	// SetUpgrades sets the pool's policy for writes: update running instances automatically, or never. Optional, for
	// clouds without such a policy.
	SetUpgrades func(t testing.TB, automatic bool)
	// Scale sets the size of the pool, as the user's client does. Optional; without Scale new instances of the pool are not tested.
	Scale func(t testing.TB, size int64) error
	// Crowd uses up the cloud's room for instances. Optional; without it the room for trials and workshops is not tested.
	Crowd func(t testing.TB)
	// NoCopy is true if the provider has no captures by copy, and CopyOnRequest if it has them on request only.
	NoCopy, CopyOnRequest bool
	// NotCopyable is true if the pool's next instance needs what the cloud never returns, so that every workshop is refused.
	NotCopyable bool
	// RoomUnknown is true if the cloud does not report room for instances beforehand.
	RoomUnknown bool
}

// Run runs all cases as subtests. Run calls fresh once in each subtest with its t. fresh may call t.Parallel, t.Cleanup
// or t.Skip.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	cases := slices.Concat(lookCases, memberCases, instanceCases, holdCases, snapshotCases, imageCases, recipeCases, capacityCases, upgradeCases,
		restoreCases, instanceListerCases, snapshotListerCases, poolFinderCases, rebuildCases, trialCases, workshopCases, copyCases,
		noCopyCases, clusterCases)
	run(t, cases, nil, whole(fresh))
}

func whole(fresh func(t *testing.T) Harness) func(t *testing.T) suite {
	return func(t *testing.T) suite {
		t.Helper()
		h := fresh(t)
		return suite{Harness: h, p: h.Provider}
	}
}

// run runs the cases as subtests, except for those with these sentences.
func run(t *testing.T, cases []testCase, except []string, fresh func(t *testing.T) suite) {
	for _, c := range cases {
		if slices.Contains(except, c.sentence) {
			continue
		}
		t.Run(c.sentence, func(t *testing.T) {
			s := fresh(t)
			if s.Looks == 0 {
				s.Looks = 400
			}
			if len(s.Instances) < 2 {
				t.Fatalf("the harness has %d instances, the suite needs two", len(s.Instances))
			}
			s.a, s.b = s.Instances[0], s.Instances[1]
			c.run(t, s)
		})
	}
}

// testCase tests one sentence of the contract.
type testCase struct {
	sentence string
	run      func(t *testing.T, s suite)
}

// suite has the inputs of a case: a is the donor, and b must stay unchanged.
type suite struct {
	Harness
	p    cloud.Provider
	a, b cloud.InstanceID
	// publishes, if set, makes versions instead of the provider.
	publishes func(t *testing.T, versions ...string)
}

// until repeats done, and fails the test after too many reads.
func (s suite) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range s.Looks {
		if done() {
			return
		}
		s.Advance(t)
	}
	ctx := t.Context()
	pool, noPool := s.p.Pool(ctx, s.Pool)
	images, noImages := s.p.Images(ctx, s.Pool)
	trials, noTrials := s.p.Trials(ctx, s.Pool)
	t.Fatalf("after %d looks: not %s; pool %+v, images %+v, trials %+v (%v)", s.Looks, what, pool, images, trials, errors.Join(noPool, noImages, noTrials))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		checkError(t, err)
		t.Fatal(err)
	}
}

// got is must for a call with a result.
func got[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// fails is wantError for a call with a result.
func fails[T any](_ T, err error) func(t *testing.T, kind cloud.Kind) {
	return func(t *testing.T, kind cloud.Kind) {
		t.Helper()
		wantError(t, err, kind)
	}
}

// wantError requires an error of the kind, in the form of the contract.
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

// wantSame requires two equal values; what says which.
func wantSame(t *testing.T, what string, want, have any) {
	t.Helper()
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-want or before, +have):\n%s", what, diff)
	}
}

var kinds = []cloud.Kind{
	cloud.NotFound, cloud.Conflict, cloud.Unauthenticated, cloud.Denied, cloud.Invalid,
	cloud.QuotaExceeded, cloud.Throttled, cloud.Refused, cloud.Unsupported, cloud.Unavailable,
}

// checkError checks that callers can handle the error and people can read it.
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
