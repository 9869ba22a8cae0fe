package capi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// newCopyEnv is a pool of two Machines before a capture by copy.
func newCopyEnv(t testing.TB) *testEnv {
	s := newTestEnv(t, 2)
	s.decide()
	return s
}

// succeeds plays the capture, which must succeed. No Machine of the pool is touched.
func (s *testEnv) succeeds() {
	s.t.Helper()
	p := s.play()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		s.t.Fatalf("the capture did not succeed: %s", verdict(p))
	}
	record, err := v1alpha1.RecordOf(p)
	s.must(err)
	if record.Reservation != nil || len(p.Finalizers) > 0 {
		s.t.Errorf("the prototype still holds: %+v %v", record, p.Finalizers)
	}
	s.wantEnd()
	s.wantUntouched(s.donor)
	s.wantUntouched(s.peer)
}

// TestLostCallsOfCopy copies a donor with the controllers of Cluster API, which build and remove the workshop. Each run loses one call
// to the recipes: each writing call after its effect, each kind of read between two writes, and each response of a call with several
// writes. Errors and crashes alternate. A lost call must not fail the capture or cost a node. Tests of internal/capture lose calls in all
// other ways.
func TestLostCallsOfCopy(t *testing.T) {
	t.Parallel()
	whole := newCopyEnv(t)
	whole.succeeds()
	kinds := map[string]bool{}
	for _, r := range whole.writes {
		kinds[r.what] = true
	}
	want := []string{"DELETE machines", "PATCH machinedeployments", "PATCH machines", "POST awsmachines", "POST awsmachinetemplates", "POST machines"}
	if made := slices.Sorted(maps.Keys(kinds)); !slices.Equal(made, want) {
		t.Errorf("a capture makes the writes %v, want %v", made, want)
	}
	ways := 0
	// lost plays the capture and loses one call or one request.
	lost := func(n int, what, how string, outcome memory.Outcome, arm func(*testEnv, func(int, string) memory.Outcome)) {
		ways++
		t.Run(fmt.Sprintf("%d %s, %s", n, what, how), func(t *testing.T) {
			t.Parallel()
			s, struck := newCopyEnv(t), ""
			arm(s, func(i int, now string) memory.Outcome {
				if i != n || struck != "" {
					return memory.Pass()
				}
				struck = now
				return outcome
			})
			if s.succeeds(); struck != what {
				t.Errorf("what was lost is %q, want %q: the calls are %v, and were %v", struck, what, s.calls, whole.calls)
			}
		})
	}
	before := []memory.Outcome{memory.FailBefore(cloud.Unavailable), memory.CrashBefore()}
	after := []memory.Outcome{memory.CrashAfter(), memory.FailAfter(cloud.Unavailable)}
	calls := func(s *testEnv, by func(int, string) memory.Outcome) { s.lose = by }
	requests := func(s *testEnv, by func(int, string) memory.Outcome) { s.cut = by }
	seen := map[string]bool{} // looks since the last write
	for n, op := range whole.calls {
		switch {
		case seen[op]:
		case whole.wrote(n):
			clear(seen)
			lost(n, op, "after", after[n%2], calls)
		default:
			lost(n, op, "before", before[n%2], calls)
			seen[op] = true
		}
	}
	for n, made := range whole.writes { // the last request of a call is lost with the call
		if n+1 < len(whole.writes) && whole.writes[n+1].call == made.call {
			lost(n, made.what, "after", after[n%2], requests)
		}
	}
	t.Logf("%d calls with %d requests that write, lost in %d ways", len(whole.calls), len(whole.writes), ways)
}

// wrote reports whether a call changed the management cluster.
func (s *testEnv) wrote(call int) bool {
	return slices.ContainsFunc(s.writes, func(r request) bool { return r.call == call })
}

func (s *testEnv) familyRef(version string) cloud.FamilyVersion {
	return cloud.FamilyVersion{Family: cloud.ImageFamily{Place: region, Name: s.line}, Version: version}
}

