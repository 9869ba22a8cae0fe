package capi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// losses are the ways in which a call can be lost. A crash is a new process that knows nothing.
var losses = []struct {
	name    string
	outcome memory.Outcome
}{
	{"error before its effect", memory.FailBefore(cloud.Unavailable)},
	{"crash before its effect", memory.CrashBefore()},
	{"error after its effect", memory.FailAfter(cloud.Unavailable)},
	{"crash after its effect", memory.CrashAfter()},
}

// afterwards are those of them that happen after an effect.
var afterwards = losses[2:]

// course is a part of what a capture can be, with its calls to the recipes.
type course struct {
	// begin has it decided, and holds is what is true of its end.
	begin func(testing.TB) *stage
	holds func(*stage)
	// loses tells which calls are lost; those of others another course has as well.
	loses func(op string) bool
}

// departure is the capture of a donor that does not return, behind the successor by which its pool grows first.
var departure = course{
	begin: func(t testing.TB) *stage {
		s := newStage(t, 2)
		s.decide(func(set *v1alpha1.Settings) {
			set.Generalize.Profile, set.Donor.GrowFirst = v1alpha1.ProfileBootstrap, new(true)
		})
		return s
	},
	holds: func(s *stage) {
		s.left(2, 3)
		if s.there(s.donor) != nil || s.cloud.World().Instance(instanceOf(s.donor)).ID != "" {
			s.t.Error("the donor is there")
		}
		s.untouched(s.peer)
	},
	loses: func(op string) bool { return op != "SetRecipe" && op != "RecipeChange" },
}

// proving is what follows on a version that is complete: its trial, its promotion, and a pool that grows by a node of it.
var proving = course{
	begin: func(t testing.TB) *stage {
		s := newStage(t, 1)
		p := s.decide(func(set *v1alpha1.Settings) {
			set.Generalize.Profile, set.Recipe.NewNodes = v1alpha1.ProfileBootstrap, 1
			set.Trial = v1alpha1.TrialSettings{Mode: v1alpha1.TrialApart, Soak: &metav1.Duration{Duration: 10 * time.Second}}
		})
		s.published(p)
		return s
	},
	holds: func(s *stage) {
		s.left(2, 4) // of one that was copied, and one that was tried
		s.untouched(s.donor)
		built := 0
		for _, m := range s.cloud.World().Instances {
			if m.Image == s.imageOf(version) {
				built++
			}
		}
		if built != 1 {
			s.t.Errorf("%d nodes are built from the version, want 1", built)
		}
	},
	loses: func(string) bool { return true },
}

// returning is the capture of a donor that comes back, whose Machine somebody else holds already from remediation.
var returning = course{
	begin: func(t testing.TB) *stage {
		s := newStage(t, 2)
		for _, m := range s.list("Machine") {
			s.merge("Machine", m.GetName(), `{"metadata":{"annotations":{"cluster.x-k8s.io/skip-remediation":"theirs"}}}`)
		}
		s.decide(func(set *v1alpha1.Settings) { set.Generalize.Profile = v1alpha1.ProfileStatic })
		return s
	},
	holds: func(s *stage) {
		s.left(2, 3)
		s.untouched(s.peer)
		s.untouched(s.donor)
	},
	loses: func(op string) bool { return strings.HasSuffix(op, "old") || op == "HoldOf" },
}

// TestEverySingleCallLostOfADeparture loses each call to the recipes by which a donor leaves, with Cluster API's own controllers at
// work: each that writes in both ways behind its effect and in one before it, of which they learn nothing, each kind of look between two
// of them in one way, and of those that write in several requests each answer. One lost call costs neither the capture nor a node.
func TestEverySingleCallLostOfADeparture(t *testing.T) { everySingleCallLost(t, departure) }

// TestEverySingleCallLostOfATrial is the same of a trial, a promotion and the growth behind it.
func TestEverySingleCallLostOfATrial(t *testing.T) { everySingleCallLost(t, proving) }

// TestEverySingleCallLostOfAHold is the same of a donor that is held and given back.
func TestEverySingleCallLostOfAHold(t *testing.T) { everySingleCallLost(t, returning) }

