package clusterapi

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestRefused: what Cluster API would undo, roll out or not carry out is refused before anything is done, and says what to do.
func TestRefused(t *testing.T) {
	g := newGround(t, "refused", "max=3")
	version := sandboxtest.Text(*g.sized(), "spec", "template", "spec", "version")
	for _, c := range []struct {
		set, back string
		says      []string
	}{
		{`{"spec":{"rollout":{"strategy":{"type":"RollingUpdate"}}}}`, `{"spec":{"rollout":{"strategy":{"type":"OnDelete","rollingUpdate":null}}}}`, []string{"RollingUpdate", "OnDelete"}},
		{`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`, `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`, []string{"ClusterAPIPaused", "take the pause away"}},
		{`{"metadata":{"annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"2"}}}`, `{"metadata":{"annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"3"}}}`, []string{"PoolAtMaximum"}},
	} {
		g.merge(c.set)
		g.capture(exitRefused, c.says)
		g.merge(c.back)
	}
	if p := g.prototype(); p != nil {
		t.Errorf("there is a Prototype: %+v", p.Status)
	}
	if now := sandboxtest.Text(*g.sized(), "spec", "template", "spec", "version"); now != version {
		t.Errorf("the pool asks for %s", now)
	}
	g.whole(2)
}

// TestHealthCheckBeside: a donor that is off is not remediated, while another machine that fails at the same time is.
func TestHealthCheckBeside(t *testing.T) {
	g := newGround(t, "checked", "nodes=3")
	check := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck", "metadata": map[string]any{"name": g.pool},
		"spec": map[string]any{
			"clusterName": "sandbox", "selector": map[string]any{"matchLabels": map[string]any{"cluster.x-k8s.io/deployment-name": g.pool}},
			"checks":      map[string]any{"nodeStartupTimeoutSeconds": int64(600), "unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(1)}}},
			"remediation": map[string]any{"triggerIf": map[string]any{"unhealthyLessThanOrEqualTo": "100%"}},
		},
	}}
	_, err := g.of("machinehealthchecks").Create(t.Context(), check, metav1.CreateOptions{})
	g.must(err)
	of := func(node string) (unstructured.Unstructured, bool) {
		all := g.machines()
		at := slices.IndexFunc(all, func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == node })
		if at < 0 {
			return unstructured.Unstructured{}, false
		}
		return all[at], true
	}
	failing := g.nodes[2].Node
	g.when("CreateSnapshot", func() { // the donor is off
		g.must(sandbox.Crash(t.Context(), failing))
		g.waits("the machine that fails is remediated", func() bool {
			m, there := of(failing)
			return !there || m.GetDeletionTimestamp() != nil
		})
		if donor, there := of(g.nodes[0].Node); !there || donor.GetDeletionTimestamp() != nil {
			t.Errorf("the donor's machine was remediated: %v", donor.GetAnnotations())
		}
	})
	g.capture(0, []string{"builds its next nodes from version "})
	g.whole(3)
	g.donorGone()
	g.neighbourStays()
}

// TestAutoscalerMeanwhile: what an autoscaler adds while a donor is away stays, and the donor's place alone is taken.
func TestAutoscalerMeanwhile(t *testing.T) {
	g := newGround(t, "scaled")
	g.when("CreateSnapshot", func() { g.merge(`{"spec":{"replicas":5}}`) })
	g.capture(0, []string{"builds its next nodes from version "})
	g.whole(4)
	g.donorGone()
	g.neighbourStays()
}

// TestManagementAwayMeanwhile: while the management cluster does not answer nothing is lost, and the capture goes on when it does.
func TestManagementAwayMeanwhile(t *testing.T) {
	g := newGround(t, "away")
	var away atomic.Bool
	var lost atomic.Int32
	g.env = sandbox.Gates(t, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		switch {
		case to == sandboxtest.Cloud && sandboxtest.Write(r) == "CreateSnapshot":
			away.Store(true)
		case to == sandboxtest.Management && away.Load() && lost.Add(1) <= 8:
			return sandboxtest.Passage{Lost: true}
		}
		return sandboxtest.Passage{}
	})
	g.capture(0, []string{"builds its next nodes from version "})
	if lost.Load() < 8 {
		t.Errorf("the management cluster was asked %d times after it went away", lost.Load())
	}
	g.whole(2)
	g.donorGone()
	g.neighbourStays()
}

