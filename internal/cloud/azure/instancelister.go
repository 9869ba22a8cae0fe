package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Instances implements cloud.InstanceLister: one request for each page of the list, without the instance views.
// Power stays unknown: asking for the views makes Azure ask every VM, and answer in smaller pages.
func (p *PoolProvider) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	s, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	var out []cloud.Instance
	pager := clients.instances.NewListPager(s.group, s.name, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fail("list instances of", s, err)
		}
		for _, vm := range page.Value {
			if vm == nil || value(vm.InstanceID) == "" {
				continue
			}
			ref := instance{scaleSet: s, number: value(vm.InstanceID)}
			out = append(out, instanceOf(ref.providerID(), ref, *vm))
		}
	}
	return out, nil
}

// providerID is the instance's ID as the cloud controller manager writes it on the Node, but for its case.
func (i instance) providerID() cloud.InstanceID {
	return cloud.InstanceID(providerPrefix + i.id() + "/virtualMachines/" + i.number)
}

// maxModels is how many models the instances of a scale set with Uniform orchestration may refer to, the latest one
// included. Source: the error "has reached its limit of 10 models that may be referenced by one or more VMs".
const maxModels = 10

// MaxImages implements cloud.InstanceLister. Each image is a model of its own at least.
func (p *PoolProvider) MaxImages(cloud.PoolID) int { return maxModels }