func everySingleCallLost(t *testing.T, c course) {
	t.Parallel()
	whole := c.begin(t)
	whole.succeeded(c)
	ways := 0
	// lost plays the course with one loss, of a call or of a request.
	lost := func(n int, what, how string, outcome memory.Outcome, arm func(*stage, func(int, string) memory.Outcome)) {
		ways++
		t.Run(fmt.Sprintf("%d %s, %s", n, what, how), func(t *testing.T) {
			t.Parallel()
			s, struck := c.begin(t), ""
			arm(s, func(i int, now string) memory.Outcome {
				if i != n || struck != "" {
					return memory.Pass()
				}
				struck = now
				return outcome
			})
			if s.succeeded(c); struck != what {
				t.Errorf("what was lost is %q, want %q: the course is %v, and was %v", struck, what, s.calls, whole.calls)
			}
		})
	}
	calls := func(s *stage, by func(int, string) memory.Outcome) { s.lose = by }
	requests := func(s *stage, by func(int, string) memory.Outcome) { s.cut = by }
	seen := map[string]bool{} // looks since the last write
	for n, op := range whole.calls {
		switch {
		case !c.loses(op), seen[op]:
		case whole.wrote(n):
			clear(seen)
			for _, loss := range append(slices.Clone(afterwards), losses[n%2]) {
				lost(n, op, loss.name, loss.outcome, calls)
			}
		default:
			loss := losses[n%2] // an error, or a crash
			lost(n, op, loss.name, loss.outcome, calls)
			seen[op] = true
		}
	}
	for n, made := range whole.writes { // behind the last one of a call is behind the call
		if n+1 < len(whole.writes) && whole.writes[n+1].call == made.call && c.loses(whole.calls[made.call]) {
			for _, loss := range afterwards {
				lost(n, made.what, loss.name, loss.outcome, requests)
			}
		}
	}
	t.Logf("%d calls with %d requests that write, lost in %d ways", len(whole.calls), len(whole.writes), ways)
}

// wrote tells whether a call has changed anything in the management cluster.
func (s *stage) wrote(call int) bool {
	return slices.ContainsFunc(s.writes, func(r request) bool { return r.call == call })
}

// published writes down what a capture has written down by the time that its version is complete.
func (s *stage) published(p *v1alpha1.Prototype) {
	s.t.Helper()
	proof := v1alpha1.Proof{UID: p.UID, Order: "order", BootID: "boot", Profile: p.Spec.Settings.Generalize.Profile, ProfileVersion: "1", Rules: 7, Met: 7, ManifestDigest: "sha256:0", At: metav1.NewTime(noon)}
	record, err := json.Marshal(v1alpha1.Record{GeneralizeBootID: "boot", Order: &v1alpha1.OrderRecord{UID: "order", Key: "key"}, Returning: true, Recipe: "ami-generic"})
	s.must(err)
	proven, err := json.Marshal(proof)
	s.must(err)
	controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
	p.Annotations = map[string]string{v1alpha1.RecordAnnotation: string(record), v1alpha1.ProofAnnotation: string(proven)}
	s.must(s.objects.Update(s.t.Context(), p))

	copied := s.cloud.Disks().Build("copied", "ami-generic")
	s.cloud.MarkGeneralized(copied)
	s.cloud.GuestPowerOff(copied)
	s.clock.Advance(time.Minute)
	snapshot, err := s.cloud.Disks().EnsureSnapshot(s.t.Context(), cloud.SnapshotSpec{Name: "copied", Instance: copied})
	s.must(err)
	s.clock.Advance(time.Minute)
	_, err = s.cloud.Disks().EnsureImage(s.t.Context(), cloud.VersionSpec{LineRef: s.lineRef(version), SnapshotID: snapshot.ID, Tags: map[string]string{
		cloud.TagPrototype: p.Name, cloud.TagUID: string(p.UID), cloud.TagProof: proof.Tag(), cloud.TagKubelet: kubelet, cloud.TagBuiltAt: noon.Format(cloud.BuiltAtLayout)}})
	s.must(err)
	s.clock.Advance(time.Minute)
	s.must(s.cloud.Disks().DeleteSnapshot(s.t.Context(), copied, "copied"))
	s.cloud.Disks().Discard(copied)
}

func (s *stage) lineRef(version string) cloud.LineRef {
	return cloud.LineRef{Line: cloud.Line{Place: region, Name: s.line}, Version: version}
}

func (s *stage) imageOf(version string) string { return s.cloud.Disks().ImageID(s.lineRef(version)) }

// succeeded plays the capture, and holds that it succeeded and what is true of its course.
func (s *stage) succeeded(c course) {
	s.t.Helper()
	p := s.play()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		s.t.Fatalf("the capture did not succeed: %s", verdict(p))
	}
	record, err := v1alpha1.RecordOf(p)
	s.must(err)
	if record.Reservation != nil || len(p.Finalizers) > 0 || record.Trial != nil && record.Trial.Name != "" {
		s.t.Errorf("the prototype still holds: %+v %v", record, p.Finalizers)
	}
	c.holds(s)
}

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
