package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// Captures that never began in order: other accounts than the engine's write whatever they can write, before or after the
// first pass. The image of the pod is not allowed, so that the preflight refuses the capture: it may have no effect at all.

// forgedRecords are records that no capture wrote, each with one more field. boot is the boot in which the donor serves.
func forgedRecords(boot string, now time.Time) map[string]v1alpha1.Record {
	at := metav1.NewTime(now)
	held := func(change ...func(*v1alpha1.Record)) v1alpha1.Record {
		r := v1alpha1.Record{
			Reservation: &v1alpha1.Reservation{Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.14", UID: "x"}, ReservedAt: at},
		}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	touched := func(r *v1alpha1.Record) { r.GeneralizeBootID, r.Reservation.GeneralizeBootID = boot, boot }
	leaves := func(r *v1alpha1.Record) {
		r.Reservation.Replacement = json.RawMessage(`{"added":true,"removing":true,"target":2}`)
	}
	ordered := func(r *v1alpha1.Record) {
		r.Order = &v1alpha1.OrderRecord{Namespace: podspace, UID: "u", Key: "k"}
	}
	return map[string]v1alpha1.Record{
		"nothing":           {},
		"a reservation":     held(),
		"an old one":        held(func(r *v1alpha1.Record) { r.Reservation.ReservedAt = metav1.NewTime(now.Add(-72 * time.Hour)) }),
		"a touched donor":   held(touched),
		"an order":          held(touched, ordered),
		"another boot":      held(ordered, func(r *v1alpha1.Record) { r.GeneralizeBootID, r.Reservation.GeneralizeBootID = "earlier", "earlier" }),
		"a donor that left": {GeneralizeBootID: boot, Returning: true},
		"a donor down":      held(func(r *v1alpha1.Record) { r.DownBootID, r.Reservation.DownBootID = boot, boot }),
		"a return":          held(touched, ordered, func(r *v1alpha1.Record) { r.Returning, r.Reservation.ReturningSince = true, &at }),
		"a removal":         held(touched, ordered, leaves),
		"a disk check":      {DiskCheckStartedAt: &at},
		"a trial": {
			GeneralizeBootID: boot,
			Returning:        true,
			Trial:            &v1alpha1.TrialRecord{Attempt: 1, Name: "pool1-trial", StartedAt: at, AttemptStartedAt: at},
		},
		"retired versions": {GeneralizeBootID: boot, Returning: true, Retired: []string{"2026.03.01"}},
		"a patch": held(func(r *v1alpha1.Record) {
			r.Patch = &v1alpha1.PatchRecord{PatchStatus: v1alpha1.PatchStatus{StartedAt: at}}
		}),
	}
}

// forger writes a record with the means of an account.
type forger struct {
	create func(s *testEnv, p *v1alpha1.Prototype, r v1alpha1.Record)
	after  func(s *testEnv, r v1alpha1.Record)
}

func annotate(s *testEnv, p *v1alpha1.Prototype, r v1alpha1.Record) {
	controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
	r.UID = p.UID
	if r.Reservation != nil {
		r.Reservation.UID = p.UID
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.FormerRecordAnnotation, s.text(r))
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "kamino.dev/proof",
		s.text(&v1alpha1.Proof{UID: p.UID, BootID: r.GeneralizeBootID, Rules: 1, Met: 1, ManifestDigest: "sha256:0", At: metav1.NewTime(s.clock.Now())}))
}

// forgers are the accounts of the page on threats that can write a part of a capture, or a copy of it.
var forgers = map[string]forger{
	"creates Prototypes: annotations and finalizer": {create: annotate},
	"creates Prototypes: a status": {create: func(_ *testEnv, p *v1alpha1.Prototype, r v1alpha1.Record) {
		controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
		r.UID = p.UID
		p.Status.Phase, p.Status.Record = v1alpha1.PhaseGeneralizing, &r
	}},
	"updates Prototypes: annotations, finalizer and mark": {after: func(s *testEnv, r v1alpha1.Record) {
		s.onPrototype(func(p *v1alpha1.Prototype) {
			annotate(s, p, r)
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, string(p.UID))
		})
	}},
	"patches Nodes: the reservation": {after: func(s *testEnv, r v1alpha1.Record) {
		if r.Reservation == nil {
			return
		}
		s.onNode(func(n *corev1.Node) {
			r.Reservation.UID = s.prototype().UID
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ReservationAnnotation, s.text(r.Reservation))
		})
	}},
	"tags snapshots and versions": {after: func(s *testEnv, _ v1alpha1.Record) {
		p := s.prototype()
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: p.Spec.Version, Tags: map[string]string{
			cloud.TagPrototype: p.Name, cloud.TagUID: string(p.UID), cloud.TagProof: "static/1/sha256:0"}})
	}},
	"restores a backup with the status": {after: func(s *testEnv, r v1alpha1.Record) {
		s.onPrototype(func(p *v1alpha1.Prototype) {
			controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, "earlier")
		})
		s.onStatus(func(p *v1alpha1.Prototype) {
			r.UID = "earlier"
			p.Status.Phase, p.Status.Record = v1alpha1.PhaseGeneralizing, &r
		})
	}},
	"restores a backup without the status": {create: func(_ *testEnv, p *v1alpha1.Prototype, _ v1alpha1.Record) {
		controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, "earlier")
	}},
}

