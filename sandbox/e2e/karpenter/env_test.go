// Package karpenter tests whole captures with Karpenter's own controllers, over the simulated AWS. Karpenter's timers are real, whatever
// the time scale.
package karpenter

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Exit codes of kamino.
const (
	exitRefused = 3
	exitFailed  = 4
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	sandboxtest.RunAsProgram() // pods have none of the variables below
	binaries := os.Getenv("KAMINO_KARPENTER_BIN")
	if binaries == "" {
		os.Exit(m.Run()) // each test is skipped and says so
	}
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "8")
	os.Exit(sandboxtest.Main(m, world.Options{Cloud: pool.AWS, Karpenter: binaries, TimeScale: 200}, &sandbox))
}

// env is the environment of a test.
type env struct {
	*sandboxtest.Env
	// claims are the UIDs of the NodeClaims by their names, when the environment was ready.
	claims map[string]types.UID
}

// newEnv makes a pool of two nodes that Karpenter has initialized, and patches the donor.
func newEnv(t *testing.T, name string) env {
	t.Helper()
	if sandbox == nil {
		t.Skip("KAMINO_KARPENTER_BIN is not set: `make test-long` sets it")
	}
	e := env{Env: sandbox.NewEnv(t, "nodes=2,name="+name)}
	t.Cleanup(func() {
		if t.Failed() {
			out := sandbox.Run(t, nil, "kubectl", "get", "nodeclaims,nodepools,ec2nodeclasses", "-o", "yaml")
			t.Logf("%s%s", out.Stdout, out.Stderr)
		}
	})
	e.waitClaims("Initialized", metav1.ConditionTrue)
	e.claims = e.claimsNow()
	e.Must(sandbox.Patch(e.Context(), e.Donor, control.Patch{Reboot: true}, func(control.Event) {}))
	e.Before = e.State()
	return e
}

// ofPool returns the NodeClaims of the pool, without those of trials and workshops.
func (e env) ofPool() []unstructured.Unstructured {
	e.Helper()
	list, err := sandbox.KarpenterObjects("nodeclaims").List(e.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + e.Pool})
	e.Must(err)
	return list.Items
}

// claimsNow are the UIDs of the pool's NodeClaims by their names.
func (e env) claimsNow() map[string]types.UID {
	e.Helper()
	found := map[string]types.UID{}
	for _, c := range e.ofPool() {
		found[c.GetName()] = c.GetUID()
	}
	return found
}

// waitClaims waits until a condition of all NodeClaims of the environment has a status. False includes a missing condition.
func (e env) waitClaims(condition string, want metav1.ConditionStatus) {
	e.Helper()
	e.Eventually(fmt.Sprintf("the condition %s of the first NodeClaims is %s", condition, want), func() (bool, string) {
		for _, c := range e.ofPool() {
			if _, first := e.claims[c.GetName()]; e.claims != nil && !first {
				continue
			}
			if is := conditionOf(c, condition); is != want {
				return false, fmt.Sprintf("NodeClaim %s has %s", c.GetName(), is)
			}
		}
		return true, ""
	})
}

// conditionOf returns the status of a condition; False if the object has no such condition.
func conditionOf(o unstructured.Unstructured, name string) metav1.ConditionStatus {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == name {
			return metav1.ConditionStatus(c["status"].(string))
		}
	}
	return metav1.ConditionFalse
}

// waitHeld waits until Karpenter's disruption controller has wanted to replace a drifted node since a time, and the guard held it.
func (e env) waitHeld(since metav1.Time) {
	e.Helper()
	e.Eventually("the guard has held Karpenter", func() (bool, string) {
		events, err := e.Kube().CoreV1().Events("default").List(e.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.kind=NodePool,involvedObject.name=" + e.Pool})
		e.Must(err)
		for _, event := range events.Items {
			if !event.LastTimestamp.Add(time.Second).Before(since.Time) && strings.Contains(strings.ToLower(event.Message), "drifted") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d events: %+v", len(events.Items), events.Items)
	})
}

// class returns the class of the pool, and its selection of the image.
func (e env) class() (*unstructured.Unstructured, string) {
	e.Helper()
	o, err := sandbox.KarpenterObjects("ec2nodeclasses").Get(e.Context(), e.Pool, metav1.GetOptions{})
	e.Must(err)
	terms, _, _ := unstructured.NestedSlice(o.Object, "spec", "amiSelectorTerms")
	family, _, _ := unstructured.NestedString(o.Object, "spec", "amiFamily")
	return o, fmt.Sprint(terms, family)
}

// capture starts a capture with a short trial.
func (e env) capture(flags ...string) *sandboxtest.Process {
	e.Helper()
	args := []string{"capture", e.Donor, "--trial", string(v1alpha1.TrialApart), "-f", sandboxtest.SettingsFile(e.T, "trial: {soak: 1s}")}
	return e.Start(append(args, flags...)...)
}

// setBudgets replaces the budgets of the NodePool, as its owner does.
func (e env) setBudgets(budgets string) {
	e.Helper()
	_, err := sandbox.KarpenterObjects("nodepools").Patch(e.Context(), e.Pool, types.MergePatchType,
		[]byte(`{"spec":{"disruption":{"budgets":`+budgets+`}}}`), metav1.PatchOptions{})
	e.Must(err)
}

// assertClaims asserts that the first NodeClaims are all there, none is being deleted, their nodes kept their boot, and a number of
// NodeClaims has come.
func (e env) assertClaims(more int) {
	e.Helper()
	all := e.ofPool()
	now := e.claimsNow()
	for name, uid := range e.claims {
		if now[name] != uid {
			e.Errorf("NodeClaim %s with the UID %s is gone: there are %v", name, uid, now)
		}
	}
	for _, c := range all {
		if c.GetDeletionTimestamp() != nil {
			e.Errorf("NodeClaim %s is being deleted", c.GetName())
		}
	}
	if len(all) != len(e.claims)+more {
		e.Errorf("the pool has the NodeClaims %v, want %d more than %v", slices.Sorted(maps.Keys(now)), more, e.claims)
	}
	boots := map[string]int{}
	for _, m := range e.MachinesNow() {
		boots[m.Node] = m.Boots
	}
	for node, before := range e.Before.Boots {
		if boots[node] != before {
			e.Errorf("node %s has booted %d times, and had %d times", node, boots[node], before)
		}
	}
}

// assertNothingBeside asserts that no object of a trial or workshop is left, no mark on the objects of the pool, and no instance with
// Kamino's tags.
func (e env) assertNothingBeside() {
	e.Helper()
	e.Eventually("nothing is left beside the pool", func() (bool, string) {
		var left []string
		for _, plural := range []string{"nodeclaims", "ec2nodeclasses", "nodepools"} {
			list, err := sandbox.KarpenterObjects(plural).List(e.Context(), metav1.ListOptions{})
			e.Must(err)
			for _, o := range list.Items {
				if marks := sandboxtest.Marks(o); len(marks) > 0 && strings.HasPrefix(o.GetName(), e.Pool) {
					left = append(left, fmt.Sprintf("%s %s with %v", o.GetKind(), o.GetName(), marks))
				}
			}
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
	e.AssertNothingLeft()
	e.AssertEnded()
}
