package rebuild

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestNodesAreRebuiltInTurn: every bad node is rebuilt once, no good one is, and never more are out of service than
// allowed.
func TestNodesAreRebuiltInTurn(t *testing.T) {
	for _, limit := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := newTestEnv(t, 4)
			r := s.replacement()
			r.MaxUnavailable = limit
			result := s.run(r)
			slices.Sort(result.Rebuilt)
			if diff := cmp.Diff(s.badNodes(), result.Rebuilt); diff != "" || len(result.Failed) > 0 || result.Waiting != "" {
				t.Errorf("rebuilt (-want +got):\n%s\n%+v", diff, result)
			}
			s.wantClean(good, s.badNodes()...)
			if s.worst != limit {
				t.Errorf("%d nodes were out of service at once, want %d", s.worst, limit)
			}
			if s.rebuilds() != 4 {
				t.Errorf("%d rebuilds of 4 nodes", s.rebuilds())
			}
			for _, name := range s.badNodes() {
				if label := s.node(name).Labels[v1alpha1.VersionLabel]; label != good {
					t.Errorf("the label of %s is %q", name, label)
				}
			}
		})
	}
}

// TestAnImageMustGo: where an image is named in place of a version, those that were built from it are rebuilt.
func TestAnImageMustGo(t *testing.T) {
	s := newTestEnv(t, 2)
	s.cloud.ChangeRecipe(s.pool, "ubuntu:2204")
	s.join("generic-0")
	s.point(good)
	r := s.replacement()
	r.Image, r.From = "Ubuntu:2204", "ubuntu:2204"
	if diff := cmp.Diff([]string{"generic-0"}, s.run(r).Rebuilt); diff != "" {
		t.Errorf("rebuilt (-want +got):\n%s", diff)
	}
	s.wantClean(bad, s.badNodes()...)
}

func TestAllAtOnce(t *testing.T) {
	s := newTestEnv(t, 5)
	s.budget["on-bad-0"] = 1e6
	r := s.replacement()
	r.AllAtOnce = true
	result := s.run(r)
	if len(result.Rebuilt) != 5 || s.worst != 5 || s.pauses > 60 {
		t.Errorf("%+v, %d at once, in %d passes", result, s.worst, s.pauses)
	}
	s.wantClean(good, s.badNodes()...)
}

// TestRebuildContinuesAfterCrash: after an end at any step, a restart reaches the same end, and nothing is
// rebuilt twice.
func TestRebuildContinuesAfterCrash(t *testing.T) {
	for crash := 1; crash < 30; crash += 3 {
		s := newTestEnv(t, 2)
		died := errors.New("killed")
		s.between = func(pauses int) error {
			if pauses%crash == 0 && pauses < 100 {
				return died
			}
			return nil
		}
		for {
			r := s.replacement()
			result, err := r.Run(t.Context(), s.show, s.pause)
			if errors.Is(err, died) {
				continue
			}
			s.must(err)
			if len(result.Failed) > 0 {
				t.Errorf("crash every %d: %+v", crash, result)
			}
			break
		}
		s.wantClean(good, s.badNodes()...)
		if s.rebuilds() != 2 || s.worst > 1 {
			t.Errorf("crash every %d: %d rebuilds of 2 nodes, %d out of service at once", crash, s.rebuilds(), s.worst)
		}
	}
}

// TestBudgetsAreRespected: a budget that gives way is waited for; a blocking budget ends with the node released
// and the others go on.
func TestBudgetsAreRespected(t *testing.T) {
	s := newTestEnv(t, 3)
	s.budget["on-bad-0"], s.budget["on-bad-1"] = 10, 1e6
	result := s.run(s.replacement())
	if diff := cmp.Diff([]string{"bad-0", "bad-2"}, result.Rebuilt); diff != "" {
		t.Errorf("rebuilt (-want +got):\n%s", diff)
	}
	if why := result.Failed["bad-1"]; !strings.Contains(why, "was not drained within 15m0s: default/on-bad-1: ") ||
		!strings.Contains(why, "the budget says no") {
		t.Errorf("failed: %v", result.Failed)
	}
	s.wantClean(good, "bad-0", "bad-2")
	if built := s.cloud.World().Instance(s.nodes["bad-1"]).BuiltFrom; built != bad {
		t.Errorf("bad-1 was not drained and runs %s", built)
	}
}

func TestForceDoesNotWaitForBudgets(t *testing.T) {
	s := newTestEnv(t, 1)
	s.budget["on-bad-0"] = 1e6
	r := s.replacement()
	r.Drain.Force = true
	if result := s.run(r); len(result.Rebuilt) != 1 {
		t.Errorf("%+v", result)
	}
}