// firstPasses are the states of the donor at the first pass.
var firstPasses = map[string]func(*testEnv){
	"in service": func(*testEnv) {},
	"cordoned":   func(s *testEnv) { s.onNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }) },
	"its Node silent": func(s *testEnv) {
		s.onNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	},
	"off": func(s *testEnv) { s.cloud.GuestPowerOff(s.donor); s.clock.Advance(time.Minute); s.cloud.Settle() },
	"its Node gone": func(s *testEnv) {
		s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName))
	},
}

// world is everything that a capture can change.
func (s *testEnv) world() map[string]any {
	list := func(resource, kind, namespace string) runtime.Object {
		objects, err := s.objects.List(corev1.SchemeGroupVersion.WithResource(resource), corev1.SchemeGroupVersion.WithKind(kind), namespace)
		s.must(err)
		return objects
	}
	leases, err := s.objects.List(coordinationv1.SchemeGroupVersion.WithResource("leases"), coordinationv1.SchemeGroupVersion.WithKind("Lease"), ourspace)
	s.must(err)
	orders := &v1alpha1.NodeOrderList{}
	s.must(s.clean.List(context.Background(), orders))
	return map[string]any{
		"effects on the cloud": s.cloud.World().Effects, "nodes": list("nodes", "Node", ""), "pods": list("pods", "Pod", ""),
		"secrets": list("secrets", "Secret", ""), "leases": leases, "nodeorders": orders.Items,
	}
}

// settingsOfForgers are what each account also chooses: the specification.
var settingsOfForgers = map[string]func(*v1alpha1.Prototype){
	"returns": func(*v1alpha1.Prototype) {},
	"copied":  func(p *v1alpha1.Prototype) { p.Spec.Settings.Donor.Method = v1alpha1.MethodCopy },
	"patched": func(p *v1alpha1.Prototype) { p.Spec.Pioneer = &v1alpha1.PioneerSettings{} },
}

const rootkit = "evil.example/rootkit:1"

