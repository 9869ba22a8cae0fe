package recipe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// warmEnv is a cloud with a pool and its warm pool, whose instances have the image from before a promotion.
type warmEnv struct {
	*testEnv
	provider cloud.Provider
	owner    cloud.WarmLimits
	fewest   int // settled instances of the warm pool, at the least
}

func newWarmEnv(t *testing.T, limits cloud.WarmLimits, newest bool) *warmEnv {
	clock := memory.NewClock(now)
	s := &warmEnv{testEnv: &testEnv{T: t, clock: clock, kube: fake.NewClientset()}, owner: limits}
	s.cloud = memory.New(memory.Config{Now: clock.Now, EndsNewestWarm: newest, Latency: memory.Latency{Start: 20 * time.Second}})
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "memory:///pools/pool1/versions/" + old, Capacity: 4, MaxSize: 12})
	for _, v := range []string{old, bad} {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: v})
	}
	s.cloud.SetWarmPool(s.pool, limits)
	clock.Advance(time.Minute)
	s.cloud.ChangeRecipe(s.pool, "memory:///pools/pool1/versions/"+bad)
	s.provider, s.fewest = s.cloud.Provider, 1<<20
	return s
}

func (s *warmEnv) look() cloud.Pool {
	pool, err := s.cloud.Pool(s.Context(), s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return pool
}

// renew makes passes, each by a new process, until nothing is left to do, and returns their number.
func (s *warmEnv) renew(between func(pass int)) int {
	for pass := range 300 {
		var d Decision
		var err error
		crashed := memory.RunUntilCrash(func() {
			d, err = Warmer{Cloud: s.provider, Kube: s.kube, Namespace: "kamino-system"}.Pass(s.Context(), s.look(), true)
		})
		if !crashed && err == nil && d.Do == Done {
			return pass
		}
		if between != nil {
			between(pass)
		}
		s.clock.Advance(10 * time.Second)
		if w := s.look().Warm; w != nil {
			s.fewest = min(s.fewest, len(w.Instances))
		}
	}
	s.Fatal("it does not end")
	return 0
}

// wantRenewed checks that the warm pool has its owner's limits and only instances of the recipe, and that no record is left.
func (s *warmEnv) wantRenewed(size int) {
	s.Helper()
	pool := s.look()
	if w := pool.Warm; w.Limits != s.owner || len(w.Instances) != size || w.Old(pool.Recipe) != 0 {
		s.Errorf("the warm pool is %+v, want %d instances of the recipe and limits %+v", *w, size, s.owner)
	}
	leases, err := s.kube.CoordinationV1().Leases("").List(s.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 0 {
		s.Errorf("records are left: %v, %v", leases, err)
	}
}

// TestWarmPoolIsRenewed: whichever instances the cloud ends first, the warm pool gets new instances, a few at a time if the cloud ends old
// ones first, and has its owner's limits again.
func TestWarmPoolIsRenewed(t *testing.T) {
	for name, test := range map[string]struct {
		limits cloud.WarmLimits
		newest bool
		size   int
		fewest int
	}{
		"up to the maximum":            {cloud.WarmLimits{Prepared: -1}, false, 8, 6},
		"prepared":                     {cloud.WarmLimits{Prepared: 9}, false, 5, 4},
		"of a minimum":                 {cloud.WarmLimits{Min: 3, Prepared: 0}, false, 3, 2},
		"one instance":                 {cloud.WarmLimits{Min: 1, Prepared: 0}, false, 1, 0},
		"the cloud ends the newest":    {cloud.WarmLimits{Prepared: -1}, true, 8, 0},
		"the newest of one":            {cloud.WarmLimits{Min: 1, Prepared: 0}, true, 1, 0},
		"more than the pool may grow":  {cloud.WarmLimits{Min: 10, Prepared: 5}, false, 10, 8},
		"a minimum above the prepared": {cloud.WarmLimits{Min: 6, Prepared: 8}, true, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWarmEnv(t, test.limits, test.newest)
			s.renew(nil)
			s.wantRenewed(test.size)
			if s.fewest != test.fewest {
				t.Errorf("the warm pool had %d instances at the least, want %d", s.fewest, test.fewest)
			}
			if again := s.renew(nil); again != 0 {
				t.Errorf("a renewed warm pool takes %d passes", again)
			}
		})
	}
}

// TestEveryCallLostOfARenewal: each request is lost, before and after its effect, as an error and as a crash.
func TestEveryCallLostOfARenewal(t *testing.T) {
	for _, newest := range []bool{false, true} {
		memory.Courses{Losses: memory.Losses(), Least: 4, Play: func(t *testing.T, schedule *memory.Schedule) {
			s := newWarmEnv(t, cloud.WarmLimits{Prepared: 8}, newest)
			s.provider = memory.NewFaulty(s.cloud, schedule.Inject).Provider
			s.renew(nil)
			s.wantRenewed(4)
		}}.LoseEach(t)
	}
}

// TestWarmPoolChangesMeanwhile: the pool grows and shrinks, its owner changes or removes the warm pool, or the recipe goes back. No change
// of another client is overwritten.
func TestWarmPoolChangesMeanwhile(t *testing.T) {
	for at := range 12 {
		s := newWarmEnv(t, cloud.WarmLimits{Prepared: -1}, false)
		s.renew(func(pass int) {
			if pass == at {
				if err := s.cloud.Scale(s.pool, 6); err != nil {
					t.Fatal(err)
				}
			}
		})
		s.wantRenewed(6)

		s = newWarmEnv(t, cloud.WarmLimits{Prepared: -1}, false)
		theirs := cloud.WarmLimits{Min: 1, Prepared: 7}
		s.renew(func(pass int) {
			if pass == at {
				s.cloud.SetWarmPool(s.pool, theirs)
			}
		})
		s.owner = theirs
		s.wantRenewed(3)

		s = newWarmEnv(t, cloud.WarmLimits{Prepared: -1}, false)
		s.renew(func(pass int) {
			if pass == at {
				s.cloud.ChangeRecipe(s.pool, "memory:///pools/pool1/versions/"+old)
			}
		})
		s.wantRenewed(8)
	}
}

// TestWarmPoolStays: Kamino begins no renewal that it may not begin, or of a pool whose recipe names no version. A renewal that has begun
// still gives the owner's limits back.
func TestWarmPoolStays(t *testing.T) {
	s := newWarmEnv(t, cloud.WarmLimits{Prepared: -1}, false)
	pass := func(may bool) Decision {
		d, err := Warmer{Cloud: s.provider, Kube: s.kube, Namespace: "kamino-system"}.Pass(t.Context(), s.look(), may)
		if err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(time.Minute)
		return d
	}
	if d := pass(false); d.Do != Done {
		t.Errorf("it may not, and does %s", d)
	}
	for _, want := range []Action{Record, Shrink} {
		if d := pass(true); d.Do != want {
			t.Fatalf("%s, want %s", d, want)
		}
	}
	for _, want := range []Action{Note, Restore, Forget, Done} {
		if d := pass(false); d.Do != want {
			t.Fatalf("it may not any more, and does %s, want %s", d, want)
		}
	}
	if w := s.look().Warm; w.Limits != s.owner {
		t.Errorf("the limits are %+v", w.Limits)
	}
	s.cloud.ChangeRecipe(s.pool, "generic")
	if d := pass(true); d.Do != Done {
		t.Errorf("the recipe names no version, and it does %s", d)
	}
}

// TestForgedWarmRecord: who writes Leases in Kamino's namespace gets no warm pool that is larger than the pool may be.
func TestForgedWarmRecord(t *testing.T) {
	for name, forge := range map[string]func(owner cloud.WarmLimits) (string, error){
		"limits of the owner": func(owner cloud.WarmLimits) (string, error) {
			text, err := json.Marshal(warmRecord{Owner: cloud.WarmLimits{Min: 500, Prepared: -1}, To: owner, Left: 0})
			return string(text), err
		},
		"limits of a round": func(owner cloud.WarmLimits) (string, error) {
			text, err := json.Marshal(warmRecord{Owner: owner, To: cloud.WarmLimits{Min: 500, Prepared: 500}, Left: -1})
			return string(text), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWarmEnv(t, cloud.WarmLimits{Prepared: -1}, false)
			text, err := forge(s.owner)
			if err != nil {
				t.Fatal(err)
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: warmName(s.pool), Namespace: "kamino-system",
				Annotations: map[string]string{warmAnnotation: text}}}
			if _, err := s.kube.CoordinationV1().Leases("kamino-system").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				_, err := Warmer{Cloud: s.provider, Kube: s.kube, Namespace: "kamino-system"}.Pass(t.Context(), s.look(), true)
				if err == nil || !strings.Contains(err.Error(), "delete the Lease") {
					t.Errorf("%v", err)
				}
				s.clock.Advance(time.Minute)
			}
			if w := s.look().Warm; w.Limits != s.owner {
				t.Errorf("the limits are %+v", w.Limits)
			}
		})
	}
}
