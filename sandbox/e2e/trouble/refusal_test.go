package trouble

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestPoolCapturedTodayAlready: a second capture on the same day is refused for each node of the pool.
func TestPoolCapturedTodayAlready(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=today,nodes=2")
	e.Capture(e.Donor, today).ExpectExit(0)
	e.AssertCaptured(e.Before, e.Donor)
	assertEvents(e, "PartlyRestorable", "Reserved", "Generalized", "Released", "Promoting", "Promoted")

	first := e.State()
	e.ResetWrites()
	for _, node := range e.Nodes {
		e.Capture(node, today).ExpectExit(exitRefused, "pool "+e.Group+" already has version ", "Prototype "+e.Prototype().Name, "nothing was changed")
	}
	e.AssertReturned(first, e.Donor, 0)
	if writes := e.Writes(); len(writes) > 0 {
		t.Errorf("the cloud got the writes %v", writes)
	}
}

// assertEvents asserts the reasons of all events of the pool's only Prototype, in any order.
func assertEvents(e *sandboxtest.Env, reasons ...string) {
	e.Helper()
	list, err := e.Kube().EventsV1().Events(metav1.NamespaceDefault).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	name := e.Prototype().Name
	var got []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "Prototype" && event.Regarding.Name == name {
			got = append(got, event.Reason)
		}
	}
	slices.Sort(got)
	slices.Sort(reasons)
	if diff := cmp.Diff(reasons, got); diff != "" {
		e.Errorf("events of Prototype %s (-want +got):\n%s", name, diff)
	}
}