func (s *testEnv) imageOf(version string) string {
	return s.cloud.Disks().ImageID(s.familyRef(version))
}

// current returns the present state of the Machine with this UID, or nil if the Machine is gone.
func (s *testEnv) current(m unstructured.Unstructured) *unstructured.Unstructured {
	all := s.list("Machine")
	if at := slices.IndexFunc(all, func(now unstructured.Unstructured) bool { return now.GetUID() == m.GetUID() }); at >= 0 {
		return &all[at]
	}
	return nil
}

// wantUntouched requires the same Machine and instance as before, which was never rebooted.
func (s *testEnv) wantUntouched(m unstructured.Unstructured) {
	s.t.Helper()
	now := s.current(m)
	if now == nil || now.GetDeletionTimestamp() != nil || !maps.Equal(now.GetAnnotations(), m.GetAnnotations()) || instanceOf(*now) != instanceOf(m) {
		s.t.Errorf("machine %s was touched: it was %v, and is %v", m.GetName(), m.GetAnnotations(), now)
	}
	if w := s.cloud.World().Instance(instanceOf(m)); w.Power != cloud.PowerRunning || w.Boots != 1 || w.Generalized {
		s.t.Errorf("instance %s is %+v", instanceOf(m), w)
	}
}

// wantUnmarked requires that no mark of a capture is left on the pool or a Machine.
func (s *testEnv) wantUnmarked() {
	s.t.Helper()
	for _, o := range append(s.list("Machine"), *s.get("MachineDeployment", s.pool.name)) {
		for key, value := range o.GetAnnotations() {
			if strings.HasSuffix(key, "/kamino") || strings.HasPrefix(key, "kamino.dev/") || key == "cluster.x-k8s.io/paused" ||
				key == "cluster.x-k8s.io/skip-remediation" && value == "" {
				s.t.Errorf("%s %s still has %s", o.GetKind(), o.GetName(), key)
			}
		}
	}
}

// wantEnd requires the two nodes, a single boot of a workshop, a recipe with the new version, and no leftovers except one version.
func (s *testEnv) wantEnd() {
	s.t.Helper()
	const size = 2
	w := s.cloud.World()
	machines, above := s.list("Machine"), s.get("MachineDeployment", s.pool.name)
	if replicas(*above) != size || len(machines) != size || len(w.Instances) != size || len(s.list("AWSMachine")) != size || len(s.all()) != size {
		s.t.Errorf("the pool wants %d nodes, and has %d machines, %d instances and %d Nodes, want %d",
			replicas(*above), len(machines), len(w.Instances), len(s.all()), size)
	}
	s.wantUnmarked()
	for _, n := range s.all() {
		if n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			s.t.Errorf("node %s is left cordoned (%t) or reserved", n.Name, n.Spec.Unschedulable)
		}
	}
	if pods := s.ownPods(); len(pods) > 0 {
		s.t.Errorf("%d pods are left", len(pods))
	}
	snapshots, versions, booted := w.Count(memory.ByCaller, memory.EffectSnapshot, ""), w.Count(memory.ByCaller, memory.EffectImage, ""),
		w.Count(memory.ByCloud, memory.EffectBoot, "")
	if snapshots != 2 || versions != 1 || booted != size+1 || len(w.Copies) > 0 {
		s.t.Errorf("there were %d snapshots, %d versions and %d boots, want 2, 1 and %d; copies left: %+v", snapshots, versions, booted, size+1, w.Copies)
	}
	template, _, _ := unstructured.NestedString(above.Object, "spec", "template", "spec", "infrastructureRef", "name")
	var templates []string
	for _, o := range s.list("AWSMachineTemplate") {
		templates = append(templates, o.GetName())
		if image, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "ami", "id"); o.GetName() == template && image != s.imageOf(version) {
			s.t.Errorf("the pool builds from %s", image)
		}
	}
	if len(templates) != 2 || !slices.Contains(templates, template) {
		s.t.Errorf("of the templates %v the pool names %s", templates, template)
	}
}
