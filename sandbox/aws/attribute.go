package aws

import (
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// attributes reads and changes single attributes of an instance.
type attributes struct {
	*backend
	instances instances
}

func (s attributes) actions() []*action {
	return []*action{
		{name: "DescribeInstanceAttribute", noun: "instance", reads: true, handle: s.describe},
		{name: "ModifyInstanceAttribute", noun: "instance", handle: s.modify},
		{name: "ModifyInstanceMetadataOptions", noun: "instance", handle: s.metadata},
		{name: "GetInstanceUefiData", noun: "instance", reads: true, handle: s.uefi},
	}
}

// metadata changes the metadata options of an instance.
func (s attributes) metadata(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	i.Data = i.Data.Over(
		&query.Value{Parts: map[string]*query.Value{"MetadataOptions": i.Data.At("MetadataOptions").Over(c.in.Rest("InstanceId", "DryRun",
			"Action", "Version"))}})
	e := metadataElement(i)
	e.Name = "instanceMetadataOptions"
	return query.Of("", query.Text("instanceId", i.ID), e), nil
}

// uefi returns the UEFI variables of an instance.
func (s attributes) uefi(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	switch {
	case p != nil:
		return query.Element{}, p
	case bootedWith(i.BootMode) != "uefi":
		return query.Element{}, bad("UnsupportedOperation", "The instance '%s' did not boot with UEFI.", i.ID)
	case i.State == terminated:
		return query.Element{}, noInstance(i.ID)
	}
	return query.Of("", query.Text("instanceId", i.ID), query.Text("uefiData", i.Uefi)), nil
}

func (s attributes) describe(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	name := c.in.Get("Attribute")
	var value query.Element
	boolean := func(b bool) query.Element { return query.Of(name, query.Text("value", strconv.FormatBool(b))) }
	switch name {
	case "instanceInitiatedShutdownBehavior":
		value = query.Of(name, query.Text("value", i.Shutdown))
	case "disableApiStop":
		value = boolean(i.KeepOn)
	case "disableApiTermination":
		value = boolean(i.KeepAlive)
	case "userData":
		value = query.Of(name, query.Text("value", i.Data.Get("UserData")))
	case "instanceType":
		value = query.Of(name, query.Text("value", i.Type))
	case "rootDeviceName":
		value = query.Of(name, query.Text("value", i.RootDevice))
	case "enaSupport":
		value = boolean(true)
	case "sriovNetSupport":
		value = query.Of(name, query.Text("value", "simple"))
	case "ebsOptimized":
		value = boolean(i.Data.True("EbsOptimized"))
	case "blockDeviceMapping":
		value = s.instances.devices(st, i)
	case "groupSet":
		value = securityGroups(i)
	default:
		return query.Element{}, bad("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return query.Of("", query.Text("instanceId", i.ID), value), nil
}

func (s attributes) modify(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	// Both forms are of the API: "Attribute" with "Value", or the attribute's own name.
	given := func(own, name string) (string, bool) {
		if c.in.Get("Attribute") == name {
			return c.in.Get("Value"), true
		}
		return c.in.Get(own + ".Value"), c.in.Has(own + ".Value")
	}
	if v, there := given("InstanceInitiatedShutdownBehavior", "instanceInitiatedShutdownBehavior"); there {
		if v != "stop" && v != "terminate" {
			return query.Element{}, bad("InvalidParameterValue", "Value (%s) for parameter instanceInitiatedShutdownBehavior is invalid.", v)
		}
		i.Shutdown = v
	}
	if v, there := given("DisableApiStop", "disableApiStop"); there {
		i.KeepOn = v == "true"
	}
	if v, there := given("DisableApiTermination", "disableApiTermination"); there {
		i.KeepAlive = v == "true"
	}
	kind, kindGiven := given("InstanceType", "instanceType")
	user, userGiven := given("UserData", "userData")
	if (kindGiven || userGiven) && i.State != stopped {
		return query.Element{}, bad("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.ID)
	}
	if kindGiven {
		i.Type = kind
	}
	if userGiven {
		i.Data = i.Data.Over(&query.Value{Parts: map[string]*query.Value{"UserData": {Text: user}}})
	}
	return done(), nil
}
