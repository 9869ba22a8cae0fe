package capture

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/selection"
)

// annotatePod has one of the donor's pods carry an annotation.
func (s *testEnv) annotatePod(name, key, value string) {
	s.t.Helper()
	s.changePod(name, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) })
}

// change edits a node behind the engine's back.
func (s *testEnv) change(name string, edit func(*corev1.Node)) {
	s.t.Helper()
	node, err := s.objects.Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	s.must(err)
	changed := node.(*corev1.Node).DeepCopy()
	edit(changed)
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), changed, ""))
}

// refused plays the capture, and checks the refusal and its reason.
func (s *testEnv) refused(reason string, words ...string) {
	s.t.Helper()
	p := s.play()
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != reason || p.Status.Donor != nil {
		s.t.Fatalf("it is not refused as %s: %s", reason, verdict(p))
	}
	for _, word := range words {
		if !strings.Contains(p.Status.Failure.Message, word) {
			s.t.Errorf("%q does not say %q", p.Status.Failure.Message, word)
		}
	}
	if i := slices.IndexFunc(s.calls(), func(call string) bool { return strings.Contains(call, "eviction") }); i >= 0 {
		s.t.Errorf("a pod was asked to go: %s", s.calls()[i])
	}
}

// TestPodsThatAskNotToBeEvicted block the capture of their node, unless the settings allow the eviction.
func TestPodsThatAskNotToBeEvicted(t *testing.T) {
	s := newTestEnv(t)
	s.annotatePod("app-1", v1alpha1.SafeToEvictAnnotation, "false")
	s.decide().refused(selection.DoNotDisrupt, "node "+donorName, "default/app-1 ("+v1alpha1.SafeToEvictAnnotation+")", "settings.drain.disrupt")

	s = newTestEnv(t)
	s.annotatePod("app-1", v1alpha1.SafeToEvictAnnotation, "false")
	s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Drain.Disrupt = true })
	s.succeeded(s.play())
}

// TestANodeThatAsksNotToBeDisrupted is no donor.
func TestANodeThatAsksNotToBeDisrupted(t *testing.T) {
	s := newTestEnv(t)
	s.change(donorName, func(n *corev1.Node) { n.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true" })
	s.decide().refused(selection.DoNotDisrupt, "node "+donorName, "settings.drain.disrupt")
}

// TestUnavailableNodesBlockCapture: in a pool of three nodes, a node that is not Ready blocks the capture of another node.
func TestUnavailableNodesBlockCapture(t *testing.T) {
	third := func(s *testEnv) {
		n := s.node("third", s.cloud.AddInstance(s.pool, "2"))
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		s.must(s.objects.Add(n))
	}
	s := newTestEnv(t)
	third(s)
	s.decide().refused(selection.TooManyUnavailable, "node "+donorName, "1 node of pool pool1 is not Ready or cordoned", "settings.outOfService.maxUnavailable")

	s = newTestEnv(t)
	third(s)
	two := intstr.FromInt32(2)
	s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.OutOfService.MaxUnavailable = &two })
	s.succeeded(s.play())
}

// TestEvictionsAreCounted separates a node with few evictions from a node with protected pods.
func TestEvictionsAreCounted(t *testing.T) {
	s := newTestEnv(t)
	if n, err := s.engine.Evictions(t.Context(), donorName, v1alpha1.DrainSettings{}); err != nil || n != 3 {
		t.Errorf("%d evictions, %v", n, err)
	}
	s.annotatePod("app-1", v1alpha1.SafeToEvictAnnotation, "false")
	if n, err := s.engine.Evictions(t.Context(), donorName, v1alpha1.DrainSettings{}); err != nil || n < cannotEvict {
		t.Errorf("%d evictions, %v", n, err)
	}
	if n, err := s.engine.Evictions(t.Context(), donorName, v1alpha1.DrainSettings{Disrupt: true}); err != nil || n != 3 {
		t.Errorf("%d evictions, %v", n, err)
	}
}

// changePod edits one of the donor's pods.
func (s *testEnv) changePod(name string, edit func(*corev1.Pod)) {
	s.t.Helper()
	pod, err := s.objects.Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name)
	s.must(err)
	changed := pod.(*corev1.Pod).DeepCopy()
	edit(changed)
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), changed, "default"))
}