func TestPodsThatNothingMakesAgain(t *testing.T) {
	s := newTestEnv(t, 1)
	lonely := podOn("bad-0")
	lonely.Name, lonely.OwnerReferences = "lonely", nil
	s.must(s.kube.Tracker().Add(lonely))
	result := s.run(s.replacement())
	if why := result.Failed["bad-0"]; !strings.Contains(why, "lonely") || s.rebuilds() != 0 {
		t.Errorf("failed: %v, %d rebuilds", result.Failed, s.rebuilds())
	}
	s.wantClean(bad, "bad-0")
}

// TestNodesThatAreDownGoFirst: they cost nothing, and they do not hold the others up; a node that is down and not
// to be rebuilt does.
func TestNodesThatAreDownGoFirst(t *testing.T) {
	s := newTestEnv(t, 3)
	s.down("bad-2")
	result := s.run(s.replacement())
	if diff := cmp.Diff([]string{"bad-2", "bad-0", "bad-1"}, result.Rebuilt); diff != "" {
		t.Errorf("rebuilt (-want +got):\n%s", diff)
	}

	s = newTestEnv(t, 1)
	s.down("good-0")
	result = s.run(s.replacement())
	if len(result.Rebuilt) > 0 || !strings.Contains(result.Waiting, "good-0 (not Ready)") {
		t.Errorf("another node is down: %+v", result)
	}
	if s.clock.Now().Sub(time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)) < 30*time.Minute {
		t.Error("it did not wait for the other node")
	}
}

// down switches a machine off; only a rebuild starts it again.
func (s *testEnv) down(name string) {
	s.t.Helper()
	if !s.cloud.StopByStranger(s.nodes[name]) {
		s.t.Fatal("not stopped")
	}
	s.cloud.Settle()
	s.kubelet(name, s.nodes[name])
}

// TestFailedNodeStopsRebuild: it stays cordoned, and the same again goes on with it.
func TestFailedNodeStopsRebuild(t *testing.T) {
	s := newTestEnv(t, 2)
	s.deaf["bad-0"] = true
	result := s.run(s.replacement())
	if len(result.Rebuilt) > 0 || !strings.Contains(result.Failed["bad-0"], "was not Ready again within 30m0s") ||
		!strings.Contains(result.Waiting, "bad-0 (being rebuilt)") {
		t.Errorf("%+v", result)
	}
	if n := s.node("bad-0"); !n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		t.Errorf("it is not held: %+v", n)
	}
	if diff := cmp.Diff([]string{"bad-0 Normal Rebuilding", "bad-0 Warning NotRebuilt"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s.events = nil
	s.deaf["bad-0"] = false
	result = s.run(s.replacement())
	if len(result.Rebuilt) != 2 || s.rebuilds() != 2 {
		t.Errorf("once more: %+v, %d rebuilds", result, s.rebuilds())
	}
	if diff := cmp.Diff([]string{"bad-0 Normal Rebuilt", "bad-1 Normal Rebuilding", "bad-1 Normal Rebuilt"}, s.events); diff != "" {
		t.Errorf("events once more (-want +got):\n%s", diff)
	}
	s.wantClean(good, s.badNodes()...)
}

func TestARebuildThatFailsIsTriedAgain(t *testing.T) {
	s := newTestEnv(t, 1)
	s.cloud.FailRebuilds(s.nodes["bad-0"], 2)
	result := s.run(s.replacement())
	if len(result.Rebuilt) != 1 || s.rebuilds() != 3 {
		t.Errorf("%+v after %d rebuilds", result, s.rebuilds())
	}
	if !slices.ContainsFunc(s.said, func(line string) bool { return strings.Contains(line, "because the cloud failed") }) {
		t.Errorf("nothing was said of it: %v", s.said)
	}
}

// TestRecipeChangeStopsRebuild: nodes are never rebuilt from something else, and a node that was only reserved is released.
func TestRecipeChangeStopsRebuild(t *testing.T) {
	s := newTestEnv(t, 2)
	s.between = func(pauses int) error {
		if pauses == 1 {
			s.point(bad)
		}
		return nil
	}
	_, err := s.replacement().Run(t.Context(), s.show, s.pause)
	if !errors.Is(err, ErrStopped) || s.rebuilds() != 0 {
		t.Errorf("%v, %d rebuilds", err, s.rebuilds())
	}
	s.wantClean(bad, s.badNodes()...)
}

func TestMissingPermissionReleasesNode(t *testing.T) {
	s := newTestEnv(t, 2)
	s.cloud.Forbid("EnsureRebuilt")
	_, err := s.replacement().Run(t.Context(), s.show, s.pause)
	if !cloud.Is(err, cloud.Denied) {
		t.Errorf("got %v", err)
	}
	s.wantClean(bad, s.badNodes()...)
	if !slices.Contains(s.events, "bad-0 Warning NotRebuilt") {
		t.Errorf("events: %v", s.events)
	}
}

// TestDonorIsNotRebuilt until its release.
func TestDonorIsNotRebuilt(t *testing.T) {
	s := newTestEnv(t, 2)
	held := s.node("bad-0")
	held.Annotations = map[string]string{v1alpha1.ReservationAnnotation: `{"name":"pool1-2026.03.03","uid":"u"}`}
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), held, ""))
	s.between = func(pauses int) error {
		if pauses == 30 {
			n := s.node("bad-0")
			if s.cloud.World().Instance(s.nodes["bad-0"]).BuiltFrom != bad {
				t.Error("a donor was rebuilt")
			}
			n.Annotations = nil
			s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
		}
		return nil
	}
	if result := s.run(s.replacement()); len(result.Rebuilt) != 2 {
		t.Errorf("%+v", result)
	}
}

