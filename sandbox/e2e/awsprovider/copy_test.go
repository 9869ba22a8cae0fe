package awsprovider

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCopy captures a node of a MachineDeployment. The provider's webhook refuses a changed template, so the pool names a new template with
// the image of the version, and its own template again after `kamino restore`.
func TestCopy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "copied")
	generic, ofPool := e.Machines[0].Image, e.template().GetName()
	if err := e.patch("awsmachinetemplates", ofPool, `{"spec":{"template":{"spec":{"instanceType":"m6i.xlarge"}}}}`); err == nil ||
		!strings.Contains(err.Error(), "AWSMachineTemplate.Spec is immutable") {
		t.Fatalf("the provider's webhook does not refuse a changed template: %v", err)
	}
	version := e.copyAndGrow()
	for _, m := range e.MachinesNow() {
		e.waitMachine(m.Node)
	}
	if image := sandboxtest.Text(*e.template(), "spec", "template", "spec", "ami", "id"); e.VersionOf(image) != version {
		t.Errorf("the template of the pool names image %s, want version %s", image, version)
	}
	machines, err := sandbox.ObjectsOf(t.Context(), e.Pool, "awsmachines")
	e.Must(err)
	for _, m := range machines {
		if !slices.Contains(m.GetFinalizers(), "awsmachine.infrastructure.cluster.x-k8s.io") {
			t.Errorf("AWSMachine %s is not of the real provider: it has the finalizers %v", m.GetName(), m.GetFinalizers())
		}
	}
	if len(machines) != len(e.MachinesNow()) {
		t.Errorf("the pool has %d AWSMachines and %d instances", len(machines), len(e.MachinesNow()))
	}
	e.Start("restore", e.Pool, "--yes", "--version", version).ExpectExit(0)
	if name := e.template().GetName(); name != ofPool {
		t.Errorf("the pool names template %s, not its own", name)
	}
	if last := e.Grow(); last.Image != generic {
		t.Errorf("after the recipe was restored, node %s was built from %s", last.Node, last.Image)
	}
	e.AssertNothingLeft()
}

// TestCopyOfGroup captures a node of a MachinePool, which is an Auto Scaling group. The provider writes the image into the launch
// template, and starts no instance refresh.
func TestCopyOfGroup(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "copiedpool", "kind=MachinePool")
	e.copyAndGrow()
	refreshes, err := sandbox.AWS().Groups().DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: &e.Pool})
	e.Must(err)
	if len(refreshes.InstanceRefreshes) > 0 {
		t.Errorf("the provider replaced instances: %+v", refreshes.InstanceRefreshes)
	}
}

// copyAndGrow captures a node by copy, the default, and returns the version of the next node. The donor keeps its boot and a pod whose
// budget allows no eviction. The provider builds the workshop's machine, leaves the copy on it alone, and removes the machine. Nothing
// of the copy is left, and no running node is touched.
func (e env) copyAndGrow() (version string) {
	e.Helper()
	e.patchDonor()
	donor, pod, machines := e.Machine(e.Donor), e.StartStubbornPod(e.Donor), len(e.objects("machines"))
	workshop := ""
	detach := sandboxtest.Request{Server: sandboxtest.Cloud, Pattern: "^DetachVolume$"}
	e.Barrier().Before(detach, func() { workshop = e.lookWorkshop() })
	e.capture("soak: 1s").ExpectExit(0, "stays in service", "now builds new nodes from version ", "out of service for 0s", "Provisioned: Passed")

	p := e.AssertSucceeded(e.Donor)
	if method := p.Spec.Settings.Donor.Method; method != v1alpha1.MethodCopy || p.Status.Donor.FrozenFor == nil {
		e.Errorf("the method is %s, and the donor was %+v", method, p.Status.Donor)
	}
	e.assertUntouched(donor)
	e.assertUntouched(e.Machines[1])
	e.AssertServed(pod)
	e.AssertServes(e.Donor)
	if capacity := e.CloudPool().Capacity; capacity != 2 {
		e.Errorf("the pool is to have %d nodes, want 2", capacity)
	}
	e.assertNothingCopied(workshop, machines)
	next := e.Grow()
	if e.VersionOf(next.Image) != p.Spec.Version {
		e.Errorf("node %s was built from %s, want version %s", next.Node, next.Image, p.Spec.Version)
	}
	e.AssertNothingLeft()
	return p.Spec.Version
}

