package aws

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// fleets are requests for instances of one of several types and subnets. Of the types of fleets there is "instant", which is complete at
// once and which Karpenter uses.
type fleets struct {
	*backend
	runs runs
}

func (s fleets) actions() []*action {
	return []*action{{name: "CreateFleet", noun: "instance", handle: s.create}}
}

// candidate is an override with its launch template.
type candidate struct {
	order
	override *query.Value
	priority float64
}

// create makes all instances of a fleet from the first candidate that can be launched, by priority and else in order. The prices of the
// simulation are equal, so every strategy has the same result.
func (s fleets) create(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	count, err := strconv.Atoi(c.in.Get("TargetCapacitySpecification.TotalTargetCapacity"))
	switch {
	case c.in.Get("Type") != "instant":
		return query.Element{}, bad("InvalidParameterValue", "The simulation has fleets of the type instant only, not %q", c.in.Get("Type"))
	case err != nil || count < 1:
		return query.Element{}, bad("InvalidParameterValue", "Value for parameter TotalTargetCapacity is invalid")
	}
	_, _ = c.in.Get("OnDemandOptions.AllocationStrategy"), c.in.Get("SpotOptions.AllocationStrategy")
	isSpot := c.in.Get("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot"
	all, p := s.candidates(c, st, isSpot)
	if p != nil {
		return query.Element{}, p
	}
	lifecycle := map[bool]string{true: "spot", false: "on-demand"}[isSpot]
	chosen, failed := slices.IndexFunc(all, func(o candidate) bool { return s.runs.check(st, o.order) == nil }), []query.Element(nil)
	for _, o := range all {
		if p := s.runs.check(st, o.order); p != nil {
			failed = append(failed, query.Of("", o.element(), query.Text("lifecycle", lifecycle), query.Text("errorCode", p.Code), query.Text("errorMessage", p.Text)))
		}
	}
	answer := []query.Element{query.Text("fleetId", newUUID()), query.List("errorSet", "item", failed, func(e query.Element) query.Element { return e })}
	if chosen < 0 {
		return query.Of("", answer...), nil
	}
	if len(made) == 0 {
		reservation := newID("r")
		for index := range count {
			made = append(made, s.runs.make(st, all[chosen].order, reservation, index).ID)
		}
		st.remember(c, made...)
	}
	return query.Of("", append(answer, query.List("fleetInstanceSet", "item", all[chosen:chosen+1], func(o candidate) query.Element {
		return query.Of("", o.element(), query.Text("lifecycle", lifecycle), query.Text("instanceType", o.data.Get("InstanceType")),
			query.Texts("instanceIds", "item", made))
	}))...), nil
}

// candidates reads the overrides of a request, by priority.
func (s fleets) candidates(c *call, st *state, isSpot bool) (all []candidate, _ *problem) {
	tags, p := tagsFor(c.in, "instance")
	if p != nil {
		return nil, p
	}
	for _, config := range c.in.List("LaunchTemplateConfigs") {
		of := config.At("LaunchTemplateSpecification")
		t, p := st.template(of.Get("LaunchTemplateId"), of.Get("LaunchTemplateName"))
		if p != nil {
			return nil, p
		}
		v, p := t.version(of.Get("Version"))
		if p != nil {
			return nil, p
		}
		for _, override := range config.List("Overrides") {
			o := candidate{order: order{data: v.Data.Over(override.Rest("Priority", "AvailabilityZone", "SubnetId")), template: t, version: v.Number,
				subnet: override.Get("SubnetId"), spot: isSpot, fails: c.fails(), tags: map[string]string{}}, override: override}
			o.priority, _ = strconv.ParseFloat(override.Get("Priority"), 64) // none is the first
			if p := s.runs.tag(&o.order); p != nil {
				return nil, p
			}
			maps.Copy(o.tags, tags)
			if zone := override.Get("AvailabilityZone"); zone != "" && s.zoneOf(o.subnet) != zone {
				return nil, bad("InvalidParameterCombination", "The subnet %s is not in the Availability Zone %s", o.subnet, zone)
			}
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil, missing("LaunchTemplateConfigs")
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.priority, b.priority) })
	return all, nil
}

// zoneOf returns the zone of a subnet.
func (w *backend) zoneOf(subnet string) string {
	for _, n := range w.config.Subnets {
		if n.ID == subnet {
			return n.Zone
		}
	}
	return ""
}

// element is the launch template and the override of a candidate in an answer.
func (o candidate) element() query.Element {
	return query.Of("launchTemplateAndOverrides",
		query.Of("launchTemplateSpecification", query.Text("launchTemplateId", o.template.ID), query.Text("launchTemplateName", o.template.Name),
			query.Text("version", strconv.FormatInt(o.version, 10))),
		query.Of("overrides", query.Text("instanceType", o.override.Get("InstanceType")), query.Text("subnetId", o.subnet),
			query.Text("availabilityZone", o.override.Get("AvailabilityZone")), query.Text("imageId", o.override.Get("ImageId"))))
}
