package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	old = "2026.03.01"
	bad = "2026.03.02"
)

var now = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

// testEnv is a cloud with a pool on the bad version, and a store for values that the recipe loses.
type testEnv struct {
	*testing.T
	clock *memory.Clock
	cloud *memory.Cloud
	pool  cloud.PoolID
	kube  kubernetes.Interface
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	clock := memory.NewClock(now)
	s := &testEnv{T: t, clock: clock, cloud: memory.New(memory.Config{Now: clock.Now, ForbidsLaunches: true}), kube: fake.NewClientset()}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "memory:///pools/pool1/versions/" + bad, Bootstrap: []string{"customData"}})
	for _, v := range []string{old, bad} {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: v,
			Tags: map[string]string{cloud.TagProof: "static/1/sha256:a", cloud.TagPrototype: "pool1-" + v}})
	}
	return s
}

// kinds lists the changes, each with the state after the change.
var kinds = []struct {
	name string
	of   func(*testEnv, Cloud) *Change
	want func(*testEnv) error
}{
	{"rollback", func(s *testEnv, c Cloud) *Change {
		return OfRollback(history.Rollback{Pool: "pool1", From: bad, To: old,
			Tags: map[string]string{cloud.TagQuarantined: "panics", cloud.TagRolledBackTo: old}}, c, s.pool)
	}, func(s *testEnv) error {
		return errors.Join(s.names(old), s.launches(bad, cloud.LaunchesForbidden),
			s.carries(bad, map[string]string{cloud.TagQuarantined: "panics", cloud.TagRolledBackTo: old}))
	}},
	{"a rollback that is taken back", func(s *testEnv, c Cloud) *Change {
		s.cloud.ChangeRecipe(s.pool, "memory:///pools/pool1/versions/"+old)
		return OfRollback(history.Rollback{Pool: "pool1", From: old, To: bad}, c, s.pool)
	}, func(s *testEnv) error { return errors.Join(s.names(bad), s.carries(old, nil)) }},
	{"quarantine", func(s *testEnv, c Cloud) *Change {
		return OfMark(history.Mark{Pool: "pool1", Version: old, Tags: map[string]string{cloud.TagQuarantined: "why"}}, c, s.pool)
	}, func(s *testEnv) error {
		return errors.Join(s.names(bad), s.launches(old, cloud.LaunchesForbidden), s.carries(old, map[string]string{cloud.TagQuarantined: "why"}))
	}},
	{"release", func(s *testEnv, c Cloud) *Change {
		ref := cloud.ImageRef{Pool: s.pool, Version: old}
		if err := errors.Join(s.cloud.TagImage(s.Context(), ref, map[string]string{cloud.TagQuarantined: "why"}),
			s.cloud.AllowLaunches(s.Context(), ref, false)); err != nil {
			s.Fatal(err)
		}
		return OfMark(history.Mark{Pool: "pool1", Version: old, Tags: map[string]string{cloud.TagQuarantined: ""}}, c, s.pool)
	}, func(s *testEnv) error {
		return errors.Join(s.launches(old, cloud.LaunchesAllowed), s.carries(old, nil))
	}},
	{"retirement", func(s *testEnv, c Cloud) *Change {
		return OfRetirement(history.Retirement{Pool: "pool1", Version: old}, c, s.pool)
	}, func(s *testEnv) error {
		if image := s.image(old); image.State != cloud.Absent && image.State != cloud.Deleting {
			return fmt.Errorf("version %s is %s", old, image.State)
		}
		return s.names(bad)
	}},
	{"promotion", func(s *testEnv, c Cloud) *Change {
		s.cloud.ChangeRecipe(s.pool, "ubuntu:2204", "customData")
		return OfPromotion(history.Promotion{Pool: "pool1", Version: bad, Prototype: "pool1-" + bad, From: "ubuntu:2204", RemovesBootstrap: true}, c, s.pool,
			Secrets{Kube: s.kube, Namespace: "kamino-system"})
	}, func(s *testEnv) error { return errors.Join(s.names(bad), s.checkSaved()) }},
	{"restoration", func(s *testEnv, c Cloud) *Change {
		s.cloud.ChangeRecipe(s.pool, "generic", "customData", "extension cse")
		return OfRestoration(restorationOf(s.T, s.cloud, s.pool, bad), c, "pool1")
	}, func(s *testEnv) error { return s.has(restored) }},
}

// restored is the recipe after a restoration, and promoted the recipe before the restoration.
const (
	restored = "generic[customData extension cse]"
	promoted = "memory:///pools/pool1/versions/" + bad + "[]"
)

