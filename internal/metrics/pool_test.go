package metrics

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// testEnv is a cloud in memory, a pool with a history, and an observer with counted calls.
type testEnv struct {
	t        *testing.T
	clock    *memory.Clock
	cloud    *memory.Cloud
	pool     cloud.PoolID
	donor    cloud.InstanceID
	metrics  *Metrics
	observer *Observer
	// calls of the observer, and the results of the next calls.
	calls   []string
	trouble cloud.Kind
	during  func() // while a call is on its way
}

func newTestEnv(t *testing.T) *testEnv {
	s := &testEnv{t: t, clock: memory.NewClock(noon)}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, NoCopy: true})
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "ubuntu:2204"})
	s.donor = s.cloud.AddInstance(s.pool, "0")
	s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.07", CreatedAt: noon.Add(-6 * 24 * time.Hour),
		Tags: map[string]string{cloud.TagBuiltAt: noon.Add(-7 * 24 * time.Hour).Format(cloud.BuiltAtLayout)}})
	s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.01", CreatedAt: noon.Add(-13 * 24 * time.Hour)})
	s.metrics = New(s.clock.Now)
	s.observer = s.metrics.Observer(memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
		s.calls = append(s.calls, c.Op)
		if s.during != nil {
			s.during()
		}
		if s.trouble != "" {
			return memory.FailBefore(s.trouble)
		}
		return memory.Pass()
	}), logr.Discard())
	return s
}

func (s *testEnv) prototype(version string, status v1alpha1.PrototypeStatus) *v1alpha1.Prototype {
	p := prototype("pool1-"+version, status)
	p.Spec.Version, p.Spec.PoolID, p.Spec.Donor.ProviderID = version, string(s.pool), string(s.donor)
	return p
}

// ended is a Prototype whose version began a while ago.
func (s *testEnv) ended(version string, begun time.Duration) *v1alpha1.Prototype {
	return s.prototype(version, v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded, Steps: []v1alpha1.Step{
		step(v1alpha1.PhasePublishing, -begun, time.Second)}})
}

func (s *testEnv) point(version string) {
	s.cloud.ChangeRecipe(s.pool, fmt.Sprintf("%s/versions/%s", s.pool, version))
}

func (s *testEnv) round() {
	s.clock.Advance(lookEvery)
	s.observer.round(s.t.Context())
}

// expect compares the series of pools. An age of zero means only the information series.
func (s *testEnv) expect(version string, age time.Duration) {
	s.t.Helper()
	want := map[string]float64{}
	if version != "" {
		want[fmt.Sprintf(`kamino_pool_image_info{pool="pool1",version=%q}`, version)] = 1
	}
	if age > 0 {
		want[`kamino_pool_image_age_seconds{pool="pool1"}`] = age.Seconds()
	}
	if diff := cmp.Diff(want, reported(s.t, s.metrics, "kamino_pool")); diff != "" {
		s.t.Errorf("reported pools (-want +got):\n%s", diff)
	}
}

func (s *testEnv) expectCalls(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.calls); diff != "" {
		s.t.Errorf("calls to the cloud (-want +got):\n%s", diff)
	}
	s.calls = nil
}

// Facts of Prototypes need no call: at the start the newest success, then each promotion.
func TestAPoolsImageIsKnownFromPrototypes(t *testing.T) {
	s := newTestEnv(t)
	for _, p := range []*v1alpha1.Prototype{
		s.ended("2026.03.10", 4*24*time.Hour), s.ended("2026.03.12", 2*24*time.Hour), s.ended("2026.03.11", 3*24*time.Hour),
		s.prototype("2026.03.13", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{Reason: "DrainTimeout"}}),
	} {
		s.observer.Observe(t.Context(), p, p)
	}
	s.expect("2026.03.12", 2*24*time.Hour)
	s.clock.Advance(time.Hour)
	s.expect("2026.03.12", 49*time.Hour)

	flying := s.prototype("2026.03.14", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhasePromoting})
	s.observer.Observe(t.Context(), flying, flying)
	s.expect("2026.03.12", 49*time.Hour)
	s.observer.Observe(t.Context(), flying, s.ended("2026.03.14", time.Minute))
	s.expect("2026.03.14", time.Hour+time.Minute)
	s.expectCalls()
}

// A version without known steps is as old as its name.
func TestAVersionIsAsOldAsItsName(t *testing.T) {
	s := newTestEnv(t)
	p := s.prototype("2026.03.13", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded})
	s.observer.Observe(t.Context(), p, p)
	s.expect("2026.03.13", 36*time.Hour)
}

