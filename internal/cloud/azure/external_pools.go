package azure

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A node of Cluster API may be in a scale set: a CAPZ machine pool. ImageProvider captures the disk as usual. The
// PoolProvider of Cluster API knows the pool and the image family.

// withoutPool returns an instance without pool and version if the PoolProvider is another package.
func withoutPool(m cloud.Instance, apart bool) cloud.Instance {
	if apart {
		m.Pool, m.BuiltFrom = "", ""
	}
	return m
}

// actionsOn returns the actions of a capture on an instance, disks and images. The workshop of another package's pool is a standalone VM,
// also that of a machine pool.
func (p *ImageProvider) actionsOn(ref instance, copies bool) []string {
	feature, further := cloud.ForInPlace, ref.isStandalone()
	if copies {
		feature, further = cloud.ForCopy, p.externalPools
	}
	all := diskActions("", ref.isStandalone())
	for _, action := range slices.Concat(diskActions("", further), diskActions(feature, further)) {
		if !slices.Contains(all, action) {
			all = append(all, action)
		}
	}
	return all
}

// InstancesOf reads many instances: a list per scale set without instance views, and a request per standalone VM. Missing
// instances are left out.
func (p *ImageProvider) InstancesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	found := map[cloud.InstanceID]cloud.Instance{}
	listed := map[scaleSet]map[instance]cloud.Instance{}
	for _, id := range ids {
		ref, err := p.parse(id)
		if err != nil {
			continue
		}
		if ref.isStandalone() {
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
			found[id] = withoutPool(m, p.externalPools)
		}
	}
	return found, nil
}

// MaxModels returns the largest number of models that instances of a scale set may have.
func (p *ImageProvider) MaxModels() int { return maxModels }

// instancesIn returns the instances of a scale set; none if the scale set is missing.
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
