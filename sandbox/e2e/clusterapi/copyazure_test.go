package clusterapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCopyKilledOnAzure captures a node by copy, the default, with commands that are killed after the effect of each write of the copy
// and of the workshop. The workshop is a VM of Cluster API, to which Kamino attaches one disk once. Nothing is left, and the donor
// serves all the time.
func TestCopyKilledOnAzure(t *testing.T) {
	onlyOn(t, pool.Azure)
	t.Parallel()
	e := newEnv(t, "killedcopy")
	donor, pod := e.Machine(e.Donor), e.StartStubbornPod(e.Donor)
	cluster := func(pattern string) sandboxtest.Request {
		return sandboxtest.Request{Server: sandboxtest.Management, Pattern: pattern}
	}
	azure := func(pattern string, texts ...string) sandboxtest.Request {
		return sandboxtest.Request{Server: sandboxtest.Cloud, Pattern: pattern, Texts: texts}
	}
	const change = "^POST .*/virtualMachines/[^/]+/attachDetachDataDisks$"
	args := []string{"capture", e.Donor, "--trial", string(v1alpha1.TrialOff), "-f", sandboxtest.SettingsFile(t, "")}
	for _, write := range []sandboxtest.Request{
		cluster("^POST .*/kubeadmconfigs$"), cluster("^POST .*/machines$"), azure("^PUT .*/snapshots/"), azure("^PUT .*/disks/copy_"),
		azure(change, "dataDisksToAttach"),
	} {
		e.killAt(write, args...)
	}
	workshop := e.vmOfWorkshop()
	for _, write := range []sandboxtest.Request{
		azure(change, "dataDisksToDetach"), cluster("^DELETE .*/machines/"), azure("^DELETE .*/disks/copy_"), sandboxtest.CreateVersion,
	} {
		e.killAt(write, args...)
	}
	e.Start(args...).ExpectExit(0, "now builds new nodes from version ", "stayed in service")

	p := e.AssertSucceeded(e.Donor)
	if method := p.Spec.Settings.Donor.Method; method != v1alpha1.MethodCopy {
		t.Errorf("the method is %s", method)
	}
	for write, want := range map[string]int{"disk put": 1, "vm attachDetach": 2, "disk delete": 1} {
		if n := e.CountWrites(write); n != want {
			t.Errorf("%d times %s, want %d: %v", n, write, want, e.Writes())
		}
	}
	e.assertWhole(2)
	e.assertUntouched(donor)
	e.assertUntouched(e.Machines[1])
	e.AssertServed(pod)
	if now, err := sandbox.Azure().VM(e.Context(), *workshop.Name); err != nil || now != nil {
		t.Errorf("of the workshop, VM %+v is left: %v", now, err)
	}
	for _, plural := range []string{"machines", "azuremachines", "kubeadmconfigs"} {
		if left := e.ofWorkshops(plural); len(left) > 0 {
			t.Errorf("%s %s is left", left[0].GetKind(), left[0].GetName())
		}
	}
	e.grow(p.Spec.Version)
}

// killAt runs kamino, kills the process after the effect of the first matching request, and frees the Lease.
func (e *env) killAt(r sandboxtest.Request, args ...string) {
	e.Helper()
	started := make(chan *sandboxtest.Process, 1)
	e.Barrier().After(r, func() { (<-started).Kill() })
	p := e.Start(args...)
	started <- p
	p.ExpectExit(-1)
	e.FreeLease()
}

// ofWorkshops returns the objects of a kind of the pool's workshops.
func (e *env) ofWorkshops(plural string) []unstructured.Unstructured {
	e.Helper()
	list, err := sandbox.Objects(plural).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		return !strings.HasPrefix(o.GetName(), e.Pool+"-") || !slices.Contains(sandboxtest.Marks(o), "kamino.dev/workshop")
	})
}

// vmOfWorkshop returns the VM of the pool's only workshop, which has the copy as its only data disk. The VM is no member of the pool.
func (e *env) vmOfWorkshop() *armcompute.VirtualMachine {
	e.Helper()
	all := e.ofWorkshops("azuremachines")
	if len(all) != 1 {
		e.Fatalf("there are %d AzureMachines of workshops", len(all))
	}
	if label := all[0].GetLabels()[e.label]; label != "" {
		e.Errorf("AzureMachine %s is a member of %s", all[0].GetName(), label)
	}
	vm, err := sandbox.Azure().VM(e.Context(), all[0].GetName())
	e.Must(err)
	if vm == nil {
		e.Fatalf("AzureMachine %s has no VM", all[0].GetName())
	}
	disks := vm.Properties.StorageProfile.DataDisks
	if len(disks) != 1 || !strings.Contains(*disks[0].ManagedDisk.ID, "/disks/copy_") || vm.Tags[cloud.TagWorkshop] == nil {
		e.Errorf("VM %s has %d data disks, and the tags %v", *vm.Name, len(disks), vm.Tags)
	}
	return vm
}
