// Package clusterapi tests pools of Cluster API end to end. The controllers of Cluster API run, and the real
// command captures nodes of their Machines.
package clusterapi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Exit codes of kamino.
const (
	exitRefused = 3
	exitFailed  = 4
	exitDenied  = 5
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	sandboxtest.RunAsProgram() // pods have none of the variables below
	binaries := os.Getenv("KAMINO_CLUSTERAPI_BIN")
	if binaries == "" {
		os.Exit(m.Run()) // each test is skipped and says so
	}
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "8")
	// Cluster API deletes the Nodes of Machines, so the cloud's Node lifecycle controller does not run. Some pools belong to a
	// ClusterClass.
	os.Exit(sandboxtest.EachCloud(m, world.Options{ClusterAPI: binaries, ClusterClass: true, TimeScale: 200, KeepNodes: true}, &sandbox))
}

// Kinds of pools, as options of newEnv. The default is a MachineDeployment.
const (
	kindClusterClass = "kind=" + string(pool.ClusterClass)
	kindMachinePool  = "kind=" + string(pool.MachinePool)
)

// env is the environment of a test, with the Cluster API objects of its pool.
type env struct {
	*sandboxtest.Env
	// resource of the object with the pool's size, and the label of Machines with the name of that object.
	resource, label string
}

// onlyOn skips a test on all clouds except one.
func onlyOn(t *testing.T, cloud pool.Cloud) {
	t.Helper()
	if sandbox != nil && sandboxtest.CurrentCloud() != cloud {
		t.Skipf("this test runs on %s", cloud)
	}
}

// newEnv makes a pool of two machines.
func newEnv(t *testing.T, name string, options ...string) *env {
	t.Helper()
	if sandbox == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN is not set: `make test-long` sets it")
	}
	e := &env{resource: "machinedeployments", label: "cluster.x-k8s.io/deployment-name"}
	if slices.Contains(options, kindMachinePool) {
		e.resource, e.label = "machinepools", "cluster.x-k8s.io/pool-name"
	}
	e.Env = sandbox.NewEnv(t, strings.Join(append([]string{"name=" + name, "nodes=2"}, options...), ","))
	t.Cleanup(func() {
		if t.Failed() {
			sandbox.LogPools(t)
		}
	})
	for _, node := range e.Nodes {
		e.waitNoted(node)
	}
	return e
}

// waitNoted waits until Cluster API knows a node and has annotated the Node.
func (e *env) waitNoted(node string) {
	e.Helper()
	e.Eventually("Cluster API knows node "+node, func() (bool, string) {
		hasMachine := slices.ContainsFunc(e.machines(), func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == node })
		annotations := e.Node(node).Annotations
		return hasMachine && annotations["cluster.x-k8s.io/cluster-name"] != "", fmt.Sprintf("has a Machine: %t, annotations %v", hasMachine, annotations)
	})
}

// object returns the object with the pool's size.
func (e *env) object() *unstructured.Unstructured {
	e.Helper()
	o, err := sandbox.Objects(e.resource).Get(e.Context(), e.Pool, metav1.GetOptions{})
	e.Must(err)
	return o
}

// template returns the name of the pool's infrastructure template.
func (e *env) template() string {
	e.Helper()
	return sandboxtest.Text(*e.object(), "spec", "template", "spec", "infrastructureRef", "name")
}

// machines are the Machine objects of the pool.
func (e *env) machines() []unstructured.Unstructured {
	e.Helper()
	list, err := sandbox.Objects("machines").List(e.Context(), metav1.ListOptions{LabelSelector: e.label + "=" + e.Pool})
	e.Must(err)
	return list.Items
}

// patchDonor installs updates on the donor and reboots the donor.
func (e *env) patchDonor() {
	e.Helper()
	e.Must(sandbox.Patch(e.Context(), e.Donor, control.Patch{Reboot: true}, func(control.Event) {}))
}

// captureWithTrial captures a node with a short trial of its version.
func (e *env) captureWithTrial(node string) *sandboxtest.Process {
	e.Helper()
	return e.capture(node, v1alpha1.TrialApart)
}

// capture captures a node by the default method.
func (e *env) capture(node string, trial v1alpha1.TrialMode, flags ...string) *sandboxtest.Process {
	e.Helper()
	settings := sandboxtest.SettingsFile(e.T, "trial: {soak: 1s}")
	return e.Start(append([]string{"capture", node, "--trial", string(trial), "-f", settings}, flags...)...)
}