// A look finds unreported changes: a rollback, a version of another tool, an image that is no version.
func TestLookFindsRecipeVersion(t *testing.T) {
	s := newTestEnv(t)
	newest := s.ended("2026.03.14", time.Minute)
	s.observer.Observe(t.Context(), newest, newest)
	s.point("2026.03.07")
	s.round()
	s.expect("2026.03.07", 7*24*time.Hour+lookEvery)
	s.expectCalls("Pool", "Image")

	s.round() // what is known of a version is not asked again
	s.expect("2026.03.07", 7*24*time.Hour+2*lookEvery)
	s.expectCalls("Pool")

	s.observer.Observe(t.Context(), newest, newest) // a late word of an old Prototype: it is deleted, for example
	s.expect("2026.03.07", 7*24*time.Hour+2*lookEvery)

	s.point("2026.03.01") // it has no tag
	s.round()
	s.expect("2026.03.01", 13*24*time.Hour+3*lookEvery)
	s.expectCalls("Pool", "Image")

	s.cloud.ChangeRecipe(s.pool, "ubuntu:2204")
	s.round()
	s.expect("", 0)
	s.expectCalls("Pool")
}

// A promotion during a look is newer than the result of the look.
func TestAPromotionOvertakesALook(t *testing.T) {
	s := newTestEnv(t)
	old := s.ended("2026.03.07", time.Hour)
	s.observer.Observe(t.Context(), old, old)
	s.point("2026.03.07")
	flying := s.prototype("2026.03.14", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhasePromoting})
	s.observer.Observe(t.Context(), flying, flying)
	s.during = func() {
		s.during = nil
		s.observer.Observe(t.Context(), flying, s.ended("2026.03.14", time.Minute))
	}
	s.round()
	s.expect("2026.03.14", lookEvery+time.Minute)
}

func TestFailedLookKeepsValues(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.Throttled, cloud.Denied, cloud.Unavailable} {
		s := newTestEnv(t)
		p := s.ended("2026.03.14", time.Hour)
		s.observer.Observe(t.Context(), p, p)
		s.trouble = kind
		s.round()
		s.expect("2026.03.14", time.Hour+lookEvery)
		s.expectCalls("Pool")
		s.observer.round(t.Context()) // not before it is due again
		s.expectCalls()
	}
}

// A throttling cloud is asked about one pool and then left alone; a denying cloud is asked about each pool.
func TestRoundEndsOnThrottle(t *testing.T) {
	for kind, want := range map[cloud.Kind]int{cloud.Throttled: 1, cloud.Unavailable: 1, cloud.Denied: 3} {
		s := newTestEnv(t)
		for i := range 3 {
			s.metrics.pools.meet(cloud.PoolID(fmt.Sprintf("%s-%d", s.pool, i)), "p", s.ended("2026.03.14", time.Hour), false)
		}
		s.trouble = kind
		s.observer.round(t.Context())
		if len(s.calls) != want {
			t.Errorf("%s: %d of 3 pools were asked about, want %d", kind, len(s.calls), want)
		}
	}
}

func TestDeletedPoolHasNoSeries(t *testing.T) {
	s := newTestEnv(t)
	p := s.ended("2026.03.14", time.Hour)
	s.observer.Observe(t.Context(), p, p)
	s.trouble = cloud.NotFound
	s.round()
	s.expect("", 0)
}

// Two pools may have one name. Their samples would be equal, which no scrape may hold: the older image is shown.
func TestPoolsWithEqualNames(t *testing.T) {
	m := New(func() time.Time { return noon })
	for i, version := range []string{"2026.03.13", "2026.03.10", "2026.03.12"} {
		p := prototype("p", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded})
		p.Spec.Version = version
		m.pools.meet(cloud.PoolID(fmt.Sprint(i)), "pool1", p, false)
	}
	want := map[string]float64{
		`kamino_pool_image_info{pool="pool1",version="2026.03.10"}`: 1,
		`kamino_pool_image_age_seconds{pool="pool1"}`:               (4*24 + 12) * 3600,
	}
	if diff := cmp.Diff(want, reported(t, m, "kamino_pool")); diff != "" {
		t.Errorf("reported pools (-want +got):\n%s", diff)
	}
}

// A quiet cluster causes two looks per hour and pool, and one more call for a new version. A look is two requests at most,
// so that ten requests are never reached.
func TestAQuietHourCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.metrics.now = time.Now
		s.point("2026.03.07")
		p := s.ended("2026.03.14", time.Hour)
		s.observer.Observe(t.Context(), p, p)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.observer.Start(ctx) }()
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		s.expectCalls("Pool", "Image", "Pool")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(s.calls) != 48 {
			t.Errorf("%d calls in a day, want 48", len(s.calls))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !(&Observer{}).NeedLeaderElection() {
		t.Error("every replica asks the cloud")
	}
}
