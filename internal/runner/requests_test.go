package runner

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// reads counts the reads of a process by resource, without renewals of the Lease.
type reads struct {
	next http.RoundTripper

	mu sync.Mutex
	of map[string]int
}

// RoundTrip implements http.RoundTripper.
func (r *reads) RoundTrip(request *http.Request) (*http.Response, error) {
	query, path := request.URL.Query(), strings.Split(request.URL.Path, "/")
	isElection := slices.Contains(path, "leases") && !slices.Contains(path, corev1.NamespaceNodeLease)
	if request.Method == http.MethodGet && query.Get("watch") == "" && !isElection {
		i := slices.IndexFunc(path, func(part string) bool {
			return slices.Contains([]string{"nodes", "pods", "daemonsets", "configmaps", "poddisruptionbudgets", "leases"}, part)
		})
		resource := "others"
		if i >= 0 {
			resource = path[i]
		}
		r.mu.Lock()
		r.of[resource]++
		r.mu.Unlock()
	}
	return r.next.RoundTrip(request)
}

// counted returns the counts.
func (r *reads) counted() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.of)
}

// TestReadsOfAFirstDecision: the reads before a controller's first decision do not grow with the pools. All nodes are
// young, without evidence of a profile, and a DaemonSet is not Ready on all nodes.
func TestReadsOfAFirstDecision(t *testing.T) {
	const pools = 30
	a := newAlarmed(t)
	for i := range pools {
		a.pool(fmt.Sprintf("pool%02d", i), true, nil)
	}
	a.daemonSet(1000, 999)
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.PrototypePolicySpec{DryRun: true}}
	a.must(a.api.Create(t.Context(), policy))
	counted := a.runCounted()
	for look := 0; ; look++ {
		a.must(a.api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
		if n := len(policy.Status.Pools); n == pools &&
			!slices.ContainsFunc(policy.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.Decision == nil || p.JoinHealth == nil }) {
			break
		}
		if look == 600 {
			t.Fatalf("not decided: %+v", policy.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	// Leases of kubelets: 23 one by one, then one LIST. Pods: 20 nodes, then the DaemonSet's pods, Kamino's pods and
	// waiting pods. Nodes: the informer, and the labeler.
	limits := map[string]int{"daemonsets": 1, "leases": 24, "configmaps": 1, "pods": 20 + 1 + 2, "nodes": 4, "poddisruptionbudgets": 0, "others": 20}
	for resource, n := range counted.counted() {
		if n > limits[resource] {
			t.Errorf("%d reads of %s, want at most %d", n, resource, limits[resource])
		}
	}
	if n := counted.counted(); n["daemonsets"] != 1 || n["leases"] == 0 {
		t.Errorf("%v: this test sees no look at the new nodes", n)
	}
}

// daemonSet reports so many desired and Ready pods.
func (a *alertEnv) daemonSet(desired, ready int32) {
	a.Helper()
	labels := map[string]string{"app": "agent"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "agent"}}
	sets := kubernetes.NewForConfigOrDie(apitest.Server(a)).AppsV1().DaemonSets("default")
	made, err := sets.Create(a.Context(), set, metav1.CreateOptions{})
	a.must(err)
	a.Cleanup(func() { a.must(sets.Delete(context.WithoutCancel(a.Context()), "agent", metav1.DeleteOptions{})) })
	made.Status.DesiredNumberScheduled, made.Status.CurrentNumberScheduled, made.Status.NumberReady = desired, desired, ready
	_, err = sets.UpdateStatus(a.Context(), made, metav1.UpdateOptions{})
	a.must(err)
}

// runCounted runs the controller of `kamino controller` until the test ends.
func (a *alertEnv) runCounted() *reads {
	counted := &reads{of: map[string]int{}}
	config := rest.CopyConfig(apitest.Server(a))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	c, err := cluster.New(config, "test")
	a.must(err)
	a.runWith(c)
	return counted
}
