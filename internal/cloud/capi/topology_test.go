package capi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// The constants are ClusterClasses of both API versions and their Clusters. The class has a placeholder for
// patches, the Cluster for variables and overrides.
const (
	classV1beta2 = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: ClusterClass, metadata: {name: class, namespace: fleet}, spec: {
  workers: {machineDeployments: [{class: worker, rollout: {strategy: {type: OnDelete}}, infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: MACHINETemplate, name: t}}}]},
  variables: [{name: fallen, schema: {openAPIV3Schema: {type: string, default: ami-default}}}],
  patches: [{name: image, definitions: [{selector: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: MACHINETemplate, matchResources: {machineDeploymentClass: {names: [worker]}}}, jsonPatches: JSON_PATCHES}]}]}}`
	classV1beta1 = `{apiVersion: cluster.x-k8s.io/v1beta1, kind: ClusterClass, metadata: {name: class, namespace: fleet}, spec: {
  workers: {machineDeployments: [{class: worker, strategy: {type: OnDelete}, template: {infrastructure: {ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: MACHINETemplate, name: t}}}}]},
  patches: [{name: image, definitions: [{selector: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: MACHINETemplate, matchResources: {machineDeploymentClass: {names: [worker]}}}, jsonPatches: JSON_PATCHES}]}]}}`
	classyV1beta2 = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: prod, namespace: fleet}, spec: {topology: {classRef: {name: class}, variables: VARIABLES,
  workers: {machineDeployments: [{name: others, class: worker, replicas: 2}, {name: md-0, class: worker, kept: {as: it is}, variables: {overrides: OVERRIDES}}]}}}}`
	classyV1beta1 = `{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: prod, namespace: fleet}, spec: {topology: {class: class, variables: VARIABLES,
  workers: {machineDeployments: [{name: others, class: worker, replicas: 2}, {name: md-0, class: worker, kept: {as: it is}, variables: {overrides: OVERRIDES}}]}}}}`
	ownedByIt = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: prod-md-0-x, namespace: fleet, labels: {topology.cluster.x-k8s.io/owned: '', topology.cluster.x-k8s.io/deployment-name: md-0}},
  spec: {rollout: {strategy: {type: OnDelete}}}}`

	inGallery = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/SIG_g/images/kamino-prod.workers/versions/"
)

// made reads a topology with these patches in the class, and with the machine of the template.
func made(t *testing.T, of infrastructure, class, cluster, patches, variables, overrides, machine, wouldBe string) *topology {
	t.Helper()
	fill := strings.NewReplacer("MACHINE", of.machine, "JSON_PATCHES", patches, "VARIABLES", variables, "OVERRIDES", overrides).Replace
	got := &topology{cluster: parseObject(t, fill(cluster)), class: parseObject(t, fill(class))}
	got.entry = entryOf(got.cluster, parseObject(t, ownedByIt))
	got.of = find(workers(got.class, "spec"), "class", got.entry.text("class"))
	got.findVariables(of, parseObject(t, machine).Object, wouldBe)
	return got
}

// TestImageVariables: variables with the image are found in the ClusterClass, read with their defaults, and set to
// another image.
func TestImageVariables(t *testing.T) {
	const ami = `{ami: {id: ami-old}, instanceType: m7i.large}`
	for name, c := range map[string]struct {
		of                           infrastructure
		patches, variables, override string
		machine                      string
		asked                        string
		set                          string
		want                         string
	}{
		"a variable of its own": {
			of: aws, patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}]`, variables: `[{name: ami, value: ami-1}]`,
			machine: ami, asked: "ami-1", set: "ami-2", want: `[{name: ami, value: ami-2}]`,
		},
		"an override of it": {
			of: aws, patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}]`,
			variables: `[{name: ami, value: ami-1}]`, override: `[{name: other, value: 7}, {name: ami, value: ami-3}]`,
			machine: ami, asked: "ami-3", set: "ami-2", want: `[{name: other, value: 7}, {name: ami, value: ami-2}]`,
		},
		"the default of the class": {
			of: aws, patches: `[{op: add, path: /spec/template/spec/ami/id, valueFrom: {variable: fallen}}]`, variables: `[]`,
			machine: `{instanceType: m7i.large}`, asked: "ami-default", set: "ami-2", want: `[{name: fallen, value: ami-2}]`,
		},
		"an object": {
			of: aws, patches: `[{op: add, path: /spec/template/spec/ami, valueFrom: {variable: ami}}]`, variables: `[{name: ami, value: {id: ami-1}}]`,
			machine: ami, asked: "ami-1", set: "ami-2", want: `[{name: ami, value: {id: ami-2}}]`,
		},
		"a field of one": {
			of: aws, patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: worker.image.ami}}]`,
			variables: `[{name: worker, value: {size: 3, image: {ami: ami-1, os: debian}}}]`,
			machine:   ami, asked: "ami-1", set: "ami-2", want: `[{name: worker, value: {size: 3, image: {ami: ami-2, os: debian}}}]`,
		},
		"what is written later": {
			of: aws, patches: `[{op: replace, path: /spec/template/spec/ami/id, value: ami-fixed}, {op: replace, path: /spec/template/spec/ami/id, valueFrom: {template: "{{ .x }}"}},
  {op: add, path: /spec/template/spec/ami, valueFrom: {variable: ami}}, {op: replace, path: /spec/template/spec/instanceType, valueFrom: {template: "{{ .size }}"}}]`,
			variables: `[{name: ami, value: {id: ami-1}}]`, machine: ami, asked: "ami-1", set: "ami-2", want: `[{name: ami, value: {id: ami-2}}]`,
		},
		"all of an image": {
			of: azure, patches: `[{op: add, path: /spec/template/spec/image, valueFrom: {variable: image}}]`,
			variables: `[{name: image, value: {marketplace: {publisher: p, offer: o, sku: s, version: "1"}}}]`,
			machine:   `{image: {id: /old}}`, asked: "p:o:s:1", set: inGallery + "2026.1.9",
			want: `[{name: image, value: {computeGallery: {subscriptionID: s, resourceGroup: g, gallery: SIG_g, name: kamino-prod.workers, version: 2026.1.9}}}]`,
		},
		"the gallery's part": {
			of: azure, patches: `[{op: add, path: /spec/template/spec/image/computeGallery, valueFrom: {variable: from}}]`,
			variables: `[{name: from, value: {subscriptionID: s, resourceGroup: g, gallery: c, name: i, version: 1.0.0}}]`,
			machine:   `{image: {}}`, asked: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/c/images/i/versions/1.0.0",
			set:  inGallery + "2026.1.9",
			want: `[{name: from, value: {subscriptionID: s, resourceGroup: g, gallery: SIG_g, name: kamino-prod.workers, version: 2026.1.9}}]`,
		},
		"field by field": {
			of: azure, patches: `[{op: replace, path: /spec/template/spec/image/computeGallery/gallery, valueFrom: {variable: gallery}}, {op: replace, path: /spec/template/spec/image/computeGallery/name, valueFrom: {variable: what.name}},
  {op: replace, path: /spec/template/spec/image/computeGallery/version, valueFrom: {variable: what.version}}]`,
			variables: `[{name: gallery, value: c}, {name: what, value: {name: i, version: 1.0.0, more: kept}}]`,
			machine:   `{image: {computeGallery: {subscriptionID: s, resourceGroup: g, gallery: x, name: x, version: x}}}`,
			asked:     "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/c/images/i/versions/1.0.0", set: inGallery + "2026.1.9",
			want: `[{name: gallery, value: SIG_g}, {name: what, value: {name: kamino-prod.workers, version: 2026.1.9, more: kept}}]`,
		},
	} {
		for version, manifests := range map[string][2]string{"v1beta2": {classV1beta2, classyV1beta2}, "v1beta1": {classV1beta1, classyV1beta1}} {
			if version == "v1beta1" && strings.Contains(c.patches, "fallen") { // both kinds of definitions have the same shape
				continue
			}
			name := name + ", " + version
			got := made(t, c.of, manifests[0], manifests[1], c.patches, c.variables, cmp.Or(c.override, "[]"), c.machine, c.set)
			if got.refused != nil || got.asked != c.asked || got.carried != c.of.image(parseObject(t, c.machine).Object) {
				t.Errorf("%s: it asks for %q instead of %q: %+v", name, got.asked, got.carried, got.refused)
				continue
			}
			was := got.overrides()
			overrides, err := overridesFor(c.of, parseObject(t, c.machine).Object, got.imageVariables, got.value, c.set)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			after := entriesWith(t, got.cluster, overrides)
			if diff := gocmp.Diff(parseObject(t, "{all: "+c.want+"}").Object["all"], overridesIn(after)); diff != "" {
				t.Errorf("%s: overrides (-want +got):\n%s", name, diff)
			}
			if len(after) != 2 || after[1].(map[string]any)["kept"] == nil {
				t.Errorf("%s: of the topology is left %v", name, after)
			}
			got.cluster.Object["spec"].(map[string]any)["topology"].(map[string]any)["workers"].(map[string]any)["machineDeployments"] = after
			got.entry = entryOf(got.cluster, parseObject(t, ownedByIt))
			if got.findVariables(c.of, parseObject(t, c.machine).Object, c.set); got.asked != c.set {
				t.Errorf("%s: once written, it asks for %q: %+v", name, got.asked, got.refused)
			}
			back, empty := entriesWith(t, got.cluster, was), c.override == ""
			if diff := gocmp.Diff(parseObject(t, "{all: "+cmp.Or(c.override, "null")+"}").Object["all"], overridesIn(back)); diff != "" ||
				empty && back[1].(map[string]any)["variables"] != nil {
				t.Errorf("%s: released, it is %v:\n%s", name, back[1], diff)
			}
		}
	}
}

