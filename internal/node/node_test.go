package node

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var holder = v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.14", UID: "uid"}

func get(t testing.TB, kube *fake.Clientset) *corev1.Node {
	t.Helper()
	n, err := kube.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReleaseUndoesReserve: a reservation and its release leave any node unchanged.
func TestReleaseUndoesReserve(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		annotations := map[string]string{}
		for _, key := range []string{v1alpha1.ScaleDownDisabledAnnotation, v1alpha1.DoNotDisruptAnnotation, "theirs"} {
			if rapid.Bool().Draw(rt, key) {
				annotations[key] = rapid.SampledFrom([]string{"true", "false", ""}).Draw(rt, "value")
			}
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node", Annotations: annotations}}
		n.Spec.Unschedulable = rapid.Bool().Draw(rt, "cordoned")
		before := n.DeepCopy()
		kube := fake.NewClientset(n)
		ctx := t.Context()

		r := NewReservation(holder, n, rapid.SampledFrom([]string{"", "a token"}).Draw(rt, "hold"), metav1.NewTime(time.Unix(1, 0)))
		if err := Reserve(ctx, kube, n, r); err != nil {
			rt.Fatal(err)
		}
		held := get(t, kube)
		if held.Annotations[v1alpha1.ScaleDownDisabledAnnotation] != "true" || held.Annotations[v1alpha1.DoNotDisruptAnnotation] != "true" {
			rt.Fatalf("others may remove the node: %v", held.Annotations)
		}
		written, err := v1alpha1.ReservationOf(held.Annotations)
		if err != nil || written == nil || written.UID != "uid" || written.Protection != r.Protection || Restored(held, *written) {
			rt.Fatalf("reservation: %+v, %v", written, err)
		}
		if err := Cordon(ctx, kube, held); err != nil {
			rt.Fatal(err)
		}
		if !get(t, kube).Spec.Unschedulable {
			rt.Fatal("not cordoned")
		}
		if err := Release(ctx, kube, get(t, kube), *written, nil); err != nil {
			rt.Fatal(err)
		}
		after := get(t, kube)
		if len(after.Annotations) == 0 && len(before.Annotations) == 0 {
			after.Annotations, before.Annotations = nil, nil
		}
		if diff := gocmp.Diff(before.Annotations, after.Annotations); diff != "" || after.Spec.Unschedulable != before.Spec.Unschedulable {
			rt.Fatalf("the node is not as it was: %s", diff)
		}
		if !Restored(after, *written) {
			rt.Fatal("Restored does not see that it is")
		}
	})
}

// TestAChangedNodeIsNotWritten: the patch has the resource version of the read, so that the API server can refuse the
// patch.
func TestAChangedNodeIsNotWritten(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node", ResourceVersion: "41"}}
	kube := fake.NewClientset(n)
	kube.PrependReactor("patch", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
		patch := string(a.(kubetesting.PatchAction).GetPatch())
		if want := `"resourceVersion":"41"`; !strings.Contains(patch, want) || !strings.Contains(patch, `"uid":"node"`) {
			t.Errorf("patch %s does not say what it was made from", patch)
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), "n1", errors.New("changed"))
	})
	if err := Cordon(t.Context(), kube, n); !apierrors.IsConflict(err) {
		t.Errorf("a conflict came back as %v", err)
	}
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	p.Spec.NodeName = "n1"
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func unowned(p *corev1.Pod) { p.OwnerReferences = nil }

func ofDaemonSet(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }

