package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Where the recipes are elsewhere, an instance may be of a scale set all the same: that of a machine pool of Cluster API's. Its disk is
// captured as any other's; whose it is, and what its pool's images are called, the recipes say.

// lent is an instance as these disks tell of it.
func lent(m cloud.Instance, apart bool) cloud.Instance {
	if apart {
		m.Pool, m.BuiltFrom = "", ""
	}
	return m
}

// actionsOn are those that a capture needs on an instance, on disks and on images.
func (p *ImageProvider) actionsOn(ref instance) []string {
	if p.apart && !ref.alone() {
		return diskActions
	}
	return p.actions()
}

// InstancesOf looks at many instances: one list for each scale set, without the views that tell of power, and one look for each VM that
// stands by itself. One that is not there is left out.
func (p *ImageProvider) InstancesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	found := map[cloud.InstanceID]cloud.Instance{}
	listed := map[scaleSet]map[instance]cloud.Instance{}
	for _, id := range ids {
		ref, err := p.parse(id)
		if err != nil {
			continue
		}
		if ref.alone() {
			switch m, err := p.Instance(ctx, id); {
			case err == nil:
				found[id] = m
			case !cloud.Is(err, cloud.NotFound):
				return nil, err
			}
			continue
		}
		if listed[ref.scaleSet] == nil {
			if listed[ref.scaleSet], err = p.instancesIn(ctx, ref.scaleSet); err != nil {
				return nil, err
			}
		}
		if m, there := listed[ref.scaleSet][ref]; there {
			m.ID = id
			found[id] = lent(m, p.apart)
		}
	}
	return found, nil
}

// MaxModels is from how many images the instances of a scale set may have been built, whoever made it.
func (p *ImageProvider) MaxModels() int { return maxModels }

// instancesIn are those of a scale set. One that is not there has none.
func (p *account) instancesIn(ctx context.Context, s scaleSet) (map[instance]cloud.Instance, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	found := map[instance]cloud.Instance{}
	for pager := clients.instances.NewListPager(s.group, s.name, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if isNotFound(err) {
			return found, nil
		}
		if err != nil {
			return nil, fail("list instances of", s, err)
		}
		for _, vm := range page.Value {
			if vm != nil && value(vm.InstanceID) != "" {
				ref := instance{scaleSet: s, number: value(vm.InstanceID)}
				found[ref] = instanceOf(ref.providerID(), ref, *vm)
			}
		}
	}
	return found, nil
}
