package capi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A pool of a topology is a MachineDeployment that Cluster API's topology controller makes from a ClusterClass and from what the Cluster
// says, and writes again whenever it says something else: its reference to a template, and with that the template itself. What is written
// to the pool would be undone. Its image is a variable's value, and the write is an override of that variable for this MachineDeployment
// alone, in the Cluster; the template follows, made by the topology controller.
//
// So there is a while in which the Cluster asks for an image that no template names yet. The recipe is what the Cluster asks for, because
// that is what was decided and will be. A change counts as done only once the pool's template names the image as well, SetRecipe waits for
// that, and nothing grows in between: a machine would be of the image from before. A trial is of the image that it is given at any time.

const (
	kindClass       = "ClusterClass"
	resourceClasses = "clusterclasses"
)

// labelEntry on a MachineDeployment is the name of its entry in the Cluster's topology.
const labelEntry = "topology.cluster.x-k8s.io/deployment-name"

// topology is what a Cluster and its ClusterClass say of a MachineDeployment that is made from them.
type topology struct {
	cluster object
	// entry of the MachineDeployment in the Cluster's topology, and of its class in the ClusterClass; none if there is none.
	entry, of spec
	class     object
	// holders of the image; none if refused.
	holders []holder
	// refused says why no variable that Kamino could set holds the image; nil if one does.
	refused *cloud.Refusal
	// carried is the image that the pool's template names, and asked the one that it will name, as the cloud does.
	carried, asked string
}

// topologyOf reads what a pool is made from, all but its template; nil if it is made from no topology.
func (r *world) topologyOf(ctx context.Context, cluster, pool object) (*topology, error) {
	if !hasLabel(pool, labelTopology) {
		return nil, nil
	}
	t := &topology{cluster: cluster, entry: entryOf(cluster, pool)}
	namespace, name := classOf(cluster)
	if pool.GetKind() != kindDeployment || t.entry == nil || name == "" {
		t.refuse(reasonTopology, fmt.Sprintf("%s is made from a topology, and that of %s has no such MachineDeployment", pool, cluster), "leave it out, or take its label away if it is made from none")
		return t, nil
	}
	var err error
	t.class, err = r.kube.getIn(ctx, namespace, core(kindClass), name)
	switch {
	case cloud.Is(err, cloud.NotFound):
		t.refuse(reasonTopology, fmt.Sprintf("%s is made from %s %s/%s, which does not exist", cluster, kindClass, namespace, name), "make it again")
	case cloud.Is(err, cloud.Denied):
		t.refuse(cloud.PermissionMissing, fmt.Sprintf("the account in the management cluster may not get clusterclasses.%s in namespace %s, and %s is made from %s there", coreGroup, namespace, cluster, name),
			remedyClass(namespace, r.cluster.Namespace))
	case err != nil:
		return nil, err
	default:
		t.of = find(workers(t.class, "spec"), "class", t.entry.text("class"))
	}
	return t, nil
}

// entryOf is the entry of a MachineDeployment in the Cluster's topology; none if there is none.
func entryOf(cluster, pool object) spec {
	return find(workers(cluster, "spec", "topology"), "name", pool.GetLabels()[labelEntry])
}

// remedyClass is how the account gets to read a ClusterClass.
func remedyClass(namespace, own string) string {
	if namespace == own {
		return giveRights
	}
	return "give it a Role in that namespace by which it may get clusterclasses: the one that `kamino manifests --management` prints is for namespace " + own
}

func (t *topology) refuse(reason, obstacle, remedy string) {
	refused := cloud.Refuse(reason, obstacle, remedy)
	t.refused, t.holders = &refused, nil
}

// anyVersion is one that a pool could have.
const anyVersion = "2026.01.01"

// read tells which variables hold the image of the pool's machines, and which image they ask for. The would-be image is any that a
// version could have.
func (t *topology) read(of infrastructure, machine spec, wouldBe string) {
	t.carried = of.image(machine)
	if t.asked = t.carried; t.refused != nil {
		return
	}
	no := func(why, need string) {
		t.refuse(reasonTopology, fmt.Sprintf("no variable of %s holds the image of %s as far as can be told: %s", t.class, t.entry.text("name"), why), need)
	}
	if t.of == nil {
		no("it has no class "+t.entry.text("class"), "add that class again")
		return
	}
	t.holders = holdersOf(t.class, t.of, of.root)
	if at := slices.IndexFunc(t.holders, func(h holder) bool { return h.unknown != "" }); at >= 0 {
		no(t.holders[at].unknown, t.holders[at].need)
		return
	}
	const need = "have an inline patch of the ClusterClass set it from a variable of its own, by valueFrom.variable"
	if len(t.holders) == 0 {
		no("no patch sets it from one", need)
		return
	}
	made, err := machineBy(machine, t.holders, t.value)
	if err != nil {
		no(err.Error(), "give it one in the Cluster's topology")
		return
	}
	if _, err := overridesFor(of, machine, t.holders, t.value, wouldBe); err != nil {
		no(err.Error(), need)
		return
	}
	t.asked = of.image(made)
}

