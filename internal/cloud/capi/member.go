package capi

import (
	"context"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// sameID returns an instance's ID for comparisons, because Azure ignores case.
func sameID(id cloud.InstanceID) cloud.InstanceID {
	if text := strings.ToLower(string(id)); strings.HasPrefix(text, "azure://") {
		return cloud.InstanceID(text)
	}
	return id
}

// PoolsOf implements cloud.PoolProvider with two lists for any number of nodes. The provider ID of a Machine identifies
// the node. Node annotations are not used, because a kubelet can write false annotations.
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
	var away string // why a missing Machine may be elsewhere
	var pools []object
	if slices.ContainsFunc(nodes, func(n cloud.NodeValues) bool { return of[sameID(n.ProviderID)].Unstructured == nil }) {
		cluster, err := r.readCluster(cloud.WithoutReadCache(ctx), "find the pools of the nodes of")
		if err != nil {
			return nil, err
		}
		if cluster.paused() {
			away = cluster.String() + " is paused, perhaps for a move to another management cluster, and "
		}
		if slices.ContainsFunc(nodes, func(n cloud.NodeValues) bool { return n.Annotations[cloud.MachineOwnerKindAnnotation] == kindPool }) {
			if pools, err = r.machinePoolsOf(ctx); err != nil {
				return nil, err
			}
		}
	}
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		found[i].ByMachine = true
		m, known := of[sameID(node.ProviderID)]
		if !known {
			found[i].Why = away + "no Machine of Cluster " + r.cluster.String() + " has the node's spec.providerID: " + whyNoMachine(node, pools)
			continue
		}
		pool, why := ownerOf(m, sets)
		if found[i].Why = why; why == "" {
			found[i].Pool = pool.pool()
		}
	}
	return found, nil
}

// whyNoMachine says why a node has no Machine. The node's annotations choose only the sentence: a kubelet can write false
// ones.
func whyNoMachine(node cloud.NodeValues, pools []object) string {
	for _, pool := range pools {
		if node.Annotations[cloud.MachineOwnerKindAnnotation] == kindPool && node.Annotations[cloud.MachineOwnerNameAnnotation] == pool.GetName() {
			return pool.String() + " has no Machines for its instances (" + cloud.PoolUnsupported +
				"): start the infrastructure provider with " + gatesOfMachinePools
		}
	}
	return "only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
}

// all lists the Cluster's Machines and MachineSets.
func (r *clusterAccess) all(ctx context.Context) (machines, sets []object, err error) {
	if machines, err = r.kube.list(ctx, core(kindMachine), r.ofCluster()); err != nil {
		return nil, nil, err
	}
	sets, err = r.kube.list(ctx, core(kindSet), r.ofCluster())
	return machines, sets, err
}

// machineOf returns the Machine of an instance; NotFound if there is none. A known Machine costs a single read.
func (r *clusterAccess) machineOf(ctx context.Context, op string, id cloud.InstanceID) (object, error) {
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
	return object{}, r.confirmMissing(ctx, op,
		&cloud.Error{Kind: cloud.NotFound, Op: op, Resource: string(id), Message: "no Machine of Cluster " + r.cluster.String() + " has the provider ID"})
}

// PoolsInScope implements cloud.PoolProvider and returns MachineDeployments, MachinePools, and MachineSets without an
// owner.
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

// ReadPool implements cloud.PoolProvider.
func (r *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	of, err := parsePool(cloud.PoolID(text))
	return of.pool(), err == nil
}

// Instances implements cloud.PoolProvider: the pool's Machines with an instance, and the requested images. The
// retention of versions needs a complete list.
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
		return found, r.requireNotMoved(ctx, op)
	}
	built, err := r.infrastructureMachines(ctx, v)
	if err != nil {
		return nil, err
	}
	var found []cloud.Instance
	for _, m := range machines {
		from := built[m.reference(pathMachineInfrastructure...).name]
		found = append(found, cloud.Instance{
			ID: m.providerID(), Pool: v.ref.pool(), Image: from.image, Type: from.instanceType, Recipe: setOf(m, sets).configuration(),
			CreatedAt: m.GetCreationTimestamp().Time, Removing: m.deleting() || from.ended,
		})
	}
	return found, r.requireNotMoved(ctx, op)
}

// infrastructureMachine is what a machine's object of the infrastructure provider says.
type infrastructureMachine struct {
	image, instanceType string // the image in the form of recipes
	// ended: the provider has seen that the instance ends or is gone. The Machine stays, for example after a spot interruption.
	ended bool
}

// infrastructureMachines returns the infrastructure objects of a pool's kind, by object name.
func (r *clusterAccess) infrastructureMachines(ctx context.Context, v poolView) (map[string]infrastructureMachine, error) {
	if !v.known {
		return nil, nil
	}
	kind := v.named.GroupKind
	kind.Kind = v.of.machine
	made, err := r.kube.list(ctx, kind, r.ofCluster())
	if err != nil {
		return nil, err
	}
	machines, texts := make(map[string]infrastructureMachine, len(made)), map[string]string{}
	for _, m := range made {
		native := v.of.image(specOf(m, "spec"))
		text, known := texts[native]
		if !known && native != "" {
			if text, err = r.images.ImageText(ctx, v.at.place, native); err != nil {
				return nil, err
			}
			texts[native] = text
		}
		machines[m.GetName()] = infrastructureMachine{text, specOf(m, "spec").text(v.of.instanceType), v.of.ended(specOf(m, "status"))}
	}
	return machines, nil
}

// MaxImages implements cloud.PoolProvider. Machines outside MachinePools are independent and have no limit.
func (r *PoolProvider) MaxImages(id cloud.PoolID) int {
	if of, err := parsePool(id); err != nil || of.resource != machinePools {
		return 0
	}
	return r.images.MaxModels()
}