// objects are all objects of a kind of the pool, and of its trials and workshops.
func (e env) objects(plural string) []unstructured.Unstructured {
	e.Helper()
	list, err := sandbox.Objects(plural).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !strings.HasPrefix(o.GetName(), e.Pool+"-") })
}

// lookWorkshop returns the ID of the workshop's instance, which has the copy as a second disk. The machine is of the real provider, and
// no member of the pool.
func (e env) lookWorkshop() (instance string) {
	e.Helper()
	for _, m := range e.objects("awsmachines") {
		if _, is := m.GetAnnotations()["kamino.dev/workshop"]; !is {
			continue
		}
		if !slices.Contains(m.GetFinalizers(), "awsmachine.infrastructure.cluster.x-k8s.io") {
			e.Errorf("AWSMachine %s is not of the real provider: it has the finalizers %v", m.GetName(), m.GetFinalizers())
		}
		if label := cmp.Or(m.GetLabels()["cluster.x-k8s.io/deployment-name"], m.GetLabels()["cluster.x-k8s.io/pool-name"]); label != "" {
			e.Errorf("AWSMachine %s is a member of %s", m.GetName(), label)
		}
		instance = sandboxtest.Text(m, "spec", "instanceID")
	}
	for _, m := range e.instances(instance) {
		if !slices.ContainsFunc(m.Tags, func(t ec2types.Tag) bool { return *t.Key == cloud.TagWorkshop && *t.Value != "" }) {
			e.Errorf("the instance of the workshop has the tags %+v", m.Tags)
		}
	}
	if disks := e.volumesOf("attachment.instance-id", instance); instance == "" || len(disks) != 2 {
		e.Errorf("instance %s of the workshop has %d disks, want 2", instance, len(disks))
	}
	return instance
}

// instances returns the instance of an ID, or none if EC2 does not show it anymore.
func (e env) instances(id string) []ec2types.Instance {
	e.Helper()
	out, err := sandbox.AWS().EC2().DescribeInstances(e.Context(),
		&ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: sdk.String("instance-id"), Values: []string{id}}}})
	e.Must(err)
	var found []ec2types.Instance
	for _, r := range out.Reservations {
		found = append(found, r.Instances...)
	}
	return found
}

// volumesOf returns the volumes with a value of a filter.
func (e env) volumesOf(filter string, values ...string) []ec2types.Volume {
	e.Helper()
	out, err := sandbox.AWS().EC2().DescribeVolumes(e.Context(), &ec2.DescribeVolumesInput{
		Filters: []ec2types.Filter{{Name: sdk.String(filter), Values: values}},
	})
	e.Must(err)
	return out.Volumes
}

// assertNothingCopied asserts that the workshop is gone with its objects, its instance, the copy and its snapshots.
func (e env) assertNothingCopied(workshop string, machines int) {
	e.Helper()
	for _, plural := range []string{"machines", "awsmachines", "kubeadmconfigs"} {
		for _, o := range e.objects(plural) {
			if marks := sandboxtest.Marks(o); len(marks) > 0 {
				e.Errorf("%s %s is left, with %v", o.GetKind(), o.GetName(), marks)
			}
		}
	}
	if now := len(e.objects("machines")); now != machines {
		e.Errorf("there are %d Machines, and were %d", now, machines)
	}
	for _, m := range e.instances(workshop) {
		if m.State.Name != ec2types.InstanceStateNameTerminated {
			e.Errorf("the instance of the workshop is %s", m.State.Name)
		}
	}
	if left := e.volumesOf("tag:"+cloud.TagUID, string(e.Prototype().UID)); len(left) > 0 {
		e.Errorf("volumes are left: %+v", left)
	}
}
