package capi

import (
	"context"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// sameID is how an instance's ID is compared: Azure's are the same in any case.
func sameID(id cloud.InstanceID) cloud.InstanceID {
	if text := strings.ToLower(string(id)); strings.HasPrefix(text, "azure://") {
		return cloud.InstanceID(text)
	}
	return id
}

// PoolsOf implements cloud.PoolProvider, in two lists for any number of nodes. A node is known by its instance, which only its own Machine
// names: what its annotations say of it the kubelet of any node could write.
func (r *PoolProvider) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	machines, sets, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	of := make(map[cloud.InstanceID]object, len(machines))
	for _, m := range machines {
		if id := m.providerID(); id != "" {
			of[sameID(id)] = m
		}
	}
	var away string // why what is missing may be elsewhere
	if slices.ContainsFunc(nodes, func(n cloud.NodeValues) bool { return of[sameID(n.ProviderID)].Unstructured == nil }) {
		cluster, err := r.theCluster(cloud.WithoutReadCache(ctx), "find the pools of nodes in")
		if err != nil {
			return nil, err
		}
		if cluster.paused() {
			away = cluster.String() + " is paused, as while it is moved to another management cluster, and "
		}
	}
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		found[i].ByMachine = true
		m, known := of[sameID(node.ProviderID)]
		if !known {
			found[i].Why = away + "no Machine of Cluster " + r.cluster.String() + " has this node's spec.providerID: only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
			continue
		}
		pool, why := ownerOf(m, sets)
		if found[i].Why = why; why == "" {
			found[i].Pool = pool.pool()
		}
	}
	return found, nil
}

// all are the Cluster's Machines and MachineSets.
func (r *world) all(ctx context.Context) (machines, sets []object, err error) {
	if machines, err = r.kube.list(ctx, core(kindMachine), r.ofCluster()); err != nil {
		return nil, nil, err
	}
	sets, err = r.kube.list(ctx, core(kindSet), r.ofCluster())
	return machines, sets, err
}

// machineOf is the Machine of an instance. One that was seen before is read alone. NotFound if there is none.
func (r *world) machineOf(ctx context.Context, op string, id cloud.InstanceID) (object, error) {
	key := sameID(id)
	r.mu.Lock()
	name := r.machines[key]
	r.mu.Unlock()
	if name != "" {
		m, err := r.kube.get(ctx, core(kindMachine), name)
		if err == nil && sameID(m.providerID()) == key || err != nil && !cloud.Is(err, cloud.NotFound) {
			return m, err
		}
	}
	machines, err := r.kube.list(ctx, core(kindMachine), r.ofCluster())
	if err != nil {
		return object{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.machines)
	for _, m := range machines {
		if id := m.providerID(); id != "" {
			r.machines[sameID(id)] = m.GetName()
		}
	}
	for _, m := range machines {
		if m.providerID() != "" && sameID(m.providerID()) == key {
			return m, nil
		}
	}
	return object{}, r.believed(ctx, op, &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: string(id), Message: "no Machine of Cluster " + r.cluster.String() + " has this provider ID"})
}

// PoolsInScope implements cloud.PoolFinder: all MachineDeployments and MachinePools of the Cluster, and the MachineSets that nobody owns.
func (r *PoolProvider) PoolsInScope(ctx context.Context, _ ...cloud.PoolID) ([]cloud.PoolID, error) {
	made, err := r.kube.list(ctx, core(kindDeployment), r.ofCluster())
	if err != nil {
		return nil, err
	}
	sets, err := r.kube.list(ctx, core(kindSet), r.ofCluster())
	if err != nil {
		return nil, err
	}
	pools, err := r.machinePoolsOf(ctx)
	if err != nil {
		return nil, err
	}
	var found []cloud.PoolID
	for _, o := range pools {
		found = append(found, ref{o.GetNamespace(), machinePools, o.GetName()}.pool())
	}
	for _, o := range made {
		found = append(found, ref{o.GetNamespace(), deployments, o.GetName()}.pool())
	}
	for _, o := range sets {
		if o.controller() == nil {
			found = append(found, poolOfSet(o).pool())
		}
	}
	return found, nil
}

// ReadPool implements cloud.PoolFinder.
func (r *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	of, err := parsePool(cloud.PoolID(text))
	return of.pool(), err == nil
}

// Instances implements cloud.InstanceLister: the pool's Machines that have an instance, each with the image that was asked for. Versions are
// retired by what it counts, so that none may be missing.
func (r *PoolProvider) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	v, err := r.view(ctx, id)
	if err != nil {
		return nil, err
	}
	machines, sets, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	machines = slices.DeleteFunc(machines, func(m object) bool {
		pool, why := ownerOf(m, sets)
		return why != "" || pool != v.ref || m.providerID() == ""
	})
	const op = "count the instances of"
	if v.resource == machinePools {
		found, err := r.instancesOfPool(ctx, v, machines)
		if err != nil {
			return nil, err
		}
		return found, r.atHome(ctx, op)
	}
	images, err := r.imagesOf(ctx, v)
	if err != nil {
		return nil, err
	}
	var found []cloud.Instance
	for _, m := range machines {
		found = append(found, cloud.Instance{
			ID: m.providerID(), Pool: v.ref.pool(), Image: images[m.reference(pathMachineInfrastructure...).name],
			CreatedAt: m.GetCreationTimestamp().Time, Removing: m.deleting(),
		})
	}
	return found, r.atHome(ctx, op)
}

// imagesOf are the images that the infrastructure of a pool's kind was asked for, by its objects' names, as recipes write them.
func (r *world) imagesOf(ctx context.Context, v view) (map[string]string, error) {
	if !v.known {
		return nil, nil
	}
	kind := v.named.GroupKind
	kind.Kind = v.of.machine
	made, err := r.kube.list(ctx, kind, r.ofCluster())
	if err != nil {
		return nil, err
	}
	images, texts := make(map[string]string, len(made)), map[string]string{}
	for _, m := range made {
		native := v.of.image(specOf(m, "spec"))
		text, known := texts[native]
		if !known && native != "" {
			if text, err = r.images.ImageText(ctx, v.at.place, native); err != nil {
				return nil, err
			}
			texts[native] = text
		}
		images[m.GetName()] = text
	}
	return images, nil
}

// MaxImages implements cloud.InstanceLister. Machines of other pools stand by themselves, each with an image of its own.
func (r *PoolProvider) MaxImages(id cloud.PoolID) int {
	teller, able := r.images.(Teller)
	if of, err := parsePool(id); err != nil || of.resource != machinePools || !able {
		return 0
	}
	return teller.MaxModels()
}
