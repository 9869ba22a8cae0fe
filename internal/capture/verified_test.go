package capture

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// podName is computed, as the Prototype may be gone.
func (s *testEnv) podName() string { return "generalize-" + strings.ReplaceAll(s.name, ".", "-") }

// runPod does what the real generalize pod does, guards included.
func (s *testEnv) runPod() {
	pod, order := s.generalizePod(), s.order()
	s.runLook(pod)
	machine := s.cloud.World().Instance(s.donor)
	if pod == nil || order == nil || s.deaf || machine.Power != cloud.PowerRunning || s.tracked("secrets", order.Namespace, s.podName()) == nil {
		return
	}
	if order.Spec.Method != v1alpha1.InPlace || order.Status.Report != "" || order.Spec.Token != machine.BootID || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID) {
		return
	}
	s.cloud.MarkGeneralized(s.donor)
	s.signReport(order, pod, v1alpha1.Report{Proof: s.proofFor(order), Contents: s.contents})
	if !s.lingering {
		s.cloud.GuestPowerOff(s.donor)
	}
}

// runLook runs the inspecting pod.
func (s *testEnv) runLook(pod *corev1.Pod) {
	if pod == nil || pod.Labels["app.kubernetes.io/component"] != inspectionContainer || pod.Status.Phase != "" || s.blind ||
		s.cloud.World().Instance(s.donor).Power != cloud.PowerRunning {
		return
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
	switch onPeer := pod.Spec.NodeName != s.donorNode; {
	case onPeer && s.summary != nil:
		pod.Status = *s.summary
	case !onPeer && s.finds != nil:
		pod.Status = *s.finds
	}
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
}

func (s *testEnv) proofFor(order *v1alpha1.NodeOrder) *v1alpha1.Proof {
	digest := ""
	if s.contents != "" {
		digest = v1alpha1.ContentsDigest(s.contents)
	}
	level := ""
	if s.patches != nil {
		level = s.patches.level
	}
	return &v1alpha1.Proof{
		PatchLevel:     level,
		ContentsDigest: digest,
		UID:            order.Spec.Holder.UID,
		Order:          order.UID,
		BootID:         order.Spec.Token,
		Profile:        order.Spec.Generalize.Profile,
		ProfileVersion: "1",
		Rules:          7,
		Met:            7,
		Changed:        3,
		Search:         &v1alpha1.Search{Files: 200, Bytes: 4096, Identities: 2, Kept: 1},
		ManifestDigest: "sha256:0",
		At:             metav1.NewTime(s.clock.Now()),
	}
}

// signReport has the pod sign a report, with the key that lies in the order's Secret.
func (s *testEnv) signReport(order *v1alpha1.NodeOrder, pod *corev1.Pod, report v1alpha1.Report) {
	secret := s.tracked("secrets", order.Namespace, order.Name).(*corev1.Secret)
	key, public, err := v1alpha1.OrderKey(secret.Data[orderKey])
	s.must(err)
	if public != order.Spec.Key {
		s.t.Errorf("the key of order %s is not the one that it names", order.Name)
	}
	report.Order, report.Pod = order.UID, pod.UID
	order.Status, err = report.Sign(key)
	s.must(err)
	s.must(s.clean.Status().Update(context.Background(), order))
}

// generalizePod is the pod on the donor, in whichever namespace; nil if there is none.
func (s *testEnv) generalizePod() *corev1.Pod {
	for _, namespace := range []string{podspace, ourspace} {
		if pod, there := s.tracked("pods", namespace, s.podName()).(*corev1.Pod); there {
			return pod
		}
	}
	return nil
}

// order of the pod, in whichever namespace; nil if there is none.
func (s *testEnv) order() *v1alpha1.NodeOrder {
	for _, namespace := range []string{podspace, ourspace} {
		o := &v1alpha1.NodeOrder{}
		err := s.clean.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: s.podName()}, o)
		if apierrors.IsNotFound(err) {
			continue
		}
		s.must(err)
		return o
	}
	return nil
}

