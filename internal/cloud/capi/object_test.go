package capi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func parseObject(t *testing.T, manifest string) object {
	t.Helper()
	o := object{&unstructured.Unstructured{}}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	deploymentV1beta2 = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: workers, namespace: fleet}, spec: {
  rollout: {strategy: {type: OnDelete}}, template: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: one}}}}}`
	deploymentV1beta1 = `{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, metadata: {name: workers, namespace: fleet}, spec: {
  strategy: {type: OnDelete}, template: {spec: {infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, name: one}}}}}`
	clusterOfIt = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: prod, namespace: fleet}}`
)

// TestBothAPIVersions to the same.
func TestBothAPIVersions(t *testing.T) {
	for _, manifest := range []string{deploymentV1beta2, deploymentV1beta1} {
		o := parseObject(t, manifest)
		if ref := o.reference(pathInfrastructure...); o.strategy() != onDelete || o.replicas() != 1 || ref.Group != infrastructureGroup ||
			ref.Kind != "AWSMachineTemplate" || ref.name != "one" {
			t.Errorf("%s: %s, %d, %+v", o.GetAPIVersion(), o.strategy(), o.replicas(), ref)
		}
	}
	if o := parseObject(t, `{kind: MachineDeployment}`); o.strategy() != rollingUpdate {
		t.Errorf("one that says nothing has the strategy %s", o.strategy())
	}
}

// TestEndedMachines: what a provider writes of an instance that is going or gone. A stopped instance exists.
func TestEndedMachines(t *testing.T) {
	for _, c := range []struct {
		of            infrastructure
		field         string
		ended, exists []string
	}{
		{aws, "instanceState", []string{"shutting-down", "terminated"}, []string{"", "pending", "running", "stopping", "stopped"}},
		{azure, "vmState", []string{"Deleting", "Deleted"}, []string{"", "Creating", "Failed", "Succeeded", "Updating"}},
	} {
		for _, state := range c.ended {
			if !c.of.ended(spec{c.field: state}) {
				t.Errorf("%s: %s exists", c.of.cloud, state)
			}
		}
		for _, state := range c.exists {
			if c.of.ended(spec{c.field: state}) {
				t.Errorf("%s: %q has ended", c.of.cloud, state)
			}
		}
	}
}

// TestRefusals: each refusal names the object and the remedy.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, pool string
		want          []string
		says          string
	}{
		"nothing": {clusterOfIt, deploymentV1beta2, nil, ""},
		"rolling": {clusterOfIt, strings.Replace(deploymentV1beta2, onDelete, rollingUpdate, 1), []string{cloud.NodesWouldBeReplaced},
			"set spec.rollout.strategy.type to OnDelete"},
		"rolling, v1beta1": {clusterOfIt, strings.Replace(deploymentV1beta1, onDelete, rollingUpdate, 1), []string{cloud.NodesWouldBeReplaced},
			"set spec.strategy.type to OnDelete"},
		"paused pool": {clusterOfIt, strings.Replace(deploymentV1beta2, "namespace: fleet",
			"namespace: fleet, annotations: {cluster.x-k8s.io/paused: ''}", 1), []string{reasonPaused}, "MachineDeployment fleet/workers is paused"},
		"paused cluster": {strings.Replace(clusterOfIt, "kind: Cluster,", "kind: Cluster, spec: {paused: true},", 1), deploymentV1beta2,
			[]string{reasonPaused}, "Cluster fleet/prod is paused"},
		"set": {clusterOfIt, strings.Replace(strings.Replace(deploymentV1beta2, onDelete, rollingUpdate, 1), kindDeployment, kindSet, 1), nil, ""},
		"deleted": {strings.Replace(clusterOfIt, "name: prod", "name: prod, deletionTimestamp: '2026-01-01T00:00:00Z'", 1),
			deploymentV1beta2, []string{cloud.PoolBeingDeleted}, "Cluster fleet/prod is being deleted"},
	} {
		var reasons []string
		var messages strings.Builder
		for _, r := range refusalsOf(parseObject(t, c.cluster), parseObject(t, c.pool)) {
			reasons = append(reasons, r.Reason)
			messages.WriteString(r.Message)
		}
		if diff := cmp.Diff(c.want, reasons); diff != "" || !strings.Contains(messages.String(), c.says) {
			t.Errorf("%s: %q: %s", name, messages.String(), diff)
		}
	}
}

// TestNodeWithoutMachine: a MachinePool without Machines is named with the gates.
func TestNodeWithoutMachine(t *testing.T) {
	pools := []object{parseObject(t, "{kind: MachinePool, metadata: {name: workers, namespace: fleet}}")}
	for owner, want := range map[string]string{
		"MachinePool/workers": "MachinePool fleet/workers has no Machines for its instances (PoolUnsupported): " +
			"start the infrastructure provider with --feature-gates=MachinePool=true,MachinePoolMachines=true",
		"MachinePool/others": "only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured",
		"MachineSet/workers": "only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured",
	} {
		kind, name, _ := strings.Cut(owner, "/")
		node := cloud.NodeValues{Annotations: map[string]string{"cluster.x-k8s.io/owner-kind": kind, "cluster.x-k8s.io/owner-name": name}}
		if why := whyNoMachine(node, pools); why != want {
			t.Errorf("%s: %q", owner, why)
		}
	}
}

