package capi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A ClusterClass says by patches what of a template comes out of which variable. Here they are read, and nothing is carried out: which
// variables hold the image of a MachineDeployment's machines follows from where the patches write. What this cannot tell for certain is
// refused. Source: Cluster API, core/reconcilers/topology/cluster/patches.

// holder is a variable, or a field of one, that a part of a machine's spec comes from: of the image, or all of it.
type holder struct {
	// at is where the spec has it.
	at []string
	// variable, and the field of it; none if it is all of the variable.
	variable string
	field    []string
	// unknown says why it cannot be told what is written there, and need what would help. Then it names no variable.
	unknown, need string
}

// workers are the classes of a ClusterClass, or the entries of a Cluster's topology, that MachineDeployments are made from.
func workers(o object, path ...string) []spec {
	return specsIn(specOf(o, path...), "workers", "machineDeployments")
}

// specsIn are the objects of a list.
func specsIn(s spec, path ...string) (all []spec) {
	list, _, _ := unstructured.NestedFieldNoCopy(s, path...)
	items, _ := list.([]any)
	for _, item := range items {
		if one, is := item.(map[string]any); is {
			all = append(all, one)
		}
	}
	return all
}

// find is the first of them whose field has a text; nil if none has.
func find(all []spec, field, text string) spec {
	if at := slices.IndexFunc(all, func(s spec) bool { return s.text(field) == text }); at >= 0 {
		return all[at]
	}
	return nil
}

// classOf is the ClusterClass that a Cluster is made from; no name if there is none.
func classOf(cluster object) (namespace, name string) {
	namespace, name = cluster.text("spec", "topology", "classRef", "namespace"), cluster.text("spec", "topology", "classRef", "name")
	if cluster.v1beta1() {
		namespace, name = cluster.text("spec", "topology", "classNamespace"), cluster.text("spec", "topology", "class")
	}
	if namespace == "" {
		namespace = cluster.GetNamespace()
	}
	return namespace, name
}

// strategyOf is the roll-out strategy that a MachineDeployment's class, or its entry in the topology, asks for; empty if it asks for none.
func strategyOf(s spec, v1beta1 bool) string {
	if v1beta1 {
		return s.text("strategy", "type")
	}
	return s.text("rollout", "strategy", "type")
}

// machinesOf is the template, by its version and kind, that the machines of a MachineDeployment's class are made from.
func machinesOf(class spec, v1beta1 bool) (apiVersion, kind string) {
	path := []string{"infrastructure", "templateRef"}
	if v1beta1 {
		path = []string{"template", "infrastructure", "ref"}
	}
	return class.text(append(path, "apiVersion")...), class.text(append(path, "kind")...)
}

// holdersOf are the variables that a field of the machines' spec comes from in the end, and whatever nobody knows beforehand.
// A later patch writes over an earlier one.
func holdersOf(class object, of spec, root string) (found []holder) {
	apiVersion, kind := machinesOf(of, class.v1beta1())
	for _, patch := range specsIn(specOf(class, "spec"), "patches") {
		if patch.has("external", "generatePatchesExtension") || patch.has("external", "generateExtension") {
			found = append(found, holder{at: []string{root}, unknown: "its patch " + patch.text("name") + " is made by an extension, which may write to any template",
				need: "set the image by an inline patch of the ClusterClass, and leave the extension out"})
		}
		for _, definition := range specsIn(patch, "definitions") {
			if !selects(specIn(definition, "selector"), apiVersion, kind, of.text("class")) {
				continue
			}
			for _, write := range specsIn(definition, "jsonPatches") {
				found = written(found, write, patch, root)
			}
		}
	}
	return found
}

func specIn(s spec, path ...string) spec {
	found, _, _ := unstructured.NestedFieldNoCopy(s, path...)
	inner, _ := found.(map[string]any)
	return inner
}

// selects tells whether a patch is for the machines of a class of MachineDeployments.
func selects(selector spec, apiVersion, kind, class string) bool {
	if selector.text("apiVersion") != apiVersion || selector.text("kind") != kind {
		return false
	}
	names, _, _ := unstructured.NestedStringSlice(selector, "matchResources", "machineDeploymentClass", "names")
	return slices.ContainsFunc(names, func(name string) bool {
		begin, beginning := strings.CutSuffix(name, "*")
		end, ending := strings.CutPrefix(name, "*")
		return name == class || beginning && strings.HasPrefix(class, begin) || ending && strings.HasSuffix(class, end)
	})
}

// written is what the holders are after one more write of a patch.
func written(found []holder, write, patch spec, root string) []holder {
	at := strings.Split(strings.TrimPrefix(write.text("path"), "/"), "/")
	for i, part := range at {
		at[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	whole := append(slices.Clone(pathOfTemplate), root)
	if !within(at, whole) && !within(whole, at) {
		return found
	}
	h := holder{at: []string{root}}
	if within(at, whole) {
		h.at = at[len(pathOfTemplate):]
	}
	h.take(write, patch)
	if len(at) < len(whole) {
		h = h.says("its patch "+patch.text("name")+" writes more than the image at "+write.text("path"), "have a patch of its own set the image")
	}
	by := patch.text("enabledIf")
	if by != "" {
		h = h.says("its patch "+patch.text("name")+" writes to the image on a condition, enabledIf: "+by, "take the condition away, and give the variable a value everywhere")
	}
	if by == "" {
		found = slices.DeleteFunc(found, func(earlier holder) bool { return within(earlier.at, h.at) })
	}
	if h.variable != "" || h.unknown != "" {
		return append(found, h)
	}
	// What is fixed holds nothing. Below what a variable holds, it would hold for any of its values.
	if slices.ContainsFunc(found, func(earlier holder) bool { return within(h.at, earlier.at) }) {
		return append(found, h.says("its patch "+patch.text("name")+" writes into the image that a variable holds, at "+write.text("path"), "have the variable hold all of it"))
	}
	return found
}

// take reads where a write of a patch takes its value from: nowhere if that is fixed, or builtin.
func (h *holder) take(write, patch spec) {
	if write.text("op") == "remove" {
		return
	}
	variable := write.text("valueFrom", "variable")
	name, field, _ := strings.Cut(variable, ".")
	switch {
	case write.has("valueFrom", "template"):
		*h = h.says("its patch "+patch.text("name")+" makes the image of a template", "have the patch take it from a variable as it is, by valueFrom.variable")
	case strings.ContainsAny(variable, "[]"):
		*h = h.says("its patch "+patch.text("name")+" takes the image from an element of a list, "+variable, "have a variable, or a field of one, hold the image")
	case name == builtin:
	default:
		h.variable = name
		if field != "" {
			h.field = strings.Split(field, ".")
		}
	}
}

// says is the holder of which that is all that is known.
func (h holder) says(unknown, need string) holder {
	return holder{at: h.at, unknown: unknown, need: need}
}

// builtin is the variable that Cluster API sets by itself.
const builtin = "builtin"

// within tells whether a path is another one, or leads on from it.
func within(path, of []string) bool { return len(path) >= len(of) && slices.Equal(path[:len(of)], of) }
