package capture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// forgeries are reports on the NodeOrder from clients with the pod's token, but without the signature of this pod.
var forgeries = []struct {
	name string
	sign func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus
}{
	{"not signed", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		return v1alpha1.NodeOrderStatus{Report: s.signed(order, pod, nil).Report}
	}},
	{"signed with a key of one's own", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		private, _, err := v1alpha1.NewOrderKey()
		s.must(err)
		return s.signed(order, pod, private)
	}},
	{"changed behind its signature", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		status := s.signed(order, pod, s.keyOf(order))
		status.Report = strings.Replace(status.Report, `"met":7`, `"met":7,"changed":9`, 1)
		return status
	}},
	{"of another pod", func(s *testEnv, order *v1alpha1.NodeOrder, _ *corev1.Pod) v1alpha1.NodeOrderStatus {
		return s.signed(order, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "another"}}, s.keyOf(order))
	}},
	{"of another order", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		other := order.DeepCopy()
		other.UID = "another"
		return s.signed(other, pod, s.keyOf(order))
	}},
	{"of another boot", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		other := order.DeepCopy()
		other.Spec.Token = "another"
		return s.signed(other, pod, s.keyOf(order))
	}},
	{"of another Prototype", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		other := order.DeepCopy()
		other.Spec.Holder.UID = "another"
		return s.signed(other, pod, s.keyOf(order))
	}},
	{"with a list that its proof does not name", func(s *testEnv, order *v1alpha1.NodeOrder, pod *corev1.Pod) v1alpha1.NodeOrderStatus {
		key, _, err := v1alpha1.OrderKey(s.keyOf(order))
		s.must(err)
		status, err := (&v1alpha1.Report{Order: order.UID, Pod: pod.UID, Proof: s.proofFor(order), Contents: "another"}).Sign(key)
		s.must(err)
		return status
	}},
	{"not readable", func(*testEnv, *v1alpha1.NodeOrder, *corev1.Pod) v1alpha1.NodeOrderStatus {
		return v1alpha1.NodeOrderStatus{Report: "{", Signature: "?"}
	}},
}

func (s *testEnv) keyOf(order *v1alpha1.NodeOrder) []byte {
	return s.tracked("secrets", podspace, order.Name).(*corev1.Secret).Data[orderKey]
}

// signed is a report with a good proof. Without a key it is signed with any.
func (s *testEnv) signed(order *v1alpha1.NodeOrder, pod *corev1.Pod, private []byte) v1alpha1.NodeOrderStatus {
	if private == nil {
		private, _, _ = v1alpha1.NewOrderKey()
	}
	key, _, err := v1alpha1.OrderKey(private)
	s.must(err)
	status, err := (&v1alpha1.Report{Order: order.UID, Pod: pod.UID, Proof: s.proofFor(order)}).Sign(key)
	s.must(err)
	return status
}

// TestForgedReportsAreNotBelieved: the donor powers off after a proof that its pod has not signed. No image is made,
// the donor returns, and the failure explains the forgery.
func TestForgedReportsAreNotBelieved(t *testing.T) {
	for _, forgery := range forgeries {
		t.Run(forgery.name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.deaf = true }).decide()
			forged := false
			p := s.play(func(int) {
				order, pod := s.order(), s.generalizePod()
				if order == nil || pod == nil || forged {
					return
				}
				forged = true
				order.Status = forgery.sign(s, order, pod)
				s.must(s.clean.Status().Update(t.Context(), order))
				s.cloud.GuestPowerOff(s.donor)
			})
			s.failed(p, "NotProven")
			if w := s.cloud.World(); len(w.Snapshots)+len(w.Images) > 0 {
				t.Errorf("something was made of the disk: %+v %+v", w.Snapshots, w.Images)
			}
			if says := p.Status.Failure.Message; !strings.Contains(says, "report") {
				t.Errorf("the failure says nothing of the report: %s", says)
			}
			if p.Status.Proof != nil {
				t.Error("the forged proof stands on the Prototype")
			}
		})
	}
}

// TestRecreatedOrderIsIgnored: reports on a recreated NodeOrder are ignored, even with the known key.
func TestRecreatedOrderIsIgnored(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.deaf = true }).decide()
	done := false
	p := s.play(func(int) {
		order, pod := s.order(), s.generalizePod()
		if order == nil || pod == nil || done {
			return
		}
		done = true
		key := s.keyOf(order)
		s.must(s.clean.Delete(t.Context(), order))
		order.UID, order.ResourceVersion = "again", ""
		s.must(s.clean.Create(t.Context(), order))
		order.Status = s.signed(order, pod, key)
		s.must(s.clean.Status().Update(t.Context(), order))
		s.cloud.GuestPowerOff(s.donor)
	})
	s.failed(p, "NotProven")
}

