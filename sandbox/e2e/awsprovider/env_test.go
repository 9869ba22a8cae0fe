// Package awsprovider tests whole captures with the real infrastructure provider of Cluster API for AWS, over the simulated AWS.
// The provider runs with its definitions and webhooks. Package clusterapi tests the same pools with the imitated provider.
package awsprovider

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	sandboxtest.RunAsProgram() // pods have none of the variables below
	binaries, provider := os.Getenv("KAMINO_CLUSTERAPI_BIN"), os.Getenv("KAMINO_CLUSTERAPI_AWS_BIN")
	if binaries == "" || provider == "" {
		os.Exit(m.Run()) // each test is skipped and says so
	}
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "8")
	os.Exit(sandboxtest.Main(m, world.Options{Cloud: pool.AWS, ClusterAPI: binaries, AWSProvider: provider, TimeScale: 200, KeepNodes: true}, &sandbox))
}

// env is the environment of a test.
type env struct{ *sandboxtest.Env }

// newEnv makes a pool of two machines, whose Nodes Cluster API knows.
func newEnv(t *testing.T, name string, options ...string) env {
	t.Helper()
	if sandbox == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN or KAMINO_CLUSTERAPI_AWS_BIN is not set: `make test-long` sets both")
	}
	description := "nodes=2,name=" + name
	for _, o := range options {
		description += "," + o
	}
	e := env{sandbox.NewEnv(t, description)}
	t.Cleanup(func() {
		if t.Failed() {
			sandbox.LogPools(t)
		}
	})
	for _, node := range e.Nodes {
		e.waitMachine(node)
	}
	return e
}

// waitMachine waits until a node has a Machine, and the Node names its Cluster.
func (e env) waitMachine(node string) {
	e.Helper()
	e.Eventually("Cluster API knows node "+node, func() (bool, string) {
		machines, err := sandbox.Objects("machines").List(e.Context(), metav1.ListOptions{})
		e.Must(err)
		known := slices.ContainsFunc(machines.Items, func(m unstructured.Unstructured) bool { return sandboxtest.NodeOf(m) == node })
		annotations := e.Node(node).Annotations
		return known && annotations["cluster.x-k8s.io/cluster-name"] != "", fmt.Sprintf("has a Machine: %t, annotations %v", known, annotations)
	})
}

// patchDonor installs updates on the donor and reboots the donor.
func (e env) patchDonor() {
	e.Helper()
	e.Must(sandbox.Patch(e.Context(), e.Donor, control.Patch{Reboot: true}, func(control.Event) {}))
}

// capture starts a capture with a short trial.
func (e env) capture(trial string) *sandboxtest.Process {
	e.Helper()
	return e.Start("capture", e.Donor, "--trial", string(v1alpha1.TrialApart), "-f", sandboxtest.SettingsFile(e.T, "trial: {"+trial+"}"))
}

// object returns an object of Cluster API or of the provider.
func (e env) object(plural, name string) *unstructured.Unstructured {
	e.Helper()
	o, err := sandbox.Objects(plural).Get(e.Context(), name, metav1.GetOptions{})
	e.Must(err)
	return o
}

// patch changes an object as a person does.
func (e env) patch(plural, name, change string) error {
	_, err := sandbox.Objects(plural).Patch(e.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	return err
}

// template returns the AWSMachineTemplate of the pool.
func (e env) template() *unstructured.Unstructured {
	e.Helper()
	return e.object("awsmachinetemplates", sandboxtest.Text(*e.object("machinedeployments", e.Pool), "spec", "template", "spec", "infrastructureRef", "name"))
}

// useRootVolume points the pool at a copy of its template with a root volume of this size, in GiB.
func (e env) useRootVolume(size int64) {
	e.Helper()
	old := e.template()
	changed := &unstructured.Unstructured{}
	changed.SetGroupVersionKind(old.GroupVersionKind())
	changed.SetName(old.GetName() + "-root")
	spec, _, err := unstructured.NestedMap(old.Object, "spec")
	e.Must(err)
	e.Must(unstructured.SetNestedField(spec, size, "template", "spec", "rootVolume", "size"))
	changed.Object["spec"] = spec
	_, err = sandbox.Objects("awsmachinetemplates").Create(e.Context(), changed, metav1.CreateOptions{})
	e.Must(err)
	e.Must(e.patch("machinedeployments", e.Pool, `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"`+changed.GetName()+`"}}}}}`))
}

// assertUntouched asserts that a machine exists and was not rebooted.
func (e env) assertUntouched(before machine.Status) {
	e.Helper()
	if now := e.Machine(before.Node); now.ID != before.ID || now.BootID != before.BootID {
		e.Errorf("node %s was touched: it was %+v and is %+v", before.Node, before, now)
	}
}
