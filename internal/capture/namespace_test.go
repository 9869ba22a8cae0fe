package capture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestPodsMoveToAnotherNamespace: a new configuration changes the namespace of generalize pods between two passes. The capture
// continues with its NodeOrder, creates no second NodeOrder, and leaves no objects in either namespace.
func TestPodsMoveToAnotherNamespace(t *testing.T) {
	ordered := 0
	for at := 1; ; at++ {
		s := inFull(t, func(s *testEnv) { s.podNamespace = ourspace })
		s.must(s.objects.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount, Namespace: ourspace}}))
		moved := false
		var before *v1alpha1.OrderRecord
		p := s.play(func(pass int) {
			if pass != at {
				return
			}
			s.podNamespace, moved = "", true
			record, err := v1alpha1.RecordOf(s.prototype())
			s.must(err)
			before = record.Order
			s.restart()
		})
		s.succeeded(p)
		if s.tracked("secrets", ourspace, s.podName()) != nil {
			t.Errorf("pass %d: the key is left behind", at)
		}
		after, err := v1alpha1.RecordOf(p)
		s.must(err)
		if before != nil && after.Order.UID != before.UID {
			t.Errorf("pass %d: order %s was made, and %s was there", at, after.Order.UID, before.UID)
		}
		if before != nil {
			ordered++
		}
		if t.Failed() || !moved {
			break
		}
	}
	if ordered == 0 {
		t.Error("the namespace changed behind no order")
	}
}

// TestNamespacesDeleted deletes everything in a namespace of Kamino, or one object, at a drawn pass, and perhaps again later, and makes
// the namespace again, as a tool of GitOps does. The capture soon ends, the donor serves, and nothing is left that a sweep does not find.
func TestNamespacesDeleted(t *testing.T) {
	schedules := 30
	if testing.Short() {
		schedules = 2
	}
	for name, begin := range wholeCourses {
		for _, namespace := range []string{ourspace, podspace} {
			t.Run(name+"/"+namespace, func(t *testing.T) {
				memory.Seeds(t, schedules, func(t *testing.T, seed uint64) {
					random := rand.New(rand.NewPCG(seed, 34))
					s, play, check := begin(t)
					at, pass, deleted := []int{random.IntN(40), random.IntN(80)}, 0, ""
					draw, last := func(int) int { return -1 }, s.clock.Now()
					if seed%2 == 0 {
						draw = random.IntN
					}
					p := play(func(int) {
						if slices.Contains(at, pass) {
							deleted += fmt.Sprintf(" after pass %d: %s", pass, s.deleteIn(namespace, draw))
							last = s.clock.Now()
						}
						pass++
					})
					if took := s.clock.Now().Sub(last); took > time.Hour {
						t.Errorf("the capture ends %s after the last deletion", took)
					}
					s.sweepAfter(p, check)
					if t.Failed() {
						t.Logf("deleted%s: %s\n%s", deleted, verdict(p), s.lastCalls(80))
					}
				})
			})
		}
	}
}

// deleteIn deletes the drawn object in a namespace without its finalizers, or all if the draw is negative, and returns their names. The
// account of the generalize pods is made again.
func (s *testEnv) deleteIn(namespace string, draw func(int) int) (names []string) {
	s.t.Helper()
	there := map[string]func(){}
	remove := func(resource schema.GroupVersionResource, name string) {
		s.must(client.IgnoreNotFound(s.objects.Delete(resource, namespace, name)))
	}
	s.eachObject(func(resource schema.GroupVersionResource, o client.Object) {
		if o.GetNamespace() == namespace {
			there[resource.Resource+"/"+o.GetName()] = func() { remove(resource, o.GetName()) }
		}
	})
	var orders v1alpha1.NodeOrderList
	s.must(s.clean.List(s.t.Context(), &orders, client.InNamespace(namespace)))
	for _, o := range orders.Items {
		there["nodeorders/"+o.Name] = func() {
			o.Finalizers = nil
			s.must(s.clean.Update(s.t.Context(), &o))
			s.must(client.IgnoreNotFound(s.clean.Delete(s.t.Context(), &o)))
			remove(corev1.SchemeGroupVersion.WithResource("secrets"), o.Name) // Kubernetes deletes the key with its owner
		}
	}
	names = slices.Sorted(maps.Keys(there))
	if len(names) == 0 {
		return nil
	}
	if drawn := draw(len(names)); drawn >= 0 {
		names = names[drawn : drawn+1]
	}
	for _, name := range names {
		there[name]()
	}
	return names
}