// TestRunAdoptsOwnNodes: those that a run towards the same version took are gone on with; any other holder's node
// stays as it is.
func TestRunAdoptsOwnNodes(t *testing.T) {
	for _, c := range []struct {
		name, reservation string
		takesOver         bool
	}{
		{"its own", `{"kind":"Replacement","name":"pool1-2026.03.01","uid":"OWN","reservedAt":"2026-03-03T12:00:00Z","rebuild":{"bootID":"BOOT","startedAt":"2026-03-03T12:00:00Z"}}`, true},
		{"that of another version", `{"kind":"Replacement","name":"pool1-2026.02.01","uid":"another","reservedAt":"2026-03-03T12:00:00Z"}`, false},
		{"what is not known", `{"kind":"Pioneer","name":"pool1-2026.03.01","uid":"OWN","reservedAt":"2026-03-03T12:00:00Z"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t, 1)
			s.budget["on-bad-0"] = 3
			fill := strings.NewReplacer("OWN", string(s.replacement().holder().UID), "BOOT", s.node("bad-0").Status.NodeInfo.BootID)
			held := s.node("bad-0")
			held.Annotations = map[string]string{v1alpha1.ReservationAnnotation: fill.Replace(c.reservation)}
			s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), held, ""))
			if c.takesOver {
				r, err := v1alpha1.ReservationOf(held.Annotations)
				s.must(err)
				_, err = s.replacement().reservations().Note(t.Context(), held, *r)
				s.must(err)
			}
			result := s.run(s.replacement())
			if c.takesOver {
				if len(result.Rebuilt) != 1 || s.budget["on-bad-0"] > 0 {
					t.Errorf("%+v, and its pods were asked to go: %t", result, s.budget["on-bad-0"] == 0)
				}
				s.wantClean(good, "bad-0")
				return
			}
			if after := s.node("bad-0"); len(result.Rebuilt) > 0 || s.rebuilds() > 0 || after.Spec.Unschedulable ||
				!maps.Equal(after.Annotations, held.Annotations) {
				t.Errorf("%+v, and the node carries %v", result, after.Annotations)
			}
			if !strings.Contains(result.Waiting, "node bad-0 is held by ") {
				t.Errorf("it waits for %q", result.Waiting)
			}
		})
	}
}

// TestNodeOfAnotherHolderIsLeft as that other one has it.
func TestNodeOfAnotherHolderIsLeft(t *testing.T) {
	s := newTestEnv(t, 1)
	s.budget["on-bad-0"] = 1e6
	const theirs = `{"kind":"Prototype","name":"pool1-2026.03.03","uid":"u"}`
	s.between = func(pauses int) error {
		if pauses == 5 {
			n := s.node("bad-0")
			n.Annotations[v1alpha1.ReservationAnnotation] = theirs
			s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
		}
		return nil
	}
	result := s.run(s.replacement())
	if why := result.Failed["bad-0"]; !strings.Contains(why, "is held by prototype pool1-2026.03.03") || s.rebuilds() > 0 {
		t.Errorf("%+v, %d rebuilds", result, s.rebuilds())
	}
	if n := s.node("bad-0"); n.Annotations[v1alpha1.ReservationAnnotation] != theirs || !n.Spec.Unschedulable {
		t.Errorf("the other's hold is gone: %+v", n.Annotations)
	}
}

func TestNodesAndInstancesMayGo(t *testing.T) {
	s := newTestEnv(t, 3)
	s.between = func(pauses int) error {
		switch pauses {
		case 1:
			s.cloud.RemoveInstance(s.nodes["bad-0"])
		case 20:
			s.must(s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "bad-0"))
			delete(s.nodes, "bad-0")
		}
		return nil
	}
	result := s.run(s.replacement())
	if diff := cmp.Diff([]string{"bad-1", "bad-2"}, result.Rebuilt); diff != "" || len(result.Failed) > 0 {
		t.Errorf("%+v\n%s", result, diff)
	}
}

// TestInstanceNotFoundAlone: the cloud answers 404 for an instance that exists, before and during its rebuild.
func TestInstanceNotFoundAlone(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8} {
		for _, after := range []int{0, 1, 2} {
			s := newTestEnv(t, 1)
			r, asked := s.replacement(), 0
			r.Cloud = memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
				if c.Op != "EnsureRebuilt" {
					return memory.Pass()
				}
				if asked++; asked > after && asked <= after+n {
					return memory.FailBefore(cloud.NotFound)
				}
				return memory.Pass()
			})
			result := s.run(r)
			if diff := cmp.Diff([]string{"bad-0"}, result.Rebuilt); diff != "" || len(result.Failed) > 0 || s.rebuilds() != 1 {
				t.Errorf("%d after %d: %+v\n%s", n, after, result, diff)
			}
			if node := s.node("bad-0"); node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" {
				t.Errorf("%d after %d: %+v", n, after, node)
			}
		}
	}
}

func TestOwnNodeIsNotRebuilt(t *testing.T) {
	s := newTestEnv(t, 2)
	r := s.replacement()
	r.OwnNode = "bad-1"
	result := s.run(r)
	if !slices.Equal(result.Rebuilt, []string{"bad-0"}) || result.Failed["bad-1"] == "" {
		t.Errorf("%+v", result)
	}
}

// TestANodeThatWasCordonedStaysSo.
func TestANodeThatWasCordonedStaysSo(t *testing.T) {
	s := newTestEnv(t, 1)
	n := s.node("bad-0")
	n.Spec.Unschedulable = true
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	s.run(s.replacement())
	if after := s.node("bad-0"); !after.Spec.Unschedulable || len(after.Annotations) > 0 {
		t.Errorf("cordoned %t, annotations %v", after.Spec.Unschedulable, after.Annotations)
	}
}

// noRebuildCloud is a cloud that cannot rebuild.
type noRebuildCloud struct{ Cloud }

func (noRebuildCloud) CanRebuild(cloud.PoolID) bool { return false }

func TestAProviderThatCannot(t *testing.T) {
	s := newTestEnv(t, 1)
	r := s.replacement()
	r.Cloud = noRebuildCloud{s.cloud}
	if _, err := r.Run(t.Context(), s.show, s.pause); !cloud.Is(err, cloud.Unsupported) {
		t.Errorf("got %v", err)
	}
}

// TestTroubleThatPasses: a cloud or an API server that does not answer for a while is waited for.
func TestTroubleThatPasses(t *testing.T) {
	s := newTestEnv(t, 2)
	faulty := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
		if c.Op == "EnsureRebuilt" && c.Index%3 == 0 {
			return memory.Outcome{Err: &cloud.Error{Kind: cloud.Throttled}}
		}
		return memory.Pass()
	})
	r := s.replacement()
	r.Cloud = faulty
	if result := s.run(r); len(result.Rebuilt) != 2 || s.rebuilds() != 2 {
		t.Errorf("%+v, %d rebuilds", result, s.rebuilds())
	}
}

// TestDoNotDisruptIsRespected is left alone, uncordoned, until that was allowed; of a node that is down nothing can ask.
func TestDoNotDisruptIsRespected(t *testing.T) {
	arrange := func() *testEnv {
		s := newTestEnv(t, 2)
		object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", "on-bad-0")
		s.must(err)
		pod := object.(*corev1.Pod).DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.SafeToEvictAnnotation, "false")
		s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "default"))
		object, err = s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "bad-1")
		s.must(err)
		n := object.(*corev1.Node).DeepCopy()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.DoNotDisruptAnnotation, "true")
		s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
		return s
	}
	s := arrange()
	result := s.run(s.replacement())
	if s.rebuilds() != 0 || !strings.Contains(result.Failed["bad-0"], "default/on-bad-0") ||
		!strings.Contains(result.Failed["bad-1"], v1alpha1.DoNotDisruptAnnotation) {
		t.Errorf("%d rebuilds, failed: %v", s.rebuilds(), result.Failed)
	}
	for _, why := range result.Failed {
		if !strings.Contains(why, "--disrupt") {
			t.Errorf("no remedy: %s", why)
		}
	}

	s = arrange()
	r := s.replacement()
	r.Drain.Disrupt = true
	if result := s.run(r); len(result.Rebuilt) != 2 {
		t.Errorf("it was allowed: %+v", result)
	}

	s = arrange()
	s.down("bad-0")
	if result := s.run(s.replacement()); len(result.Rebuilt) != 1 || result.Rebuilt[0] != "bad-0" {
		t.Errorf("a node that is down: %+v", result)
	}
}