// TestOwners: only a Machine of a MachineSet belongs to a pool. Every other Machine gets a reason.
func TestOwners(t *testing.T) {
	is := true
	owned := func(o object, kind, name string) object {
		o.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: name, Controller: &is}})
		return o
	}
	machine := func() object {
		return parseObject(t, `{kind: Machine, metadata: {name: m, namespace: fleet, labels: {}, annotations: {}}}`)
	}
	set := parseObject(t, `{kind: MachineSet, metadata: {name: workers-1, namespace: fleet}}`)
	alone := parseObject(t, `{kind: MachineSet, metadata: {name: alone, namespace: fleet}}`)
	sets := []object{owned(set, kindDeployment, "workers"), alone}
	trial, plane := owned(machine(), kindSet, "workers-1"), owned(machine(), kindSet, "workers-1")
	trial.SetAnnotations(map[string]string{trials.mark(): "{}"})
	plane.SetLabels(map[string]string{labelControlPlane: ""})
	for name, c := range map[string]struct {
		m    object
		pool cloud.PoolID
		why  string
	}{
		"deployment":    {owned(machine(), kindSet, "workers-1"), "cluster.x-k8s.io/fleet/machinedeployments/workers", ""},
		"set":           {owned(machine(), kindSet, "alone"), "cluster.x-k8s.io/fleet/machinesets/alone", ""},
		"trial":         {trial, "", "to a trial"},
		"control plane": {plane, "", "control plane"},
		"alone":         {machine(), "", "has no owner"},
		"machine pool":  {owned(machine(), kindPool, "pool"), "cluster.x-k8s.io/fleet/machinepools/pool", ""},
		"unknown":       {owned(machine(), "KubeadmControlPlane", "plane"), "", "is made by KubeadmControlPlane plane"},
		"set gone":      {owned(machine(), kindSet, "gone"), "", "does not exist"},
	} {
		pool, why := ownerOf(c.m, sets)
		if why == "" && pool.pool() != c.pool || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %v, %q", name, pool, why)
		}
		if why != "" {
			continue
		}
		if back, err := parsePool(pool.pool()); err != nil || back != pool {
			t.Errorf("%s: read again it is %v, %v", name, back, err)
		}
	}
}

// TestImagesOfTemplates: an image is read in the form in which it is written, and other selectors of images are
// removed.
func TestImagesOfTemplates(t *testing.T) {
	const version = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/SIG_g/images/kamino-prod.workers-prototype/versions/2026.1.9"
	for name, c := range map[string]struct {
		of       infrastructure
		spec     string
		was      string
		set      string
		want     string
		fails    bool
		mustLose string
	}{
		"aws": {of: aws, spec: `{ami: {id: ami-1, eksLookupType: x}, imageLookupOrg: "1"}`, was: "ami-1", set: "ami-2", want: "ami-2",
			mustLose: "imageLookupOrg"},
		"aws, looked up": {of: aws, spec: `{imageLookupFormat: x}`, was: "", set: "ami-2", want: "ami-2", mustLose: "imageLookupFormat"},
		"gallery": {of: azure,
			spec: `{image: {computeGallery: {subscriptionID: s, resourceGroup: g, gallery: SIG_g, name: i, version: 1.0.0}}}`,
			was:  "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/SIG_g/images/i/versions/1.0.0", set: version, want: version},
		"marketplace": {of: azure, spec: `{image: {marketplace: {publisher: p, offer: o, sku: s, version: latest}}}`, was: "p:o:s:latest",
			set: version, want: version},
		"community": {of: azure, spec: `{image: {computeGallery: {gallery: c, name: i, version: 1.0.0}}}`, was: "community:c:i:1.0.0",
			set: version, want: version},
		"image":               {of: azure, spec: `{image: {id: /an/image}}`, was: "/an/image", set: version, want: version},
		"back to marketplace": {of: azure, spec: `{image: {id: /an/image}}`, was: "/an/image", set: "p:o:s:latest", want: "p:o:s:latest"},
		"back to a plan": {of: azure, spec: `{image: {marketplace: {publisher: p, offer: o, sku: s, version: "1", thirdPartyImage: true}}}`,
			was: "p:o:s:1:plan", set: "p:o:s:1:plan", want: "p:o:s:1:plan"},
		"back to community": {of: azure, spec: `{image: {id: /an/image}}`, was: "/an/image", set: "community:c:i:1.0.0", want: "community:c:i:1.0.0"},
		"back to an image": {of: azure, spec: `{image: {marketplace: {publisher: p, offer: o, sku: s, version: "1"}}}`, was: "p:o:s:1",
			set: "/other/image", want: "/other/image"},
		"no image": {of: azure, spec: `{image: {id: /an/image}}`, was: "/an/image", set: "other", want: "/an/image", fails: true},
		"a gallery's part": {of: azure, spec: `{image: {id: /an/image}}`, was: "/an/image", set: "/subscriptions/s/galleries/g",
			want: "/an/image", fails: true},
	} {
		inner := parseObject(t, c.spec).Object
		if have := c.of.image(inner); have != c.was {
			t.Errorf("%s: it names %q, want %q", name, have, c.was)
		}
		if err := c.of.setImage(inner, c.set); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if have := c.of.image(inner); have != c.want || inner[c.mustLose] != nil {
			t.Errorf("%s: it names %q, want %q: %v", name, have, c.want, inner)
		}
	}
}

// TestReasons: each obstacle is listed once, with a remedy.
func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if seen[r.Means] || r.Means == "" || r.Remedy == "" || strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("%+v", r)
		}
		seen[r.Means] = true
	}
}
