package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Where the recipes are elsewhere, an instance may be of a scale set all the same: that of a machine pool of Cluster API's. Its disk is
// captured as any other's; whose it is, and what its pool's images are called, the recipes say.

// lent is an instance as these disks tell of it.
func (p *Disks) lent(m cloud.Instance) cloud.Instance {
	if p.apart {
		m.Pool, m.BuiltFrom = "", ""
	}
	return m
}

// actionsOn are those that a capture needs on an instance, on disks and on images.
func (p *Disks) actionsOn(ref instance) []string {
	if p.apart && !ref.alone() {
		return diskActions
	}
	return p.actions()
}

// ImagesOf tells what instances are built from, one list for each scale set, and one look for each VM that stands by itself.
func (p *Disks) ImagesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]string, error) {
	images := map[cloud.InstanceID]string{}
	listed := map[scaleSet]map[instance]string{}
	for _, id := range ids {
		ref, err := p.parse(id)
		if err != nil {
			continue
		}
		if ref.alone() {
			vm, err := p.vm(ctx, ref)
			if err != nil && !cloud.Is(err, cloud.NotFound) {
				return nil, err
			}
			images[id] = instanceOf(id, ref, vm).Image
			continue
		}
		if listed[ref.scaleSet] == nil {
			if listed[ref.scaleSet], err = p.imagesIn(ctx, ref.scaleSet); err != nil {
				return nil, err
			}
		}
		images[id] = listed[ref.scaleSet][ref]
	}
	return images, nil
}

// imagesIn are those of a scale set's instances. One that is not there has none.
func (p *account) imagesIn(ctx context.Context, s scaleSet) (map[instance]string, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	images := map[instance]string{}
	for pager := clients.instances.NewListPager(s.group, s.name, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if isNotFound(err) {
			return images, nil
		}
		if err != nil {
			return nil, fail("list instances of", s, err)
		}
		for _, vm := range page.Value {
			if vm != nil && value(vm.InstanceID) != "" {
				ref := instance{scaleSet: s, number: value(vm.InstanceID)}
				images[ref] = instanceOf(ref.providerID(), ref, *vm).Image
			}
		}
	}
	return images, nil
}