// restorationOf promotes the version, and returns the restoration of the lost parts.
func restorationOf(t *testing.T, c *memory.Cloud, pool cloud.PoolID, version string) cloud.RecipeChange {
	t.Helper()
	lost, err := c.RecipeChange(t.Context(), cloud.ImageRef{Pool: pool, Version: version}, true)
	if err == nil {
		err = c.SetRecipe(t.Context(), lost)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.RestoreChange(t.Context(), pool, cloud.Saved{Backup: lost.Backup})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// has compares the recipe with an image and its parts.
func (s *testEnv) has(want string) error {
	pool, err := s.cloud.Pool(s.Context(), s.pool)
	if is := fmt.Sprint(pool.Recipe.Image, pool.Recipe.Bootstrap); err == nil && is != want {
		return fmt.Errorf("the recipe is %s", is)
	}
	return err
}

func (s *testEnv) image(version string) cloud.Image {
	s.Helper()
	image, err := s.cloud.Image(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version})
	if err != nil {
		s.Fatal(err)
	}
	return image
}

func (s *testEnv) names(version string) error {
	pool, err := s.cloud.Pool(s.Context(), s.pool)
	if err == nil && pool.Recipe.Version != version {
		return fmt.Errorf("the recipe names %s", pool.Recipe.Image)
	}
	return err
}

func (s *testEnv) launches(version string, want cloud.Launches) error {
	if have := s.image(version).Launches; have != want {
		return fmt.Errorf("launches of version %s are %s, want %s", version, have, want)
	}
	return nil
}

func (s *testEnv) carries(version string, tags map[string]string) error {
	have := s.image(version).Tags
	want := map[string]string{cloud.TagProof: have[cloud.TagProof], cloud.TagPrototype: have[cloud.TagPrototype]}
	maps.Copy(want, tags)
	if !maps.Equal(have, want) {
		return fmt.Errorf("version %s carries %v", version, have)
	}
	return nil
}

// checkSaved checks that the lost values of the recipe are stored once.
func (s *testEnv) checkSaved() error {
	found, err := Secrets{Kube: s.kube, Namespace: "kamino-system"}.Find(s.Context(), "pool1", s.pool, nil)
	if err == nil && len(found) != 1 {
		return fmt.Errorf("kept %d times", len(found))
	}
	return err
}

// invariants checks the rules that hold after each pass.
func (s *testEnv) invariants(name string) error {
	pool, err := s.cloud.Pool(s.Context(), s.pool)
	if err != nil {
		return err
	}
	for _, v := range s.cloud.World().Images {
		if v.Forbidden && (v.InRecipe || !v.Quarantined) {
			return fmt.Errorf("launches of version %s are forbidden, in the recipe %t, quarantined %t", v.Version, v.InRecipe, v.Quarantined)
		}
	}
	switch {
	case name == "rollback" && pool.Recipe.Version == old && s.image(bad).Tags[cloud.TagQuarantined] == "":
		return errors.New("the pool has left a version that is not quarantined")
	case name == "promotion" && pool.Recipe.Version == bad:
		return s.checkSaved()
	case name == "restoration" && s.has(promoted) != nil:
		return s.has(restored)
	}
	return nil
}

// TestEverySingleCallLost: each call of each change is lost, before and after the effect, as an error and as a crash. A
// second run completes the change.
func TestEverySingleCallLost(t *testing.T) {
	losses := append(memory.Losses(), memory.Loss{Name: "conflict before its effect", Outcome: memory.FailBefore(cloud.Conflict)},
		memory.Loss{Name: "conflict after its effect", Outcome: memory.FailAfter(cloud.Conflict)})
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			memory.Courses{Losses: losses, Least: 2, Play: func(t *testing.T, schedule *memory.Schedule) {
				s := newTestEnv(t)
				s.toItsEnd(kind.name, kind.of(s, memory.NewFaulty(s.cloud, schedule.Inject)))
				if err := kind.want(s); err != nil {
					t.Error(err)
				}
			}}.LoseEach(t)
		})
	}
}

// toItsEnd makes passes, each by a new process that has only the decision.
func (s *testEnv) toItsEnd(name string, change *Change) {
	s.Helper()
	for range 20 {
		var r Result
		var err error
		fresh := *change
		crashed := memory.RunUntilCrash(func() { r, err = fresh.Pass(s.Context()) })
		s.clock.Advance(5 * time.Second)
		if broken := s.invariants(name); broken != nil {
			s.Error(broken)
		}
		if !crashed && err == nil && r.Done() {
			return
		}
	}
	s.Error("it does not end")
}

// TestRecipeChangeOfAnotherClientStays: a change of the recipe by another client, before or during the run, is reported and kept.
func TestRecipeChangeOfAnotherClientStays(t *testing.T) {
	for passes := range 2 {
		s := newTestEnv(t)
		change := kinds[0].of(s, s.cloud)
		for range passes {
			if _, err := change.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.cloud.ChangeRecipe(s.pool, "ubuntu:2204")
		r, err := change.Run(t.Context(), func(context.Context, time.Duration) error { return nil })
		if !errors.Is(err, ErrElsewhere) || r.Did != fail(RecipeChanged) {
			t.Errorf("after %d passes: %+v, %v", passes, r, err)
		}
		if quarantined := s.image(bad).Tags[cloud.TagQuarantined] != ""; quarantined != (passes == 1) {
			t.Errorf("after %d passes the version is quarantined: %t", passes, quarantined)
		}
	}
}

// TestInvisibleChangeIsAnError: a change that never becomes visible ends the run with an error, and so does a lasting conflict. So
// does a failed pause.
func TestInvisibleChangeIsAnError(t *testing.T) {
	for _, kind := range []int{0, len(kinds) - 1} {
		kind := kinds[kind]
		for _, loss := range []memory.Outcome{{Err: nil}, memory.FailBefore(cloud.Conflict)} {
			s := newTestEnv(t)
			faulty := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
				if c.Op == "SetRecipe" {
					return loss
				}
				return memory.Pass()
			})
			pauses := 0
			provider := Cloud(faulty)
			if loss.Err == nil {
				provider = ignoringCloud{faulty}
			}
			_, err := kind.of(s, provider).Run(t.Context(), func(context.Context, time.Duration) error { pauses++; return nil })
			if err == nil || pauses < maxAttempts-1 || cloud.Is(err, cloud.Conflict) != (loss.Err != nil) {
				t.Errorf("%s: %v after %d pauses", kind.name, err, pauses)
			}
		}
	}
	s, stop := newTestEnv(t), errors.New("stop")
	if _, err := kinds[0].of(s, s.cloud).Run(t.Context(), func(context.Context, time.Duration) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a pause that ends: %v", err)
	}
}

// ignoringCloud accepts every change of a recipe and changes nothing.
type ignoringCloud struct{ *memory.Faulty }

func (ignoringCloud) SetRecipe(context.Context, cloud.RecipeChange) error { return nil }