// captureTwiceAndRestore captures the patched donor with a trial, and then a node of its version. Then the pool is rolled back, and its
// recipe is restored. After each step the pool grows by a node. The callback promoted gets the first added node, and restored runs at
// the end.
func (e *env) captureTwiceAndRestore(promoted func(machine.Status), restored func()) {
	e.Helper()
	generic, donor, pod := e.Machines[0].Image, e.Machine(e.Donor), e.StartStubbornPod(e.Donor)
	e.captureWithTrial(e.Donor).ExpectExit(0, "now builds new nodes from version ", "stays in service", "out of service for 0s", "Provisioned: Passed",
		"Identity: Passed")
	e.assertCopied(donor, 2)
	e.AssertServed(pod)
	version := e.Prototype().Spec.Version
	copied := e.grow(version)
	promoted(copied)

	e.capture(copied.Node, v1alpha1.TrialOff, "--version", version+"02").ExpectExit(0, "now builds new nodes from version ")
	e.assertCopied(copied, 3)
	e.Start("rollback", e.Pool, "--reason", "for the test").ExpectExit(0, version+"02", version)
	e.grow(version)
	e.Start("restore", e.Pool, "--yes", "--version", version).ExpectExit(0)
	restored()
	if last := e.grow(""); last.Image != generic {
		e.Errorf("after the recipe was restored, node %s was built from %s", last.Node, last.Image)
	}
	e.assertWhole(5)
}

// grow adds a node, which must have this version; empty means the platform's image.
func (e *env) grow(version string) machine.Status {
	e.Helper()
	m := e.Grow()
	e.waitNoted(m.Node)
	if built := e.VersionOf(m.Image); built != version {
		e.Errorf("node %s was built from version %q (%s), want %q", m.Node, built, m.Image, version)
	}
	return m
}

// assertCopied asserts that a donor was copied without a boot, that the second node is untouched, and that this number of nodes serves.
func (e *env) assertCopied(donor machine.Status, nodes int) {
	e.Helper()
	e.assertWhole(nodes)
	e.assertUntouched(donor)
	e.assertUntouched(e.Machines[1])
}

// assertUntouched asserts that a machine exists and was not rebooted.
func (e *env) assertUntouched(before machine.Status) {
	e.Helper()
	if now := e.Machine(before.Node); now.ID != before.ID || now.BootID != before.BootID {
		e.Errorf("node %s was touched: it was %+v and is %+v", before.Node, before, now)
	}
}

// assertWhole asserts the number of Machines, each with an instance and a serving Node, and no leftovers of
// captures.
func (e *env) assertWhole(nodes int) {
	e.Helper()
	e.Eventually(fmt.Sprintf("it has %d machines, and no marks of captures", nodes), func() (bool, string) {
		all, instances, capacity := e.machines(), len(e.MachinesNow()), e.CloudPool().Capacity
		marks := sandboxtest.Marks(*e.object())
		joined := 0
		for _, m := range all {
			marks = append(marks, sandboxtest.Marks(m)...)
			if sandboxtest.NodeOf(m) != "" {
				joined++
			}
		}
		return len(all) == nodes && joined == nodes && instances == nodes && capacity == int64(nodes) && len(marks) == 0,
			fmt.Sprintf("%d Machines, %d of them with Nodes, %d instances, size %d, marks %v", len(all), joined, instances, capacity, marks)
	})
	for _, m := range e.machines() {
		e.AssertServes(sandboxtest.NodeOf(m))
	}
	e.AssertEnded()
	e.AssertNothingLeft()
}

// assertKnown asserts that status, plan and doctor know the pool with its two nodes and the patched donor. Doctor
// must also print texts. Doctor also reports pools of other tests.
func (e *env) assertKnown(texts ...string) {
	e.Helper()
	image := e.Before.Image
	e.Start("status", "-o", "wide").ExpectExit(0, e.Pool, "2/2", image[strings.LastIndex(image, ":")+1:])
	e.Start("plan", e.Pool, "-o", "wide").ExpectExit(0, "refused: NotPatched 1, ReadyTooShort 1", e.Nodes[1])
	doctor := e.Start("doctor", e.Pool)
	doctor.ExitCode()
	doctor.ExpectOutput(append(texts, " can be captured now, while the node stays in service, with a trial node outside the pool", "joined with Cluster API")...)
}