// TestDonorIsDeletedMeanwhile by a person, who wants another Machine in its place: the hook has the deletion wait until the disk is
// copied, and then it goes. The node that was added for it stays, for its place is filled again.
func TestDonorIsDeletedMeanwhile(t *testing.T) {
	g := newGround(t, "deleted")
	at := slices.IndexFunc(g.machines(), func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == g.nodes[0].Node })
	donor := g.machines()[at].GetName()
	g.when("CreateSnapshot", func() { g.must(g.of("machines").Delete(t.Context(), donor, metav1.DeleteOptions{})) })
	g.capture(0, []string{"builds its next nodes from version "})
	if _, err := g.of("machines").Get(t.Context(), donor, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the donor's machine is still there: %v", err)
	}
	g.whole(3)
	g.donorGone()
	g.neighbourStays()
}

// TestPoolBecomesRolling while its donor is away: the recipe is left alone, for all machines would be replaced.
func TestPoolBecomesRolling(t *testing.T) {
	g := newGround(t, "rolling")
	g.when("RegisterImage", func() { g.merge(`{"spec":{"rollout":{"strategy":{"type":"RollingUpdate"}}}}`) })
	g.capture(exitFailed, []string{"RollingUpdate"}, "--deadline", "1m")
	if now := g.look(); now.Image != g.before.Image {
		t.Errorf("the pool builds from %s", now.Image)
	}
	g.whole(2)
	g.neighbourStays()
}

// TestRetired: the template of a version that is gone stays while a MachineSet names it, and goes with the next promotion after.
func TestRetired(t *testing.T) {
	g := newGround(t, "retired")
	var names []string
	var kept []region.Version
	flags := []string{"--keep", "2"}
	for n := range 4 {
		g.nodes = sandbox.MachinesOf(t, g.pool)
		if n > 0 { // no machine of the first version is to be left
			if at := slices.IndexFunc(g.nodes, func(m machine.Status) bool { return g.builtFrom(m) == names[0] }); at > 0 {
				g.nodes[0], g.nodes[at] = g.nodes[at], g.nodes[0]
			}
		}
		g.capture(0, nil, flags...)
		g.whole(2)
		var err error
		kept, err = sandbox.Versions(t.Context(), g.pool)
		g.must(err)
		for _, v := range kept {
			if !slices.Contains(names, v.Name) {
				names = append(names, v.Name)
			}
		}
		flags = []string{"--keep", "2", "--version", fmt.Sprintf("%s%02d", names[0], n+2)} // a second one of a day has to be asked for
	}
	if slices.ContainsFunc(kept, func(v region.Version) bool { return v.Name == names[0] }) {
		t.Fatalf("of the versions %v are kept %+v", names, kept)
	}
	// template of the first version; empty if there is none.
	template := func() string {
		list, err := g.of("awsmachinetemplates").List(t.Context(), metav1.ListOptions{})
		g.must(err)
		for _, o := range list.Items {
			if o.GetAnnotations()["kamino.dev/pool"] == g.before.ID && o.GetAnnotations()["kamino.dev/version"] == names[0] {
				return o.GetName()
			}
		}
		return ""
	}
	first := template()
	sets := g.ofPool("machinesets")
	of := slices.IndexFunc(sets, func(set unstructured.Unstructured) bool {
		return sandboxtest.Text(set, "spec", "template", "spec", "infrastructureRef", "name") == first
	})
	if first == "" || of < 0 {
		t.Fatalf("template %q of version %s is there, and named by MachineSet %d", first, names[0], of)
	}
	set := sets[of].GetName()
	g.must(g.of("machinesets").Delete(t.Context(), set, metav1.DeleteOptions{})) // as Cluster API does with those that have no machines
	g.waits("the MachineSet is gone", func() bool {
		_, err := g.of("machinesets").Get(t.Context(), set, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	g.runs(0, nil, "promote", g.pool, names[2], "--namespace", g.own)
	if left := template(); left != "" {
		t.Errorf("template %s is left, which nobody names", left)
	}
	g.whole(2)
}
