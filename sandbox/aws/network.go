package aws

import (
	"slices"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// network is a VPC that a client made. Default is the VPC that is always there.
type network struct {
	resource
	Block   string `json:"block"`
	Default bool   `json:"default,omitempty"`
}

// subnet is a subnet that a client made.
type subnet struct {
	resource
	Zone    string `json:"zone"`
	Network string `json:"network"`
}

// networks are VPCs and subnets besides those of the configuration.
type networks struct{ *backend }

func (s networks) actions() []*action {
	return []*action{
		{name: "CreateVpc", noun: "zone", handle: s.create},
		{name: "DeleteVpc", noun: "zone", handle: s.delete},
		{name: "CreateSubnet", noun: "zone", handle: s.createSubnet},
		{name: "DeleteSubnet", noun: "zone", handle: s.deleteSubnet},
	}
}

// subnets are all subnets: those of the configuration, then those that clients made.
func (w *backend) subnets(st *state) []Subnet {
	out := slices.Clone(w.config.Subnets)
	for _, n := range sorted(st.Subnets) {
		out = append(out, Subnet{ID: n.ID, Zone: n.Zone, Tags: n.Tags})
	}
	return out
}

// networkOf is the VPC of a subnet.
func (st *state) networkOf(id string) string {
	if n := st.Subnets[id]; n != nil {
		return n.Network
	}
	return VPC
}

func (s networks) create(c *call, st *state) (query.Element, error) {
	n := &network{resource: s.fresh(st, "vpc"), Block: c.in.Get("CidrBlock")}
	if n.Block == "" {
		return query.Element{}, missing("cidrBlock")
	}
	var p *problem
	if n.Tags, p = tagsOnly(c.in, "vpc"); p != nil {
		return query.Element{}, p
	}
	st.Networks[n.ID] = n
	return query.Of("", s.network("vpc", n)), nil
}

// delete refuses while the VPC has subnets.
func (s networks) delete(c *call, st *state) (query.Element, error) {
	id := c.in.Get("VpcId")
	n := st.Networks[id]
	if n == nil || !s.sees(n) {
		return query.Element{}, notFoundByID(id)
	}
	for _, one := range st.Subnets {
		if one.Network == id {
			return query.Element{}, bad("DependencyViolation", "The vpc '%s' has dependencies and cannot be deleted.", id)
		}
	}
	delete(st.Networks, id)
	return done(), nil
}

func (s networks) createSubnet(c *call, st *state) (query.Element, error) {
	in, zone := c.in.Get("VpcId"), c.in.Get("AvailabilityZone")
	if n := st.Networks[in]; n == nil || !s.sees(n) {
		return query.Element{}, notFoundByID(in)
	}
	if c.in.Get("CidrBlock") == "" {
		return query.Element{}, missing("cidrBlock")
	}
	if !slices.ContainsFunc(s.config.Subnets, func(n Subnet) bool { return n.Zone == zone }) {
		return query.Element{}, bad("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid. Subnets can only be created in the zones of %s.",
			zone, s.config.Region)
	}
	n := &subnet{resource: s.fresh(st, "subnet"), Zone: zone, Network: in}
	var p *problem
	if n.Tags, p = tagsOnly(c.in, "subnet"); p != nil {
		return query.Element{}, p
	}
	st.Subnets[n.ID] = n
	return query.Of("", query.Of("subnet", query.Text("subnetId", n.ID), query.Text("state", "available"), query.Text("vpcId", in),
		query.Text("availabilityZone", zone), query.Text("ownerId", s.config.Account), tagSet(n.Tags))), nil
}

// deleteSubnet refuses while an instance has its network interface in the subnet.
func (s networks) deleteSubnet(c *call, st *state) (query.Element, error) {
	id := c.in.Get("SubnetId")
	n := st.Subnets[id]
	if n == nil || !s.sees(n) {
		return query.Element{}, notFoundByID(id)
	}
	for _, i := range st.Instances {
		if i.Subnet == id && i.State != terminated {
			return query.Element{}, bad("DependencyViolation", "The subnet '%s' has dependencies and cannot be deleted.", id)
		}
	}
	delete(st.Subnets, id)
	return done(), nil
}