func (t *topology) value(variable string) any {
	return valueOf(t.cluster, t.class, t.entry, variable)
}

// strategy that the topology controller gives the MachineDeployment; empty if it leaves that to others.
func (t *topology) strategy() string {
	// Whatever an entry says of roll-outs stands in place of all that the class says.
	if t.entry.has("rollout") || t.entry.has("strategy") || t.class.Unstructured == nil {
		return strategyOf(t.entry, t.cluster.v1beta1())
	}
	return strategyOf(t.of, t.class.v1beta1())
}

// strategyPath is where a person sets it.
func (t *topology) strategyPath() string {
	path := fmt.Sprintf("spec.topology.workers.machineDeployments[%s].rollout.strategy.type", t.entry.text("name"))
	if t.cluster.v1beta1() {
		path = fmt.Sprintf("spec.topology.workers.machineDeployments[%s].strategy.type", t.entry.text("name"))
	}
	return path + " of " + t.cluster.String()
}

// refuseTopology tells why nothing may be written to a pool because of the topology that it is made from. What the topology says of the
// strategy counts as much as what the pool has, for it comes with the next image; what it leaves to others anybody may change meanwhile.
func (v view) refuseTopology(found []cloud.Refusal) []cloud.Refusal {
	if v.topology == nil {
		return found
	}
	if t := v.topology; t.entry != nil && t.class.Unstructured != nil {
		found = slices.DeleteFunc(found, func(r cloud.Refusal) bool { return r.Reason == reasonRolling })
		const all = "%s, by which Cluster API would replace all its machines"
		remedy := "set " + t.strategyPath() + " to " + onDelete
		switch asked := t.strategy(); {
		case asked != "" && asked != onDelete:
			found = refuse(true, found, reasonRolling, remedy, "the topology of %s asks for the strategy "+all, v.pool, asked)
		case v.pool.strategy() != onDelete:
			found = refuse(true, found, reasonRolling, remedy, "%s has the strategy "+all, v.pool, v.pool.strategy())
		case asked == "":
			found = refuse(true, found, reasonRolling, remedy, "the topology of %s leaves its strategy to others, and without one Cluster API would replace all its machines", v.pool)
		}
	}
	if v.topology.refused != nil {
		found = append(found, *v.topology.refused)
	}
	return found
}

// refuseReplicas tells that the topology controller would undo each change of a pool's size.
func (t *topology) refuseReplicas(pool fmt.Stringer) []cloud.Refusal {
	if t == nil || !t.entry.has("replicas") {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(reasonReplicas, fmt.Sprintf("the topology of %s says how many machines %s has, so that the topology controller undoes each change of its size", t.cluster, pool),
		fmt.Sprintf("remove spec.topology.workers.machineDeployments[%s].replicas, as the cluster autoscaler wants it as well", t.entry.text("name")))}
}

// pending tells that the topology controller has not carried out yet what the Cluster asks for: or else something that is not known here
// sets the image, and a variable would be written in vain.
func (v view) pending() []cloud.Refusal {
	if v.group != nil {
		return v.pendingInGroup()
	}
	if v.topology == nil || v.topology.asked == v.topology.carried {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(reasonPending, fmt.Sprintf("the topology of %s asks for the image %s for %s, whose %s names %s", v.cluster, v.topology.asked, v.ref, v.named, v.topology.carried),
		"wait until Cluster API has carried it out, or see the Cluster's condition TopologyReconciled")}
}

