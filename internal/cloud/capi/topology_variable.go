package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// override is the value of a variable for a single MachineDeployment in a Cluster's topology; Value is nil without an
// override.
type override struct {
	Name  string `json:"name"`
	Value any    `json:"value,omitempty"`
}

// Paths of the overrides in a topology entry, and of the entries in a Cluster.
var (
	pathOverrides = []string{"variables", "overrides"}
	pathEntries   = []string{"spec", "topology", "workers", "machineDeployments"}
)

// overrideOf returns the override of a variable in an entry.
func overrideOf(entry spec, name string) override {
	return override{name, find(specsIn(entry, pathOverrides...), "name", name)["value"]}
}

// valueOf returns the value of a variable for an entry: override, else the Cluster's value, else the class's default.
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

// fieldOf returns a field of a value, or the whole value; false if missing.
func fieldOf(value any, field []string) (any, bool) {
	if len(field) == 0 {
		return value, value != nil
	}
	inner, _ := value.(map[string]any)
	found, there, err := unstructured.NestedFieldNoCopy(inner, field...)
	return found, there && err == nil && found != nil
}

// machineBy returns a machine's spec with the values of the image variables. A variable without a value is an error.
func machineBy(machine spec, holders []imageVariable, valueOf func(name string) any) (spec, error) {
	made := spec(runtime.DeepCopyJSON(machine))
	if made == nil {
		made = spec{}
	}
	for _, h := range holders {
		value, there := fieldOf(valueOf(h.variable), h.field)
		if !there {
			return nil, fmt.Errorf("variable %s has no value", h)
		}
		if err := unstructured.SetNestedField(made, runtime.DeepCopyJSONValue(value), h.at...); err != nil {
			return nil, fmt.Errorf("variable %s cannot be written to the template: %w", h, err)
		}
	}
	return made, nil
}

func (h imageVariable) String() string {
	return strings.Join(append([]string{h.variable}, h.field...), ".")
}

// overridesFor returns the overrides that set the image. Other fields of a variable stay. overridesFor returns an error
// if the variables do not cover every changed field.
func overridesFor(of infrastructure, machine spec, holders []imageVariable, valueOf func(name string) any, native string) ([]override, error) {
	want := spec(runtime.DeepCopyJSON(machine))
	if err := of.setImage(want, native); err != nil {
		return nil, err
	}
	var all []override
	at := func(name string) int { return slices.IndexFunc(all, func(o override) bool { return o.Name == name }) }
	for _, h := range holders {
		value, there, err := unstructured.NestedFieldCopy(want, h.at...)
		if err != nil || !there {
			return nil, fmt.Errorf("the image has no %s, but variable %s holds the field", strings.Join(h.at, "."), h)
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
			return nil, fmt.Errorf("variable %s cannot be set: %w", h, err)
		}
		o.Value = whole
	}
	set, err := machineBy(machine, holders, func(name string) any { return all[at(name)].Value })
	if err == nil && of.image(set) != native {
		err = fmt.Errorf("the variables hold only a part of the image: the result would be %s", of.image(set))
	}
	return all, err
}

// withOverrides returns the entries of a Cluster's topology with the overrides in the named entry. An override without a
// value is removed.
func withOverrides(cluster object, entry string, overrides []override) ([]any, error) {
	entries, _, err := unstructured.NestedSlice(cluster.Object, pathEntries...) // a copy
	if err != nil {
		return nil, apiserver.Fail(opRecipe, cluster.String(), err)
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
			return entries, apiserver.Fail(opRecipe, cluster.String(), unstructured.SetNestedSlice(of, have, pathOverrides...))
		}
		// Cluster API refuses empty lists and objects.
		unstructured.RemoveNestedField(of, pathOverrides...)
		if rest, _, _ := unstructured.NestedMap(of, pathOverrides[0]); len(rest) == 0 {
			delete(of, pathOverrides[0])
		}
		return entries, nil
	}
	return nil, &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: cluster.String(), Message: "the topology no longer has MachineDeployment " + entry}
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