func TestVerifiedChecksAreRecorded(t *testing.T) {
	s := newTestEnv(t).decide()
	p := s.play()
	s.succeeded(p)
	v := p.Status.Proof
	if v == nil || v.Met != 7 || v.Changed != 3 || v.ManifestDigest != "sha256:0" || p.Status.Image.Proof != v.Tag() {
		t.Errorf("the proof is %+v, and the image's %q", v, p.Status.Image.Proof)
	}
	image := s.cloud.World().Images[0]
	if got, want := image.Tags[cloud.TagVerified], "rules=7 changed=3 files=200 bytes=4096 identities=2 findings=0 kept=1 tool="; got != want {
		t.Errorf("the image version is tagged %q, want %q", got, want)
	}
	if r := p.Status.Recipe; r == nil || r.From == "" || !strings.Contains(r.To, p.Spec.Version) || len(r.Removes) == 0 {
		t.Errorf("status.recipe is %+v", r)
	}
}

// TestPodReportsMissingProof: a pod that found an obstacle reports the obstacle on the Prototype, whatever
// happens to the pod. The report becomes the failure, and no proof remains.
func TestPodReportsMissingProof(t *testing.T) {
	const found = "not generalized: secrets: private key (PEM) in /etc/vpn.key"
	for _, after := range []time.Duration{0, 5 * time.Second} { // since the pod's report of a proof; zero without a report
		t.Run(after.String(), func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.deaf = true }).decide()
			var proven, said time.Time
			p := s.play(func(int) {
				order, pod := s.order(), s.generalizePod()
				if order == nil || pod == nil || !said.IsZero() {
					return
				}
				if after > 0 && proven.IsZero() {
					proven = s.clock.Now()
					s.signReport(order, pod, v1alpha1.Report{Proof: s.proofFor(order)})
					s.lose = func(what string) memory.Outcome { // the report is accepted, and NodeOrder and key still exist
						if what == "delete secrets/" && said.IsZero() {
							return memory.FailBefore(cloud.Unavailable)
						}
						return memory.Pass()
					}
					return
				}
				if s.clock.Now().Sub(proven) < after {
					return
				}
				said = s.clock.Now()
				s.signReport(order, pod, v1alpha1.Report{Unproven: &v1alpha1.Unproven{UID: order.Spec.Holder.UID, BootID: order.Spec.Token, Message: found}})
			})
			s.failed(p, "GeneralizeFailed")
			if !strings.Contains(p.Status.Failure.Message, found) || !strings.Contains(p.Status.Failure.Message, donorName) {
				t.Errorf("the failure says %q, want %q", p.Status.Failure.Message, found)
			}
			if p.Status.Proof != nil {
				t.Errorf("the proof stays: %+v", p.Status.Proof)
			}
			if w := s.cloud.World(); len(w.Snapshots)+len(w.Images) > 0 {
				t.Errorf("something was made of the disk: %+v %+v", w.Snapshots, w.Images)
			}
		})
	}
}

// TestReportOfAnotherBootIsIgnored: a report of an earlier attempt is ignored.
func TestReportOfAnotherBootIsIgnored(t *testing.T) {
	s := newTestEnv(t).decide()
	s.onStatus(func(p *v1alpha1.Prototype) {
		p.Status.Unproven = &v1alpha1.Unproven{UID: p.UID, BootID: "another", Message: "x"}
	})
	s.succeeded(s.play())
}

func TestPodName(t *testing.T) {
	long := strings.Repeat("p", 60)
	seen := map[string]string{}
	for _, c := range []struct{ prototype, pool, version, want string }{
		{"workers-2026.11.21", "workers", "2026.11.21", "generalize-workers-2026-11-21"},
		{"workers-2026.11.21-2", "workers", "2026.11.21", "generalize-workers-2026-11-21-2"},
		{"workers-2026-11-21", "workers", "2026.11.21", ""},
		{"workers.2026.11.21", "workers", "2026.11.21", ""},
		{"by-hand", "workers", "2026.11.21", ""},
		{long + "-2026.11.21", long, "2026.11.21", ""},
		{long + "-2026.11.21-2", long, "2026.11.21", ""},
	} {
		p := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Pool: c.pool, Version: c.version}}
		p.Name = c.prototype
		got := podName(p)
		if c.want != "" && got != c.want {
			t.Errorf("%s has the pod %s, want %s", c.prototype, got, c.want)
		}
		if wrong := validation.IsDNS1123Label(got); len(wrong) > 0 {
			t.Errorf("%s: %v", got, wrong)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have one pod", c.prototype, other)
		}
		seen[got] = c.prototype
	}
}