// TestACaptureThatNeverBeganHasNoEffect: every forged field, at every first pass, by every account, for every course.
func TestACaptureThatNeverBeganHasNoEffect(t *testing.T) {
	tried, acted, ends := 0, 0, []bool{false, true}
	if testing.Short() {
		ends = ends[:1]
	}
	for account, by := range forgers {
		for state, prepare := range firstPasses {
			for course, settings := range settingsOfForgers {
				for field := range forgedRecords("", noon) {
					for _, deleted := range ends {
						s := newTestEnv(t)
						record := forgedRecords(s.cloud.BootID(s.donor), s.clock.Now())[field]
						s.decide(func(p *v1alpha1.Prototype) {
							p.Spec.Settings.Generalize.Image = rootkit
							settings(p)
							if by.create != nil {
								by.create(s, p, record)
							}
						})
						prepare(s)
						if by.after != nil {
							by.after(s, record)
						}
						before := s.world()
						if deleted {
							s.must(s.clean.Delete(t.Context(), s.prototype()))
						}
						for range 12 {
							_, _ = s.engine.Pass(t.Context(), s.name)
							s.clock.Advance(5 * time.Second)
						}
						tried++
						if diff := gocmp.Diff(before, s.world()); diff != "" {
							if acted++; acted <= 5 {
								t.Errorf("%s; the donor is %s and %s; forged: %s; deleted %t: %s\n%s",
									account, state, course, field, deleted, verdict(s.prototype()), diff)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d captures never began, %d were acted on", tried, acted)
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
}

// TestTheEnginesOwnRecordIsActedOn: the test before can fail, because the same record has effects where only the engine's
// account writes.
func TestTheEnginesOwnRecordIsActedOn(t *testing.T) {
	s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Image = rootkit })
	firstPasses["off"](s)
	s.onPrototype(func(p *v1alpha1.Prototype) { controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer) })
	s.onStatus(func(p *v1alpha1.Prototype) {
		r := forgedRecords(s.cloud.BootID(s.donor), s.clock.Now())["a return"]
		r.UID, r.Reservation.UID = p.UID, p.UID
		p.Status.Record = &r
	})
	before := s.world()
	for range 12 {
		_, _ = s.engine.Pass(t.Context(), s.name)
		s.clock.Advance(5 * time.Second)
	}
	if diff := gocmp.Diff(before, s.world()); diff == "" {
		t.Error("a donor that is off by the record of its capture is not started")
	}
}

// TestARecordAloneTouchesNoNodeInService: even a record in the status gives no power over a node that is Ready in the recorded
// boot and takes pods: no stop, no removal, no restart, and no pod with another image. The capture says why.
func TestARecordAloneTouchesNoNodeInService(t *testing.T) {
	for field, r := range forgedRecords("", noon) {
		if r.Reservation == nil {
			continue
		}
		for course, settings := range settingsOfForgers {
			t.Run(fmt.Sprint(field, ", ", course), func(t *testing.T) {
				s := newTestEnv(t).decide(settings)
				s.onPrototype(func(p *v1alpha1.Prototype) { controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer) })
				s.onStatus(func(p *v1alpha1.Prototype) {
					r := forgedRecords(s.cloud.BootID(s.donor), s.clock.Now())[field]
					r.UID, r.Reservation.UID = p.UID, p.UID
					p.Status.Record = &r
				})
				mustLeave := s.prototype().Status.Record.LeaveBoot() != "" && field != "another boot" && field != "a removal" && course == "returns"
				awaitsBoot := field == "a return" && course == "returns" // a reboot of the node ends the wait
				for range 12 {
					_, _ = s.engine.Pass(t.Context(), s.name)
					s.clock.Advance(5 * time.Second)
				}
				w := s.cloud.World()
				for _, effect := range []string{memory.EffectStop, memory.EffectRemoveInstance} {
					if w.Count(memory.ByCaller, effect, string(s.donor)) > 0 {
						t.Errorf("the cloud did %s: %s", effect, verdict(s.prototype()))
					}
				}
				if m := w.Instance(s.donor); m.ID == "" || m.Power != cloud.PowerRunning || m.Boots != 1 {
					t.Errorf("the donor is %+v", m)
				}
				p := s.prototype()
				if is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); mustLeave && !awaitsBoot &&
					(is == nil || is.Reason != InService) {
					t.Errorf("the capture does not say why it waits: %+v", is)
				} else if field == "a removal" && (is == nil || is.Reason != EarlierVersion) {
					t.Errorf("the capture of an earlier version does not say why it waits: %+v", is)
				}
			})
		}
	}
}

// TestEveryMakerOfAPodAsksForTheImage: the image is allowed at the preflight, and no longer when a pod is made.
func TestEveryMakerOfAPodAsksForTheImage(t *testing.T) {
	for name, forbid := range map[string]func(s *testEnv) bool{
		"before the inspection": func(s *testEnv) bool { return s.prototype().Status.Phase != "" },
		"before the order":      func(s *testEnv) bool { return s.prototype().Status.Phase == v1alpha1.PhaseDraining },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.blocked = 2 }).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Image = rootkit })
			s.engine.AllowedImages = []string{rootkit}
			forbidden := false
			p := s.play(func(int) {
				if !forbidden && s.prototype() != nil && forbid(s) {
					forbidden, s.engine.AllowedImages = true, nil
				}
				if pod := s.generalizePod(); forbidden && pod != nil && pod.Labels["app.kubernetes.io/component"] == "generalize" {
					t.Errorf("pod %s runs image %s", pod.Name, pod.Spec.Containers[0].Image)
				}
			})
			if !forbidden || p.Status.Failure == nil || p.Status.Failure.Reason != admission.NotAllowed {
				t.Fatalf("forbidden %t: %s", forbidden, verdict(p))
			}
			s.gaveBack()
		})
	}
}

// TestACheckOfPatchesAsksForTheImage: the check of a pioneer comes before the preflight, and runs as root as well.
func TestACheckOfPatchesAsksForTheImage(t *testing.T) {
	s := aPioneer(t)
	failedBefore(s, openssl)
	s.onPrototype(func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Image = rootkit })
	p := s.play()
	if p.Status.Failure == nil || p.Status.Failure.Reason != admission.NotAllowed {
		t.Error(verdict(p))
	}
	for _, call := range s.calls() {
		if call == "create pods/" {
			t.Error("a pod was made")
		}
	}
}
