package capi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The patches of a ClusterClass set template fields from variables. This file finds the variables with the image of a
// MachineDeployment by the written paths. Uncertain cases are refused. Source: Cluster API,
// core/reconcilers/topology/cluster/patches.

// imageVariable is a variable, or a field of a variable, that sets a part of the image in a machine's spec.
type imageVariable struct {
	// at is the path in the spec.
	at []string
	// variable with field; field is empty for the whole variable.
	variable string
	field    []string
	// unknown is the reason why the written value is unknown, and need is the remedy. variable is then empty.
	unknown, need string
}

// workers returns the MachineDeployment classes of a ClusterClass, or the MachineDeployment entries of a Cluster's
// topology.
func workers(o object, path ...string) []spec {
	return specsIn(specOf(o, path...), "workers", "machineDeployments")
}

// specsIn returns the objects of a list.
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

// find returns the first spec with the text in the field; nil if there is none.
func find(all []spec, field, text string) spec {
	if at := slices.IndexFunc(all, func(s spec) bool { return s.text(field) == text }); at >= 0 {
		return all[at]
	}
	return nil
}

// classOf returns the ClusterClass of a Cluster; name is empty without a class.
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

// strategyOf returns the strategy of a MachineDeployment class or topology entry; empty if unset.
func strategyOf(s spec, v1beta1 bool) string {
	if v1beta1 {
		return s.text("strategy", "type")
	}
	return s.text("rollout", "strategy", "type")
}

// machinesOf returns version and kind of the machine template of a MachineDeployment class.
func machinesOf(class spec, v1beta1 bool) (apiVersion, kind string) {
	path := []string{"infrastructure", "templateRef"}
	if v1beta1 {
		path = []string{"template", "infrastructure", "ref"}
	}
	return class.text(append(path, "apiVersion")...), class.text(append(path, "kind")...)
}

// imageVariablesOf returns the variables that finally set a field of the machines' spec, and unknown writes. A later patch
// overwrites an earlier patch.
func imageVariablesOf(class object, of spec, root string) (found []imageVariable) {
	apiVersion, kind := machinesOf(of, class.v1beta1())
	for _, patch := range specsIn(specOf(class, "spec"), "patches") {
		if patch.has("external", "generatePatchesExtension") || patch.has("external", "generateExtension") {
			found = append(found, imageVariable{at: []string{root},
				unknown: "patch " + patch.text("name") + " comes from an extension, which may write to any template",
				need:    "set the image in an inline patch of the ClusterClass, and remove the extension"})
		}
		for _, definition := range specsIn(patch, "definitions") {
			if !selects(specIn(definition, "selector"), apiVersion, kind, of.text("class")) {
				continue
			}
			for _, write := range specsIn(definition, "jsonPatches") {
				found = addWrite(found, write, patch, root)
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

// selects reports whether a patch applies to the machines of a MachineDeployment class.
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

// addWrite returns the variables after another write of a patch.
func addWrite(found []imageVariable, write, patch spec, root string) []imageVariable {
	at := strings.Split(strings.TrimPrefix(write.text("path"), "/"), "/")
	for i, part := range at {
		at[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	whole := append(slices.Clone(pathOfTemplate), root)
	if !within(at, whole) && !within(whole, at) {
		return found
	}
	h := imageVariable{at: []string{root}}
	if within(at, whole) {
		h.at = at[len(pathOfTemplate):]
	}
	h.readSource(write, patch)
	if len(at) < len(whole) {
		h = h.unknownValue("patch "+patch.text("name")+" writes more than the image at "+write.text("path"), "set the image in a separate patch")
	}
	by := patch.text("enabledIf")
	if by != "" {
		h = h.unknownValue("patch "+patch.text("name")+" writes to the image under a condition, enabledIf: "+by,
			"remove the condition, and give the variable a value everywhere")
	}
	if by == "" {
		found = slices.DeleteFunc(found, func(earlier imageVariable) bool { return within(earlier.at, h.at) })
	}
	if h.variable != "" || h.unknown != "" {
		return append(found, h)
	}
	// A fixed value has no variable. A fixed value inside a variable's value would apply to all values of the variable.
	if slices.ContainsFunc(found, func(earlier imageVariable) bool { return within(h.at, earlier.at) }) {
		return append(found, h.unknownValue("patch "+patch.text("name")+" writes a part of the variable's image, at "+write.text("path"),
			"let the variable hold the whole image"))
	}
	return found
}

// readSource reads the source of a write's value; no variable for a fixed or builtin value.
func (h *imageVariable) readSource(write, patch spec) {
	if write.text("op") == "remove" {
		return
	}
	variable := write.text("valueFrom", "variable")
	name, field, _ := strings.Cut(variable, ".")
	switch {
	case write.has("valueFrom", "template"):
		*h = h.unknownValue("patch "+patch.text("name")+" makes the image from a template",
			"set the image from a variable in the patch, with valueFrom.variable")
	case strings.ContainsAny(variable, "[]"):
		*h = h.unknownValue("patch "+patch.text("name")+" reads the image from an element of a list, "+variable,
			"let a variable, or a field of a variable, hold the image")
	case name == builtin:
	default:
		h.variable = name
		if field != "" {
			h.field = strings.Split(field, ".")
		}
	}
}

// unknownValue returns an imageVariable with an unknown value.
func (h imageVariable) unknownValue(unknown, need string) imageVariable {
	return imageVariable{at: h.at, unknown: unknown, need: need}
}

// builtin is the variable that Cluster API sets.
const builtin = "builtin"

// within reports whether a path equals or extends another path.
func within(path, of []string) bool { return len(path) >= len(of) && slices.Equal(path[:len(of)], of) }