func entriesWith(t *testing.T, cluster object, overrides []override) []any {
	t.Helper()
	before := cluster.DeepCopy()
	entries, err := withOverrides(cluster, "md-0", overrides)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(before.Object, cluster.Object); diff != "" {
		t.Errorf("the Cluster that was read has changed:\n%s", diff)
	}
	return entries
}

// overridesIn the entry of the pool; nil if there are none.
func overridesIn(entries []any) any {
	variables, _ := entries[1].(map[string]any)["variables"].(map[string]any)
	return variables["overrides"]
}

// TestImagesWithoutVariable are refused with a remedy.
func TestImagesWithoutVariable(t *testing.T) {
	const byVariable = `{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}`
	of := func(text string, change ...string) string { return strings.NewReplacer(change...).Replace(text) }
	for name, c := range map[string]struct {
		class, patches string
		says           []string
	}{
		"none": {patches: `[{op: replace, path: /spec/template/spec/instanceType, valueFrom: {variable: ami}}]`,
			says: []string{"no patch sets the image", "valueFrom.variable"}},
		"fixed": {patches: `[` + byVariable + `, {op: replace, path: /spec/template/spec/ami/id, value: ami-9}]`,
			says: []string{"no patch sets the image"}},
		"builtin": {patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: builtin.machineDeployment.version}}]`,
			says: []string{"no patch sets the image"}},
		"taken away": {patches: `[` + byVariable + `, {op: remove, path: /spec/template/spec/ami}]`, says: []string{"no patch sets the image"}},
		"a template": {patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {template: "{{ .ami }}"}}]`,
			says: []string{"patch image makes the image from a template", "with valueFrom.variable"}},
		"an element": {patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: "amis[0].id"}}]`,
			says: []string{"element of a list, amis[0].id"}},
		"no value": {patches: `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: none.of.them}}]`,
			says: []string{"none.of.them has no value", "set the value"}},
		"all of the machine": {patches: `[{op: replace, path: /spec/template/spec, valueFrom: {variable: ami}}]`,
			says: []string{"writes more than the image at /spec/template/spec"}},
		"a condition": {class: of(classV1beta2, "{name: image,", "{name: image, enabledIf: '{{ if .ami }}true{{end}}',"),
			patches: `[` + byVariable + `]`, says: []string{"patch image writes to the image under a condition", "remove the condition"}},
		"an extension": {class: of(classV1beta2, "patches: [", "patches: [{name: far, external: {generatePatchesExtension: x}}, "),
			patches: `[` + byVariable + `]`, says: []string{"patch far comes from an extension"}},
		"an extension, v1beta1": {class: of(classV1beta1, "patches: [", "patches: [{name: far, external: {generateExtension: x}}, "),
			patches: `[` + byVariable + `]`, says: []string{"patch far comes from an extension"}},
		"another class": {class: of(classV1beta2, "names: [worker]", "names: [server, w*x]"), patches: `[` + byVariable + `]`,
			says: []string{"no patch sets the image"}},
		"another kind": {class: of(classV1beta2, "kind: MACHINETemplate, match", "kind: OtherTemplate, match"),
			patches: `[` + byVariable + `]`, says: []string{"no patch sets the image"}},
		"another version": {class: of(classV1beta2, "v1beta2, kind: MACHINETemplate, match", "v1beta1, kind: MACHINETemplate, match"),
			patches: `[` + byVariable + `]`, says: []string{"no patch sets the image"}},
		"a class that is gone": {class: of(classV1beta2, "[{class: worker", "[{class: gone"), patches: `[` + byVariable + `]`,
			says: []string{"has no class worker"}},
		"a validating extension": {class: of(classV1beta2, "patches: [", "patches: [{name: far, external: {validateTopologyExtension: x}}, "),
			patches: `[` + byVariable + `]`},
		"any class":     {class: of(classV1beta2, "names: [worker]", "names: ['*']"), patches: `[` + byVariable + `]`},
		"its beginning": {class: of(classV1beta2, "names: [worker]", "names: ['work*']"), patches: `[` + byVariable + `]`},
		"its end":       {class: of(classV1beta2, "names: [worker]", "names: ['*ker']"), patches: `[` + byVariable + `]`},
	} {
		got := made(t, aws, cmp.Or(c.class, classV1beta2), classyV1beta2, c.patches, `[{name: ami, value: ami-1}]`, `[]`, `{ami: {id: ami-old}}`, "eu/kamino/x")
		if (got.refused == nil) != (len(c.says) == 0) {
			t.Errorf("%s: %+v", name, got.refused)
			continue
		}
		if got.refused == nil {
			continue
		}
		if got.refused.Reason != cloud.ManagedElsewhere || got.asked != "ami-old" || got.overrides() != nil {
			t.Errorf("%s: %+v, and the image is %s", name, got.refused, got.asked)
		}
		for _, text := range append(c.says, "ClusterClass fleet/class", "md-0") {
			if !strings.Contains(got.refused.Message, text) {
				t.Errorf("%s: it does not say %q: %s", name, text, got.refused.Message)
			}
		}
	}
}

// TestPartsOfAnImage: where the class says the rest of an image, no version of the pool's can be named.
func TestPartsOfAnImage(t *testing.T) {
	const version = `{op: replace, path: /spec/template/spec/image/computeGallery/version, valueFrom: {variable: version}}`
	whole := `{op: add, path: /spec/template/spec/image, valueFrom: {variable: image}}`
	for name, c := range map[string]struct{ patches, says string }{
		"the version alone": {`[` + version + `]`, "a part of the image"},
		"an image's ID": {`[{op: add, path: /spec/template/spec/image/id, valueFrom: {variable: version}}]`,
			"has no image.id, but variable version holds the field"},
		"fixed below": {`[` + whole + `, {op: replace, path: /spec/template/spec/image/computeGallery/version, value: "1"}]`,
			"writes a part of the variable's image"},
	} {
		got := made(t, azure, classV1beta2, classyV1beta2, c.patches,
			`[{name: version, value: "1.0.0"}, {name: image, value: {computeGallery: {gallery: c, name: i, version: "1"}}}]`, `[]`,
			`{image: {computeGallery: {subscriptionID: s, resourceGroup: g, gallery: c, name: i, version: 1.0.0}}}`, inGallery+anyVersion)
		if got.refused == nil || !strings.Contains(got.refused.Message, c.says) {
			t.Errorf("%s: %+v", name, got.refused)
		}
	}
}

// TestRefusalsOfTopologies: the topology decides about the strategy. Pending changes must arrive first.
func TestRefusalsOfTopologies(t *testing.T) {
	const patches, variables = `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}]`, `[{name: ami, value: ami-1}]`
	const own = `kept: {as: it is}`
	for name, c := range map[string]struct {
		cluster, class, pool string
		want                 []string
		says                 string
	}{
		"nothing": {},
		"the entry rolls": {cluster: strings.Replace(classyV1beta2, own, `rollout: {strategy: {type: RollingUpdate}}`, 1),
			want: []string{cloud.NodesWouldBeReplaced}, says: "set spec.topology.workers.machineDeployments[md-0].rollout.strategy.type of Cluster fleet/prod to OnDelete"},
		"it rolls, v1beta1": {cluster: strings.Replace(classyV1beta1, own, `strategy: {type: RollingUpdate}`, 1), want: []string{cloud.NodesWouldBeReplaced},
			says: "set spec.topology.workers.machineDeployments[md-0].strategy.type of"},
		"the class rolls": {class: strings.Replace(classV1beta2, onDelete, rollingUpdate, 1), want: []string{cloud.NodesWouldBeReplaced},
			says: "asks for the strategy RollingUpdate"},
		"no strategy": {class: strings.Replace(classV1beta2, `rollout: {strategy: {type: OnDelete}}, `, "", 1),
			want: []string{cloud.NodesWouldBeReplaced}, says: "sets no strategy"},
		"the pool rolls": {pool: strings.Replace(ownedByIt, onDelete, rollingUpdate, 1), want: []string{cloud.NodesWouldBeReplaced},
			says: "has the strategy RollingUpdate"},
		"a day for roll-outs": {cluster: strings.Replace(classyV1beta2, own, `rollout: {after: '2026-01-01T00:00:00Z'}`, 1),
			want: []string{cloud.NodesWouldBeReplaced}, says: "sets no strategy"},
		"the entry wins": {class: strings.Replace(classV1beta2, onDelete, rollingUpdate, 1),
			cluster: strings.Replace(classyV1beta2, own, `rollout: {strategy: {type: OnDelete}}`, 1)},
	} {
		v := poolView{pool: parseObject(t, cmp.Or(c.pool, ownedByIt))}
		v.topology = made(t, aws, cmp.Or(c.class, classV1beta2), cmp.Or(c.cluster, classyV1beta2), patches, variables, `[]`,
			`{ami: {id: ami-1}}`, "eu/kamino/x")
		v.cluster = v.topology.cluster
		var reasons []string
		var messages strings.Builder
		for _, r := range slices.Concat(v.refuseTopology(refusalsToWrite(v.cluster, v.pool)), v.pending()) {
			reasons = append(reasons, r.Reason)
			messages.WriteString(r.Message)
		}
		if diff := gocmp.Diff(c.want, reasons); diff != "" || !strings.Contains(messages.String(), c.says) {
			t.Errorf("%s: %q: %s", name, messages.String(), diff)
		}
	}
}

// TestPoolWithoutTopology: a pool with the label of a topology, but without an entry in the topology, is refused
// before any search.
func TestPoolWithoutTopology(t *testing.T) {
	set := strings.Replace(ownedByIt, kindDeployment, kindSet, 1)
	for name, c := range map[string]struct {
		cluster, pool string
	}{"no topology": {clusterOfIt, ownedByIt}, "another": {classyV1beta2, strings.Replace(ownedByIt, "md-0}", "md-1}", 1)}, "a set": {classyV1beta2, set}} {
		fill := strings.NewReplacer("VARIABLES", "[]", "OVERRIDES", "[]").Replace
		v := poolView{cluster: parseObject(t, fill(c.cluster)), pool: parseObject(t, c.pool)}
		var err error
		if v.topology, err = (&clusterAccess{}).topologyOf(t.Context(), v.cluster, v.pool); err != nil {
			t.Fatal(err)
		}
		found := v.refuseTopology(refusalsToWrite(v.cluster, v.pool))
		if len(found) != 1 || found[0].Reason != cloud.ManagedElsewhere || !strings.Contains(found[0].Message, "Cluster fleet/prod") || v.pending() != nil {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if got, err := (&clusterAccess{}).topologyOf(t.Context(), parseObject(t, clusterOfIt), parseObject(t, deploymentV1beta2)); got != nil || err != nil {
		t.Errorf("a pool that is made from none: %+v, %v", got, err)
	}
}

// TestPendingTopology: the recipe is the Cluster's wish. The recipe is pending until the template shows the same
// image.
func TestPendingTopology(t *testing.T) {
	const patches, variables = `[{op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}]`, `[{name: ami, value: ami-1}]`
	for carried, late := range map[string]bool{"ami-1": false, "ami-0": true} {
		v := poolView{pool: parseObject(t, ownedByIt),
			topology: made(t, aws, classV1beta2, classyV1beta2, patches, variables, `[]`, fmt.Sprintf(`{ami: {id: %s}}`, carried), "eu/kamino/x")}
		v.cluster = v.topology.cluster
		if found := v.pending(); (len(found) == 1) != late || late && found[0].Reason != reasonPending || v.topology.asked != "ami-1" {
			t.Errorf("%s: it asks for %s: %+v", carried, v.topology.asked, found)
		}
	}
	if found := (poolView{}).pending(); found != nil {
		t.Errorf("without a topology: %+v", found)
	}
}

// TestSavedOverrides: a number stays a number, and a missing override stays missing.
func TestSavedOverrides(t *testing.T) {
	of := ref{"fleet", deployments, "prod-md-0-x"}
	was, err := readBackup(of, fmt.Appendf(nil, `{"pool": %q, "kind": "AWSMachineTemplate", "template": "t", "image": "ami-1", "overrides": [{"name": "worker", "value": {"size": 3}}, {"name": "ami"}]}`, of.pool()))
	if err != nil {
		t.Fatal(err)
	}
	want := []override{{Name: "worker", Value: map[string]any{"size": int64(3)}}, {Name: "ami"}}
	if diff := gocmp.Diff(want, was.Overrides); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}

// TestRightsOfTopologies: only a pool of a topology needs more than the right to read its Cluster.
func TestRightsOfTopologies(t *testing.T) {
	for _, need := range rights("AWSMachine") {
		topology := need.Resource == resourceClasses || need.Resource == "clusters" && slices.Contains(need.Verbs, "patch")
		if topology != (need.For == forTopology) {
			t.Errorf("%+v", need)
		}
	}
	for namespace, want := range map[string]string{"fleet": "kamino manifests --management", "classes": "for namespace fleet"} {
		if messages := remedyClass(namespace, "fleet"); !strings.Contains(messages, want) {
			t.Errorf("%s: %s", namespace, messages)
		}
	}
}