// TestProofIsRemoved: a client removes the proof before each later effect. No recipe names an unproven version,
// and only a complete version stays.
func TestProofIsRemoved(t *testing.T) {
	for _, effect := range []string{"EnsureSnapshot ", "EnsureStarted ", "Unprotect ", "EnsureImage "} {
		for name, change := range map[string]func(*v1alpha1.Prototype){
			"removed": func(p *v1alpha1.Prototype) { p.Status.Proof = nil },
			"changed": func(p *v1alpha1.Prototype) { p.Status.Proof.ManifestDigest = "sha256:1" },
		} {
			t.Run(effect+name, func(t *testing.T) {
				s := newTestEnv(t).decide()
				taken := false
				s.lose = func(what string) memory.Outcome {
					if !taken && strings.HasPrefix(what, effect) {
						p := s.prototype()
						change(p)
						s.must(s.clean.Status().Update(t.Context(), p))
						taken = true
					}
					return memory.Pass()
				}
				p := s.play()
				if !taken {
					t.Fatalf("there was no %s", effect)
				}
				s.tick(time.Minute)
				s.gaveBack()
				if got := s.cloud.World().Pools[0].Recipe.Version; got != "" {
					t.Errorf("the recipe points at %s", got)
				}
				for _, image := range s.cloud.World().Images {
					if image.State != cloud.Complete && image.State != cloud.Deleting {
						t.Errorf("version %s is left half-made: %s", image.Version, image.State)
					}
				}
				if f := p.Status.Failure; f == nil {
					t.Error("the capture did not fail")
				}
			})
		}
	}
}

// TestACaptureThatAnEarlierVersionBegan: an unused proof of an earlier version is ignored. With a snapshot, the capture
// continues. The donor always returns. Earlier versions recorded no NodeOrder, or no namespace.
func TestACaptureThatAnEarlierVersionBegan(t *testing.T) {
	for _, c := range []struct{ snapshot, order bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		snapshot := c.snapshot
		s := newTestEnv(t).decide()
		aged := false
		p := s.play(func(int) {
			p := s.prototype()
			ready := p != nil && p.Status.Proof != nil && (len(s.cloud.World().Snapshots) > 0) == snapshot
			if !ready || aged || p.Status.Phase == v1alpha1.PhaseSucceeded {
				return
			}
			aged = true
			record, err := v1alpha1.RecordOf(p)
			s.must(err)
			if record.Order.Namespace = ""; !c.order {
				record.Order = nil
			}
			p.Status.Record = &record
			p.Status.Proof.Order = "" // its proof named none either
			s.must(s.clean.Status().Update(t.Context(), p))
		})
		if !aged {
			t.Fatal("there was no such moment")
		}
		if snapshot {
			s.succeeded(p)
			continue
		}
		s.failed(p, "NotProven")
	}
}

// TestRejectedReportIsAnnouncedOnce for each cause and all passes, and not after the pod's own report.
func TestRejectedReportIsAnnouncedOnce(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.deaf = true }).decide()
	var events recordedEvents
	logged := 0
	s.engine.Recorder = &events
	s.engine.Log = funcr.New(func(_, line string) {
		if strings.Contains(line, "report is not believed") {
			logged++
		}
	}, funcr.Options{})
	seen := 0 // passes that found a forged report
	var conditions []string
	write := func(forgery int) {
		order, pod := s.order(), s.generalizePod()
		if order == nil || pod == nil {
			return
		}
		seen++
		s.deaf, order.Status = forgery >= 0, v1alpha1.NodeOrderStatus{}
		if s.deaf {
			order.Status = forgeries[forgery].sign(s, order, pod)
		}
		s.must(s.clean.Status().Update(t.Context(), order))
	}
	p := s.play(func(int) {
		switch {
		case seen < 5:
			write(0)
		case seen < 10:
			write(3) // signed, and of another pod
		case seen == 10:
			write(-1)
		}
		if p := s.prototype(); p != nil {
			if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionGeneralized); c != nil && c.Reason == ReportRejected {
				conditions = append(conditions, c.Message)
			}
		}
	})
	s.succeeded(p)
	shown := 0
	for _, event := range events {
		if strings.HasPrefix(event, "Warning ReportRejected: ") {
			shown++
		}
	}
	if shown != 2 || logged != 2 || len(slices.Compact(conditions)) != 2 {
		t.Errorf("%d events and %d lines of the log name 2 causes, and the condition says %q:\n%s",
			shown, logged, slices.Compact(conditions), strings.Join(events, "\n"))
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionGeneralized); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("at the end the condition is %+v", c)
	}
}
