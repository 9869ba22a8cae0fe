package clusterapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// field returns the field of the infrastructure object with the pool's image.
func (e *env) field(plural string, path ...string) any {
	e.Helper()
	o, err := sandbox.Objects(plural).Get(e.Context(), e.Pool, metav1.GetOptions{})
	e.Must(err)
	value, _, err := unstructured.NestedFieldCopy(o.Object, path...)
	e.Must(err)
	return value
}

// testMachinePool captures a node of a MachinePool. The pool's image is a field of the infrastructure object.
func testMachinePool(t *testing.T, e *env, field func() any) {
	before := field()
	e.patchDonor()
	e.assertKnown()
	e.captureTwiceAndRestore(func(machine.Status) {
		if cmp.Equal(before, field()) {
			t.Errorf("the pool still names %v", before)
		}
	}, func() {
		if diff := cmp.Diff(before, field()); diff != "" {
			t.Errorf("the restored image is another (-before +after):\n%s", diff)
		}
	})
}

// TestMachinePool captures a node of a MachinePool on Azure, which is a scale set.
func TestMachinePool(t *testing.T) {
	onlyOn(t, pool.Azure)
	t.Parallel()
	e := newEnv(t, "pooled", kindMachinePool)
	donor, set := e.Machines[0], "/virtualMachineScaleSets/"+e.Pool+"/virtualMachines/"
	if id := e.Node(donor.Node).Spec.ProviderID; id != "azure://"+donor.ID || !strings.Contains(donor.ID, set) {
		t.Fatalf("node %s is %s, and no instance of a scale set %s", donor.Node, id, e.Pool)
	}
	testMachinePool(t, e, func() any { return e.field("azuremachinepools", "spec", "template", "image") })
	e.waitNoted(e.Grow().Node) // from six nodes on, doctor reports how many images the scale set may have
	doctor := e.Start("doctor", e.Pool)
	doctor.ExitCode()
	doctor.ExpectOutput("nodes and recipe of the pool use 2 images of at most 10")
}

// TestGroup captures a node of a MachinePool on AWS, which is an Auto Scaling group with the cluster autoscaler.
func TestGroup(t *testing.T) {
	onlyOn(t, pool.AWS)
	t.Parallel()
	e := newEnv(t, "grouped", kindMachinePool)
	testMachinePool(t, e, func() any { return e.field("awsmachinepools", "spec", "awsLaunchTemplate") })
}