func (s *testEnv) addRules(data map[string]string) {
	s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("configmaps"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "our-rules", Namespace: podspace}, Data: data}, podspace))
}

func nameRules(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Rules = "our-rules" }

// TestRulesThatCannotBeUsed are refused before anything is changed.
func TestRulesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		data         map[string]string
		reason, says string
	}{
		"missing":        {nil, admission.RulesInvalid, "ConfigMap kamino-generalize/our-rules of settings.generalize.rules not found"},
		"without a file": {map[string]string{"readme.txt": "x"}, admission.RulesInvalid, "no key ends in .yaml"},
		"wrong":          {map[string]string{"ours.yaml": "x"}, admission.RulesInvalid, "rule x is listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.engine.CheckRules = func(profile v1alpha1.Profile, files map[string][]byte) error {
				return fmt.Errorf("profile %s: rule %s is listed twice", profile, files["ours.yaml"])
			}
			if c.data != nil {
				s.addRules(c.data)
			}
			p := s.decide(nameRules).play()
			if f := p.Status.Failure; f == nil || f.Reason != c.reason || !strings.Contains(f.Message, c.says) {
				t.Errorf("failure %+v, want %s and %q", f, c.reason, c.says)
			}
			if p.Status.Donor != nil || len(p.Finalizers) > 0 {
				t.Errorf("the donor was touched: %+v", p.Status.Donor)
			}
		})
	}
}

// TestRulesDeletedDuringTheDrain end the capture with a definite reason, and the donor returns.
func TestRulesDeletedDuringTheDrain(t *testing.T) {
	s := newTestEnv(t)
	s.addRules(map[string]string{"a.yaml": "aa"})
	s.decide(nameRules)
	deleted := false
	p := s.play(func(int) {
		if n := s.tracked("nodes", "", donorName).(*corev1.Node); n.Spec.Unschedulable && !deleted {
			deleted = true
			s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), podspace, "our-rules"))
		}
	})
	f := p.Status.Failure
	if want := "ConfigMap our-rules of settings.generalize.rules was deleted during the capture of node " + donorName; f == nil ||
		f.Reason != admission.RulesInvalid ||
		!strings.Contains(f.Message, want) {
		t.Errorf("failure %+v", f)
	}
	s.gaveBack()
}

// TestThePodGetsTheRulesOfTheOrder: as a volume, with the digest that was written down before.
func TestThePodGetsTheRulesOfTheOrder(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.deaf = true })
	s.addRules(map[string]string{"b.yaml": "bb\n", "a.yaml": "aa\n", ".hidden": "x"})
	s.decide(nameRules, func(p *v1alpha1.Prototype) {
		p.Spec.Settings.OutOfService.Deadline = metav1.Duration{Duration: 5 * time.Minute}
	})
	// printf 'aa\nbb\n' | sha256sum
	const digest = "sha256:329d670e59ead1543a2d36865895972560bc434204c5f4a0c8219005dd312719"
	seen := false
	s.play(func(int) {
		pod, _ := s.tracked("pods", podspace, s.podName()).(*corev1.Pod)
		if pod == nil || seen || pod.Labels["app.kubernetes.io/component"] == inspectionContainer {
			return
		}
		seen = true
		record, err := v1alpha1.RecordOf(s.prototype())
		s.must(err)
		args := strings.Join(pod.Spec.Containers[0].Args, " ")
		if record.RulesDigest != digest || !strings.HasSuffix(args, "--profile-file /etc/kamino/rules --rules-digest "+digest) {
			t.Errorf("recorded %s, and the pod has %s", record.RulesDigest, args)
		}
		volume := pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
		if volume.ConfigMap == nil || volume.ConfigMap.Name != "our-rules" {
			t.Errorf("the pod has the volume %+v", volume)
		}
	})
	if !seen {
		t.Error("there was no pod")
	}
}