func TestLeft(t *testing.T) {
	kube := fake.NewClientset(
		pod("app"),
		pod("scratch", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}),
		pod("static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("ours", unowned, func(p *corev1.Pod) {
			p.Namespace, p.Spec.ServiceAccountName = "kamino", v1alpha1.GeneralizeServiceAccount
		}),
		pod("lonely", unowned),
		pod("agent", ofDaemonSet),
		pod("agent-ended", ofDaemonSet, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("own-kind", ofDaemonSet, func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }),
		pod("ended", unowned, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		// Labels and annotations of a pod do not exempt the pod from eviction.
		pod("labelled", func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.PrototypeLabel: "p"} }),
		pod("ours", func(p *corev1.Pod) { p.Spec.ServiceAccountName = v1alpha1.GeneralizeServiceAccount }),
		pod("another", func(p *corev1.Pod) {
			p.Namespace, p.Spec.ServiceAccountName = "kamino", v1alpha1.GeneralizeServiceAccount
		}),
		pod("visitor", func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = v1alpha1.GroupVersion.String(), "Prototype"
		}), // a trial's
		pod("clerk", func(p *corev1.Pod) { p.Namespace, p.Spec.ServiceAccountName = "kamino", "clerk" }),
	)
	for _, c := range []struct {
		name  string
		force bool
		left  []string
		stuck []string
	}{
		{"without force", false, []string{"default/agent-ended", "kamino/another", "default/app", "kamino/clerk", "default/ended",
			"default/labelled", "default/ours",
			"default/own-kind", "default/scratch", "default/visitor"}, []string{"pod default/lonely has no controller that would create the pod again"}},
		{"with force", true, []string{"default/agent-ended", "kamino/another", "default/app", "kamino/clerk", "default/ended", "default/labelled",
			"default/lonely", "default/ours",
			"default/own-kind", "default/scratch", "default/visitor"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, err := Left(t.Context(), kube, "n1", v1alpha1.DrainSettings{Force: c.force}, OwnPod{"kamino", "ours"})
			if err != nil {
				t.Fatal(err)
			}
			names := left.Names()
			slices.SortFunc(names, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
			if diff := gocmp.Diff(c.left, names); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(c.stuck, left.Stuck); diff != "" {
				t.Errorf("stuck (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEvict requests one eviction per pod, returns the blocking budget and continues with the next pod.
func TestEvict(t *testing.T) {
	leaving := pod("leaving", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	kube := fake.NewClientset(pod("guarded"), pod("free"))
	var evicted []string
	kube.PrependReactor("create", "pods", func(a kubetesting.Action) (bool, runtime.Object, error) {
		name := a.(kubetesting.CreateAction).GetObject().(metav1.Object).GetName()
		evicted = append(evicted, name)
		switch name {
		case "guarded":
			err := apierrors.NewTooManyRequests("no", 0)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "DisruptionBudget",
				Message: "The disruption budget app needs 1 healthy pods and has 1 currently"}}
			return true, nil, err
		case "gone":
			return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
		}
		return true, nil, nil
	})
	left := Remaining{Pods: []corev1.Pod{*pod("guarded"), *leaving, *pod("gone"), *pod("free")}}
	blocked, err := Evict(t.Context(), kube, left, v1alpha1.DrainSettings{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"guarded", "gone", "free"}, evicted); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	if len(blocked) != 1 || blocked[0].String() != "default/guarded: The disruption budget app needs 1 healthy pods and has 1 currently" {
		t.Errorf("blocked: %v", blocked)
	}
}

// TestHardEvictDeletes: with force, after the timeout, Evict ignores budgets.
func TestHardEvictDeletes(t *testing.T) {
	kube := fake.NewClientset(pod("guarded"))
	grace := metav1.Duration{Duration: 5 * time.Second}
	if _, err := Evict(t.Context(), kube, Remaining{Pods: []corev1.Pod{*pod("guarded")}},
		v1alpha1.DrainSettings{Force: true, GracePeriod: &grace}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().Pods("default").Get(t.Context(), "guarded", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
}

// TestEvictReportsErrors: Evict returns errors that no budget caused.
func TestEvictReportsErrors(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "app", errors.New("no"))
	})
	if _, err := Evict(t.Context(), kube, Remaining{Pods: []corev1.Pod{*pod("app")}}, v1alpha1.DrainSettings{}, false); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}
