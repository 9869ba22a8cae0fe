package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Instances implements cloud.PoolProvider with a request per page, without instance views. Power stays unknown: with
// views Azure asks every VM and returns smaller pages.
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

// providerID returns the instance's ID as on the Node, apart from case.
func (i instance) providerID() cloud.InstanceID {
	if i.isStandalone() {
		return cloud.InstanceID(providerPrefix + i.scope() + "/providers/Microsoft.Compute/virtualMachines/" + i.number)
	}
	return cloud.InstanceID(providerPrefix + i.id() + "/virtualMachines/" + i.number)
}

// maxModels is the largest number of models of a Uniform scale set's instances, including the latest model. Source: the
// error "has reached its limit of 10 models that may be referenced by one or more VMs".
const maxModels = 10

// MaxImages implements cloud.PoolProvider. Every image needs at least a model.
func (p *PoolProvider) MaxImages(cloud.PoolID) int { return maxModels }
