package clusterapi

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestManagementAwayPastTheDeadline: a donor whose disk was not touched takes pods again when its time is over, though nobody can
// give its Machine back; its disk is not touched while nobody could remove it either; and once the management cluster answers
// nothing is left of the hold. The node that was to take its place stays.
func TestManagementAwayPastTheDeadline(t *testing.T) {
	g := newGround(t, "overdue")
	donor := g.nodes[0]
	var away atomic.Bool
	var served atomic.Pointer[corev1.Node]
	g.env = sandbox.Gates(t, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		onDonor := to == sandboxtest.APIServer && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/nodes/"+donor.Node)
		switch {
		case onDonor && strings.Contains(sandboxtest.Said(r), `"unschedulable":true`):
			away.Store(true)
		case onDonor && away.Load():
			return sandboxtest.Passage{Answer: func(*http.Response) error {
				node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor.Node, metav1.GetOptions{})
				if err == nil && !node.Spec.Unschedulable {
					served.Store(node)
					away.Store(false)
				}
				return err
			}}
		case to == sandboxtest.Management && away.Load():
			return sandboxtest.Passage{Lost: true}
		}
		return sandboxtest.Passage{}
	})
	g.capture(exitFailed, []string{"out of service for longer than the deadline of 5s", "takes pods again"}, "--deadline", "5s")
	if n := served.Load(); n == nil || n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		t.Errorf("the node did not take pods while it was held: %v", n)
	}
	g.whole(3)
	g.neighbourStays()
	if !slices.ContainsFunc(sandbox.MachinesOf(t, g.pool), func(m machine.Status) bool { return m.ID == donor.ID && m.BootID == donor.BootID }) {
		t.Errorf("node %s was touched", donor.Node)
	}
}
