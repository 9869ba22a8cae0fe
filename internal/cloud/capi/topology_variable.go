package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// override is the value of a variable for one MachineDeployment alone, as a Cluster's topology has it; without a value if it has none.
type override struct {
	Name  string `json:"name"`
	Value any    `json:"value,omitempty"`
}

// Where a MachineDeployment's entry in a topology has its overrides, and a Cluster the values for all of them.
var (
	pathOverrides = []string{"variables", "overrides"}
	pathEntries   = []string{"spec", "topology", "workers", "machineDeployments"}
)

// overrideOf is the override of a variable in an entry, as it is.
func overrideOf(entry spec, name string) override {
	return override{name, find(specsIn(entry, pathOverrides...), "name", name)["value"]}
}

// valueOf is the value that a variable has for an entry: its override, or else the Cluster's, or else the default of the class.
func valueOf(cluster, class object, entry spec, name string) any {
	if own := overrideOf(entry, name); own.Value != nil {
		return own.Value
	}
	if all := find(specsIn(specOf(cluster, "spec", "topology"), "variables"), "name", name); all != nil {
		return all["value"]
	}
	defined := find(specsIn(specOf(class, "spec"), "variables"), "name", name)
	fallback, _, _ := unstructured.NestedFieldNoCopy(defined, "schema", "openAPIV3Schema", "default")
	return fallback
}

// fieldOf is a field of a value, or all of it; false if it is not there.
func fieldOf(value any, field []string) (any, bool) {
	if len(field) == 0 {
		return value, value != nil
	}
	inner, _ := value.(map[string]any)
	found, there, err := unstructured.NestedFieldNoCopy(inner, field...)
	return found, there && err == nil && found != nil
}

// machineBy is a machine's spec with what its holders say, by the values of their variables. An error if one of them says nothing.
func machineBy(machine spec, holders []holder, valueOf func(name string) any) (spec, error) {
	made := spec(runtime.DeepCopyJSON(machine))
	if made == nil {
		made = spec{}
	}
	for _, h := range holders {
		value, there := fieldOf(valueOf(h.variable), h.field)
		if !there {
			return nil, fmt.Errorf("its variable %s has no value", h)
		}
		if err := unstructured.SetNestedField(made, runtime.DeepCopyJSONValue(value), h.at...); err != nil {
			return nil, fmt.Errorf("its variable %s cannot be written to the template: %w", h, err)
		}
	}
	return made, nil
}

func (h holder) String() string { return strings.Join(append([]string{h.variable}, h.field...), ".") }

// overridesFor are the overrides by which a machine's spec names an image. The other fields of a variable stay as they are. An error if the
// holders do not hold all that would have to change.
func overridesFor(of infrastructure, machine spec, holders []holder, valueOf func(name string) any, native string) ([]override, error) {
	want := spec(runtime.DeepCopyJSON(machine))
	if err := of.setImage(want, native); err != nil {
		return nil, err
	}
	var all []override
	at := func(name string) int { return slices.IndexFunc(all, func(o override) bool { return o.Name == name }) }
	for _, h := range holders {
		value, there, err := unstructured.NestedFieldCopy(want, h.at...)
		if err != nil || !there {
			return nil, fmt.Errorf("the image has no %s, which the variable %s holds", strings.Join(h.at, "."), h)
		}
		if at(h.variable) < 0 {
			all = append(all, override{Name: h.variable})
		}
		o := &all[at(h.variable)]
		if len(h.field) == 0 {
			o.Value = value
			continue
		}
		whole, is := o.Value.(map[string]any)
		if !is {
			whole, _ = runtime.DeepCopyJSONValue(valueOf(h.variable)).(map[string]any)
		}
		if whole == nil {
			whole = map[string]any{}
		}
		if err := unstructured.SetNestedField(whole, value, h.field...); err != nil {
			return nil, fmt.Errorf("the variable %s cannot be set: %w", h, err)
		}
		o.Value = whole
	}
	set, err := machineBy(machine, holders, func(name string) any { return all[at(name)].Value })
	if err == nil && of.image(set) != native {
		err = fmt.Errorf("its variables hold a part of the image only: with them it is %s", of.image(set))
	}
	return all, err
}

// withOverrides are the entries of a Cluster's topology, with these overrides in one of them and everything else as it is. One without
// a value goes.
func withOverrides(cluster object, entry string, overrides []override) ([]any, error) {
	entries, _, err := unstructured.NestedSlice(cluster.Object, pathEntries...) // a copy
	if err != nil {
		return nil, fail(opRecipe, cluster.String(), err)
	}
	for _, e := range entries {
		of, _ := e.(map[string]any)
		if spec(of).text("name") != entry {
			continue
		}
		have, _, _ := unstructured.NestedSlice(of, pathOverrides...)
		for _, o := range overrides {
			have = withOverride(have, o)
		}
		if len(have) > 0 {
			return entries, fail(opRecipe, cluster.String(), unstructured.SetNestedSlice(of, have, pathOverrides...))
		}
		// Cluster API takes neither a list nor an object that is empty.
		unstructured.RemoveNestedField(of, pathOverrides...)
		if rest, _, _ := unstructured.NestedMap(of, pathOverrides[0]); len(rest) == 0 {
			delete(of, pathOverrides[0])
		}
		return entries, nil
	}
	return nil, &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: cluster.String(), Message: "its topology has no MachineDeployment " + entry + " any more"}
}

func withOverride(have []any, o override) []any {
	at := slices.IndexFunc(have, func(item any) bool {
		is, _ := item.(map[string]any)
		return spec(is).text("name") == o.Name
	})
	switch {
	case o.Value == nil && at >= 0:
		return slices.Delete(have, at, at+1)
	case o.Value == nil:
		return have
	case at >= 0:
		have[at].(map[string]any)["value"] = runtime.DeepCopyJSONValue(o.Value)
		return have
	}
	return append(have, map[string]any{"name": o.Name, "value": runtime.DeepCopyJSONValue(o.Value)})
}