// setVariables is SetRecipe for a pool of a topology: one write to the Cluster, which is conditional on it as it was read. Its resource
// version covers the strategy as well, where the topology says it.
func (r *world) setVariables(ctx context.Context, v view, change cloud.RecipeChange) error {
	if v.image == change.To && change.To != "" {
		return r.arrives(ctx, change)
	}
	if err := r.maySet(ctx, v, change); err != nil {
		return err
	}
	native, err := r.images.NativeImage(ctx, v.at.place, change.To)
	if err != nil {
		return err
	}
	overrides, err := v.overridesTo(change, native)
	if err != nil {
		return err
	}
	entries, err := withOverrides(v.cluster, v.topology.entry.text("name"), overrides)
	if err != nil {
		return err
	}
	write := map[string]any{"spec": map[string]any{"topology": map[string]any{"workers": map[string]any{"machineDeployments": entries}}}}
	if _, err := r.kube.patch(ctx, opRecipe, v.cluster, write); err != nil {
		return err
	}
	return r.arrives(ctx, change)
}

// overridesTo are the overrides by which a change's image is asked for: those from before a promotion, if a recipe is given back and they
// still ask for it, or else ones that name it.
func (v view) overridesTo(change cloud.RecipeChange, native string) ([]override, error) {
	t := v.topology
	if change.Restores != nil {
		was, err := readBackup(v.ref, change.Restores.Backup)
		if err != nil {
			return nil, err
		}
		if v.asksWith(was.Overrides) == native {
			return was.Overrides, nil
		}
	}
	overrides, err := overridesFor(v.of, v.machine(), t.holders, t.value, native)
	if err != nil {
		return nil, cloud.Refuse(reasonTopology, fmt.Sprintf("the variables of %s cannot say %s: %v", t.class, native, err), "have them hold all of the image").Error(opRecipe, v.ref.String())
	}
	return overrides, nil
}

// asksWith is the image that the Cluster would ask for with other overrides; empty if it would ask for none.
func (v view) asksWith(overrides []override) string {
	entries, err := withOverrides(v.cluster, v.topology.entry.text("name"), overrides)
	if err != nil {
		return ""
	}
	entry := find(specsIn(spec{"all": entries}, "all"), "name", v.topology.entry.text("name"))
	made, err := machineBy(v.machine(), v.topology.holders, func(name string) any { return valueOf(v.cluster, v.topology.class, entry, name) })
	if err != nil {
		return ""
	}
	return v.of.image(made)
}

// overrides of the variables that hold the image, as they are: what a promotion changes.
func (t *topology) overrides() (all []override) {
	if t == nil {
		return nil
	}
	for _, h := range t.holders {
		if !slices.ContainsFunc(all, func(o override) bool { return o.Name == h.variable }) {
			all = append(all, overrideOf(t.entry, h.variable))
		}
	}
	return all
}

// How long is waited for Cluster API's controllers, and how often is looked. They take a moment, unless they are not at work: then whoever
// asked comes again.
const (
	patience = 30 * time.Second
	glance   = 300 * time.Millisecond
	// groupGlance is how often a group is looked at, which its cloud counts.
	groupGlance = time.Second
)

// arrives waits until the pool's template names the image that the Cluster asks for, or the template of its group that of its object.
// Templates are immutable: as long as the pool names the one that it named, nothing has arrived.
func (r *world) arrives(ctx context.Context, change cloud.RecipeChange) error {
	for last := time.Now().Add(patience); ; {
		v, err := r.view(cloud.WithoutReadCache(ctx), change.Pool)
		if err != nil {
			return err
		}
		late := v.pending()
		switch {
		case v.image != change.To:
			return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(), Message: fmt.Sprintf("it was pointed at %s and shows %s: somebody else changed it", change.To, v.image)}
		case len(late) == 0:
			return nil
		case time.Now().After(last):
			return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(), Code: late[0].Reason, Message: late[0].Message}
		}
		if v.group != nil {
			err = pause(ctx, opRecipe, v.ref, groupGlance)
		} else {
			err = r.otherTemplate(ctx, v, last)
		}
		if err != nil {
			return err
		}
	}
}

// pause returns after a while, or with the context.
func pause(ctx context.Context, op string, of fmt.Stringer, long time.Duration) error {
	select {
	case <-ctx.Done():
		return fail(op, of.String(), ctx.Err())
	case <-time.After(long):
		return nil
	}
}

// otherTemplate waits until a pool names another template than it was seen with, or the time is over.
func (r *world) otherTemplate(ctx context.Context, seen view, last time.Time) error {
	for time.Now().Before(last) {
		if err := pause(ctx, opRecipe, seen.ref, glance); err != nil {
			return err
		}
		pool, err := r.kube.get(cloud.WithoutReadCache(ctx), core(seen.kind()), seen.name)
		if err != nil || pool.reference(pathInfrastructure...) != seen.named {
			return err
		}
	}
	return nil
}
