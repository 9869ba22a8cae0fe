package aws

import (
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// nested are parameters with parts that groups keep and return as written.
var nested = []string{"InstanceMaintenancePolicy", "AvailabilityZoneDistribution"}

// nestedIn returns the nested parameters of a group after a request. A percentage of -1 clears the policy.
func nestedIn(in *query.Value, before map[string]*query.Value) map[string]*query.Value {
	out := maps.Clone(before)
	for _, name := range nested {
		switch {
		case !in.Has(name):
		case in.Get(name+".MinHealthyPercentage") == "-1":
			_ = in.At(name).Copy() // all its parts are read
			delete(out, name)
		default:
			if out == nil {
				out = map[string]*query.Value{}
			}
			out[name] = in.At(name).Copy()
		}
	}
	return out
}

func nestedElements(values map[string]*query.Value) (all []query.Element) {
	for _, name := range nested {
		if v := values[name]; v != nil {
			all = append(all, asWritten(name, v))
		}
	}
	return all
}

// withoutInstances is a group for a request with IncludeInstances=false.
func withoutInstances(e query.Element) query.Element {
	e.Kids = slices.DeleteFunc(e.Kids, func(kid query.Element) bool { return kid.Name == "Instances" })
	return e
}

// asWritten returns a value with its written names, as Auto Scaling does.
func asWritten(name string, v *query.Value) query.Element {
	if v == nil || len(v.Parts) == 0 {
		return leaf(name, v)
	}
	e := query.Element{Name: name}
	if v.IsList() {
		for _, one := range (&query.Value{Parts: map[string]*query.Value{"all": v}}).List("all") {
			e.Kids = append(e.Kids, asWritten("member", one))
		}
		return e
	}
	for _, part := range v.Names() {
		e.Kids = append(e.Kids, asWritten(part, v.Parts[part]))
	}
	return e
}
