package capi_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

// TestWorkshopOfAnotherType: the machine of a workshop is that of the pool's template, except for the type in the spec. A pod with a
// volume that may not be evicted from its Node does not delay its end.
func TestWorkshopOfAnotherType(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	r, before := p.recipes(), p.state()
	for kind, want := range map[string]string{"": "m7i.large", "m7i.4xlarge": "m7i.4xlarge"} {
		spec := cloud.WorkshopSpec{Pool: p.id(), Name: "it-" + kind, InstanceType: kind, Tags: ofOwner}
		p.wait("workshop", func() bool {
			have, err := r.EnsureWorkshop(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			return have.State == cloud.Complete
		})
		m := p.workshopMachine()
		built := p.infrastructureOf(m)
		if text(built, "spec", "instanceType") != want || text(built, "spec", "ami", "id") != "ami-generic" || text(built, "spec", "sshKeyName") != "kept" ||
			text(built, "spec", "additionalTags", cloud.TagWorkshop) != spec.Name {
			t.Errorf("the machine of a workshop of type %q is %v", kind, built.Object["spec"])
		}
		p.wait("Node of the workshop", func() bool { m = p.workshopMachine(); return nodeNameOf(*m) != "" })
		p.protectPod(nodeNameOf(*m))
		p.wait("end of the workshop", func() bool {
			state, err := r.EndWorkshop(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			return state == cloud.Absent
		})
		p.wait("pool as it was", func() bool { return p.state() == before })
	}
}

// workshopMachine returns the Machine of the only workshop.
func (p *pool) workshopMachine() *unstructured.Unstructured {
	p.t.Helper()
	for _, m := range p.list("Machine") {
		if annotated(m, "kamino.dev/workshop") {
			return &m
		}
	}
	p.t.Fatal("no Machine is of a workshop")
	return nil
}

// infrastructureOf returns the AWSMachine of a Machine.
func (p *pool) infrastructureOf(m *unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	for _, o := range p.list("AWSMachine") {
		if o.GetName() == text(m, "spec", "infrastructureRef", "name") {
			return &o
		}
	}
	p.t.Fatalf("Machine %s has no AWSMachine", m.GetName())
	return nil
}

// protectPod runs a pod with a volume on a Node. Its evictions are refused: no controller says that the PodDisruptionBudget allows one.
func (p *pool) protectPod(node string) {
	p.t.Helper()
	labels := map[string]string{"app": node}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: p.namespace, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: p.namespace},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	for _, o := range []client.Object{budget, pod} {
		if err := p.client.Create(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if err := p.client.Status().Update(p.t.Context(), pod); err != nil {
		p.t.Fatal(err)
	}
	of := &corev1.Node{}
	if err := p.client.Get(p.t.Context(), client.ObjectKey{Name: node}, of); err != nil {
		p.t.Fatal(err)
	}
	attached := client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/ebs.csi.aws.com^vol-1","devicePath":""}]}}`))
	if err := p.client.Status().Patch(p.t.Context(), of, attached); err != nil {
		p.t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: p.namespace}}
	err = kube.PolicyV1().RESTClient().Post().AbsPath("/api/v1").Namespace(p.namespace).Resource("pods").Name(node).SubResource("eviction").
		Body(eviction).MaxRetries(0).Do(p.t.Context()).Error()
	if !apierrors.IsTooManyRequests(err) {
		p.t.Fatalf("the eviction of the pod ends with %v", err)
	}
}

// TestCopyOnMachine: the copy of a disk in use is a disk of a workshop that Cluster API builds in the simulated AWS. The core of
// Cluster API leaves the disk alone, and deletes the Machine.
func TestCopyOnMachine(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		if !strings.HasSuffix(t.Name(), "/a_copy_outlives_its_workshop") {
			t.Skip("this case runs with another pool")
		}
		p := groupPool{newCluster(t, strings.Replace(objects, "ami-generic", amazonImage, 1))}
		p.name, p.line = p.namespace, "home."+p.namespace
		p.makers.set(p.namespace, simulation.NewMaker(p.amazon.ec2, "home"))
		p.create(strings.Replace(withTwoMachines(deployment), "name: workers,", "name: NAMESPACE,", 1))
		p.wait("all machines", p.isComplete)
		return cloudtest.Harness{
			Provider: cloud.New(cloud.DisksOf(p.amazon.disks), cloud.RecipesOf(p.recipes())), Pool: p.pool.id(), Instances: p.instances(),
			Missing: "aws:///eu-central-1a/i-00000000000000000", Advance: func(testing.TB) { time.Sleep(pollInterval) }, Looks: 1200, RoomUnknown: true,
		}
	})
}
