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
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// departure is the capture of a donor that is replaced: the pool grows by its replacement first.
type departure struct{ *stage }

func newDeparture(t testing.TB) departure {
	s := newStage(t, 2)
	s.decide(func(set *v1alpha1.Settings) {
		set.Generalize.Profile, set.Donor.GrowFirst = v1alpha1.ProfileBootstrap, new(true)
	})
	return departure{s}
}

// succeeds plays the capture. It must succeed, without the donor and with every other machine.
func (s departure) succeeds() {
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
	s.left(2, 3)
	if s.there(s.donor) != nil || s.cloud.World().Instance(instanceOf(s.donor)).ID != "" {
		s.t.Error("the donor is there")
	}
	s.untouched(s.peer)
}

// TestEverySingleCallLostOfADeparture loses each call to the recipes once while a donor is replaced, with Cluster API's own controllers at
// work: calls that write after their effect, each kind of read between two writes before it, and of calls with several writes each answer.
// Errors and crashes take turns. One lost call costs neither the capture nor a node. The engine's own tests lose calls in all ways.
func TestEverySingleCallLostOfADeparture(t *testing.T) {
	t.Parallel()
	whole := newDeparture(t)
	whole.succeeds()
	kinds := map[string]bool{}
	for _, r := range whole.writes {
		kinds[r.what] = true
	}
	want := []string{"DELETE machines", "PATCH machinedeployments", "PATCH machines", "PATCH machinesets", "POST awsmachinetemplates"}
	if made := slices.Sorted(maps.Keys(kinds)); !slices.Equal(made, want) {
		t.Errorf("a capture makes the writes %v, want %v", made, want)
	}
	ways := 0
	// lost plays the capture with one loss, of a call or of a request.
	lost := func(n int, what, how string, outcome memory.Outcome, arm func(*stage, func(int, string) memory.Outcome)) {
		ways++
		t.Run(fmt.Sprintf("%d %s, %s", n, what, how), func(t *testing.T) {
			t.Parallel()
			s, struck := newDeparture(t), ""
			arm(s.stage, func(i int, now string) memory.Outcome {
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
	calls := func(s *stage, by func(int, string) memory.Outcome) { s.lose = by }
	requests := func(s *stage, by func(int, string) memory.Outcome) { s.cut = by }
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

// wrote tells whether a call has changed anything in the management cluster.
func (s *stage) wrote(call int) bool {
	return slices.ContainsFunc(s.writes, func(r request) bool { return r.call == call })
}

func (s *stage) lineRef(version string) cloud.FamilyVersion {
	return cloud.FamilyVersion{Family: cloud.ImageFamily{Place: region, Name: s.line}, Version: version}
}

func (s *stage) imageOf(version string) string { return s.cloud.Disks().ImageID(s.lineRef(version)) }

// there is a Machine as it is now, whatever became of others of its name; nil if it is gone.
func (s *stage) there(m unstructured.Unstructured) *unstructured.Unstructured {
	all := s.list("Machine")
	if at := slices.IndexFunc(all, func(now unstructured.Unstructured) bool { return now.GetUID() == m.GetUID() }); at >= 0 {
		return &all[at]
	}
	return nil
}

// untouched holds that a Machine, its instance and its Node are there as they were, but for a reboot of the donor.
func (s *stage) untouched(m unstructured.Unstructured) {
	s.t.Helper()
	now := s.there(m)
	if now == nil || now.GetDeletionTimestamp() != nil || !maps.Equal(now.GetAnnotations(), m.GetAnnotations()) || instanceOf(*now) != instanceOf(m) {
		s.t.Errorf("machine %s was touched: it was %v, and is %v", m.GetName(), m.GetAnnotations(), now)
	}
	if w := s.cloud.World().Instance(instanceOf(m)); w.Power != cloud.PowerRunning {
		s.t.Errorf("instance %s is %s", instanceOf(m), w.Power)
	}
}

// unmarked holds that no capture's mark is left on the pool or a Machine.
func (s *stage) unmarked() {
	s.t.Helper()
	for _, o := range append(s.list("Machine"), *s.get("MachineDeployment", s.pool.name)) {
		for key, value := range o.GetAnnotations() {
			if strings.HasSuffix(key, "/kamino") || strings.HasPrefix(key, "kamino.dev/") || key == "cluster.x-k8s.io/paused" || key == "cluster.x-k8s.io/skip-remediation" && value == "" {
				s.t.Errorf("%s %s still has %s", o.GetKind(), o.GetName(), key)
			}
		}
	}
}

// left holds that the pool has so many nodes, made by so many boots of machines, that it builds from the version, and that nothing of
// the capture is left but one version.
func (s *stage) left(size int64, boots int) {
	s.t.Helper()
	w := s.cloud.World()
	machines, above := s.list("Machine"), s.get("MachineDeployment", s.pool.name)
	if replicas(*above) != size || len(machines) != int(size) || len(w.Instances) != int(size) || len(s.list("AWSMachine")) != int(size) || len(s.all()) != int(size) {
		s.t.Errorf("the pool is meant to have %d nodes, and has %d machines, %d instances and %d Nodes, want %d", replicas(*above), len(machines), len(w.Instances), len(s.all()), size)
	}
	s.unmarked()
	for _, n := range s.all() {
		if n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			s.t.Errorf("node %s is left cordoned (%t) or reserved", n.Name, n.Spec.Unschedulable)
		}
	}
	if pods := s.ours(); len(pods) > 0 {
		s.t.Errorf("%d pods are left", len(pods))
	}
	snapshots, versions, booted := w.Count(memory.ByCaller, memory.EffectSnapshot, ""), w.Count(memory.ByCaller, memory.EffectImage, ""), w.Count(memory.ByCloud, memory.EffectBoot, "")
	if snapshots != 1 || versions != 1 || booted != boots {
		s.t.Errorf("there were %d snapshots, %d versions and %d boots, want 1, 1 and %d", snapshots, versions, booted, boots)
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
