package capture

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// rivals are two pioneers with node: Grow, at the same time, in one pool or in two. Each pool has two nodes.
type rivals struct {
	*testEnv
	names      []string
	concurrent int
}

// newRivals stages the two pioneers. concurrent is the engine's limit of captures.
func newRivals(t *testing.T, pools, concurrent int) *rivals {
	s := growing(t, func(s *testEnv) { s.lonely = true })
	staged := s.onRestart
	s.onRestart = func() { staged(); s.engine.MaxConcurrent = concurrent }
	s.onRestart()
	r := &rivals{testEnv: s, concurrent: concurrent, names: []string{s.name, "pool1-2026.03.1402"}}
	second := &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: r.names[1], UID: "second", CreationTimestamp: metav1.NewTime(s.clock.Now().Add(time.Second))},
	}
	second.Spec = s.prototype().Spec
	second.Spec.Version = "2026.03.1402"
	if pools == 2 {
		pool := s.cloud.AddPool(memory.PoolSpec{Name: "pool2", MaxSize: 10, Bootstrap: []string{"customData", "vmssCSE"}})
		for _, name := range []string{"0", "1"} {
			s.cloud.AddInstance(pool, name)
		}
		r.names[1] = "pool2-2026.03.14"
		second.Name, second.Spec.Pool, second.Spec.PoolID, second.Spec.Version = r.names[1], "pool2", string(pool), "2026.03.14"
	}
	s.must(s.clean.Create(t.Context(), second))
	r.join()
	return r
}

// join lets every new instance join, with a name of its own in both pools.
func (r *rivals) join() {
	for _, m := range r.cloud.World().Instances {
		name := strings.NewReplacer("memory:///pools/", "", "/instances/", "-").Replace(string(m.ID))
		if m.ID == r.first || m.ID == r.peer || m.Power != cloud.PowerRunning || r.tracked("nodes", "", name) != nil {
			continue
		}
		n := r.node(name, m.ID)
		n.UID, n.Annotations, n.CreationTimestamp = types.UID(m.ID), nil, metav1.NewTime(r.clock.Now())
		r.must(r.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

func (r *rivals) named(name string) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{}
	r.must(r.clean.Get(context.Background(), client.ObjectKey{Name: name}, p))
	return p
}

// growths is by how many nodes each pool has grown.
func (r *rivals) growths() (all []int64) {
	for _, p := range r.cloud.World().Pools {
		all = append(all, p.Capacity-2)
	}
	return all
}

// play makes passes over both captures in turn, the younger first if asked, until one has its node and enough passes for the
// other have followed. No pool ever grows by two nodes, and no more pools grow than the limit of captures.
func (r *rivals) play(youngerFirst bool) {
	after := 0
	for pass := 0; after < 5; pass++ {
		if pass == 200 {
			r.t.Fatalf("no pioneer gets a node: %s\n%s", verdict(r.named(r.names[0])), verdict(r.named(r.names[1])))
		}
		for i := range r.names {
			if youngerFirst {
				i = len(r.names) - 1 - i
			}
			if memory.RunUntilCrash(func() { _, _ = r.engine.Pass(context.Background(), r.names[i]) }) {
				r.restart()
			}
			total := int64(0)
			for _, grown := range r.growths() {
				if total += grown; grown < 0 || grown > 1 || total > int64(r.concurrent) {
					r.t.Fatalf("after pass %d the pools have grown by %v nodes", pass, r.growths())
				}
			}
		}
		r.clock.Advance(2 * time.Second)
		r.cloud.Settle()
		r.join()
		if !r.named(r.names[0]).Spec.AwaitsDonor() || !r.named(r.names[1]).Spec.AwaitsDonor() {
			after++
		}
	}
}

// TestTwoGrowthsAtOnce: of two pioneers in one pool the older grows the pool, and the younger is refused. In two pools both grow
// their own pool, and wait for each other only beyond maxConcurrent. Each third call is lost in one of the ways (long: each call in all ways).
func TestTwoGrowthsAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		pools, concurrent int
		check             func(*rivals)
	}{
		"one pool": {1, 2, func(r *rivals) {
			if p := r.named(r.names[1]); r.growths()[0] != 1 || p.Status.Failure == nil || p.Status.Failure.Reason != admission.CaptureInFlight || !p.Spec.AwaitsDonor() {
				r.t.Errorf("the younger: %s", verdict(p))
			}
		}},
		"two pools": {2, 2, func(r *rivals) {
			first, second := r.named(r.names[0]).Spec.Donor, r.named(r.names[1]).Spec.Donor
			if !strings.Contains(first.ProviderID, "/pool1/") || !strings.Contains(second.ProviderID, "/pool2/") || r.growths()[0]+r.growths()[1] != 2 {
				r.t.Errorf("the donors are %+v and %+v", first, second)
			}
		}},
		"two pools, one at a time": {2, 1, func(r *rivals) {
			waits := r.named(r.names[1])
			if !waits.Spec.AwaitsDonor() {
				waits = r.named(r.names[0])
			}
			if !waits.Spec.AwaitsDonor() || waits.Status.Failure != nil || r.growths()[0]+r.growths()[1] != 1 {
				r.t.Errorf("the pools have grown by %v, and none waits: %s", r.growths(), verdict(waits))
			}
		}},
	} {
		for _, youngerFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the younger first %t", name, youngerFirst), func(t *testing.T) {
				choose := each(1, 0)
				switch {
				case testing.Short() && youngerFirst:
					choose = each(3, 0)
				case testing.Short():
					choose = func([]string) []int { return nil }
				}
				memory.Courses{Losses: losses, Choose: choose, Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
					r := newRivals(t, test.pools, test.concurrent)
					r.schedule = schedule
					r.play(youngerFirst)
					test.check(r)
				}}.LoseEach(t)
			})
		}
	}
}
