package capi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
	"github.com/kamino-dev/kamino/internal/process"
)

// The topology controller rewrites the MachineDeployment of a ClusterClass, so Kamino overrides the variable with the image in
// the Cluster. A change is done when the template names the image. The pool does not grow meanwhile.

const (
	kindClass       = "ClusterClass"
	resourceClasses = "clusterclasses"
)

// labelEntry on a MachineDeployment is the name of its entry in the Cluster's topology.
const labelEntry = "topology.cluster.x-k8s.io/deployment-name"

// topology holds the definitions of a MachineDeployment in Cluster and ClusterClass.
type topology struct {
	cluster object
	// entry of the MachineDeployment in the Cluster's topology, and of its class in the ClusterClass; nil if missing.
	entry, of spec
	class     object
	// imageVariables of the image; nil if refused.
	imageVariables []imageVariable
	// refused is the reason why no settable variable holds the image; nil if a variable does.
	refused *cloud.Refusal
	// carried is the image of the pool's template, and asked is the next image of the template, as the cloud writes
	// images.
	carried, asked string
}

// topologyOf reads the definitions of a pool, without the template; nil without a topology.
func (r *clusterAccess) topologyOf(ctx context.Context, cluster, pool object) (*topology, error) {
	if !hasLabel(pool, labelTopology) {
		return nil, nil
	}
	t := &topology{cluster: cluster, entry: entryOf(cluster, pool)}
	namespace, name := classOf(cluster)
	if pool.GetKind() != kindDeployment || t.entry == nil || name == "" {
		t.refuse(cloud.ManagedElsewhere, fmt.Sprintf("%s is made from a topology, but the topology of %s has no such MachineDeployment", pool, cluster),
			"leave the pool out, or remove the label if there is no topology")
		return t, nil
	}
	var err error
	t.class, err = r.kube.getIn(ctx, namespace, core(kindClass), name)
	switch {
	case cloud.Is(err, cloud.NotFound):
		t.refuse(cloud.ManagedElsewhere, fmt.Sprintf("%s is made from %s %s/%s, which does not exist", cluster, kindClass, namespace, name),
			"create the ClusterClass again")
	case cloud.Is(err, cloud.Denied):
		t.refuse(cloud.PermissionMissing,
			fmt.Sprintf("the account in the management cluster may not get clusterclasses.%s in namespace %s, but %s is made from %s there",
				coreGroup, namespace, cluster, name),
			remedyClass(namespace, r.cluster.Namespace))
	case err != nil:
		return nil, err
	default:
		t.of = find(workers(t.class, "spec"), "class", t.entry.text("class"))
	}
	return t, nil
}

// entryOf returns the entry of a MachineDeployment in the Cluster's topology; nil if missing.
func entryOf(cluster, pool object) spec {
	return find(workers(cluster, "spec", "topology"), "name", pool.GetLabels()[labelEntry])
}

// remedyClass is the remedy for an unreadable ClusterClass.
func remedyClass(namespace, own string) string {
	if namespace == own {
		return giveRights
	}
	return "give the account a Role with get of clusterclasses in the ClusterClass's namespace: " +
		"the Role of `kamino manifests --management` is for namespace " + own
}

func (t *topology) refuse(reason, obstacle, remedy string) {
	refused := cloud.Refuse(reason, obstacle, remedy)
	t.refused, t.imageVariables = &refused, nil
}

// anyVersion is an example of a version.
const anyVersion = "2026.01.01"

// findVariables finds the variables that hold the image of the pool's machines, and the requested image. wouldBe is the image of
// any version.
func (t *topology) findVariables(of infrastructure, machine spec, wouldBe string) {
	t.carried = of.image(machine)
	if t.asked = t.carried; t.refused != nil {
		return
	}
	no := func(why, need string) {
		t.refuse(cloud.ManagedElsewhere, fmt.Sprintf("Kamino finds no variable of %s with the image of %s: %s", t.class, t.entry.text("name"), why), need)
	}
	if t.of == nil {
		no("the ClusterClass has no class "+t.entry.text("class"), "add the class again")
		return
	}
	t.imageVariables = imageVariablesOf(t.class, t.of, of.root)
	if at := slices.IndexFunc(t.imageVariables, func(h imageVariable) bool { return h.unknown != "" }); at >= 0 {
		no(t.imageVariables[at].unknown, t.imageVariables[at].need)
		return
	}
	const need = "set the image from a variable in an inline patch of the ClusterClass, with valueFrom.variable"
	if len(t.imageVariables) == 0 {
		no("no patch sets the image from a variable", need)
		return
	}
	made, err := machineBy(machine, t.imageVariables, t.value)
	if err != nil {
		no(err.Error(), "set the value in the Cluster's topology")
		return
	}
	if _, err := overridesFor(of, machine, t.imageVariables, t.value, wouldBe); err != nil {
		no(err.Error(), need)
		return
	}
	t.asked = of.image(made)
}

func (t *topology) value(variable string) any {
	return valueOf(t.cluster, t.class, t.entry, variable)
}

// strategy returns the MachineDeployment's strategy from the topology controller; empty if the topology sets none.
func (t *topology) strategy() string {
	// An entry's rollout replaces the class's rollout completely.
	if t.entry.has("rollout") || t.entry.has("strategy") || t.class.Unstructured == nil {
		return strategyOf(t.entry, t.cluster.v1beta1())
	}
	return strategyOf(t.of, t.class.v1beta1())
}

// strategyPath is the path of the strategy for people.
func (t *topology) strategyPath() string {
	path := fmt.Sprintf("spec.topology.workers.machineDeployments[%s].rollout.strategy.type", t.entry.text("name"))
	if t.cluster.v1beta1() {
		path = fmt.Sprintf("spec.topology.workers.machineDeployments[%s].strategy.type", t.entry.text("name"))
	}
	return path + " of " + t.cluster.String()
}

// refuseTopology adds the topology's reasons against a write. The topology's strategy is as important as the pool's,
// because the next image applies it. An unset strategy may be changed by other clients at any time.
func (v poolView) refuseTopology(found []cloud.Refusal) []cloud.Refusal {
	if v.topology == nil {
		return found
	}
	if t := v.topology; t.entry != nil && t.class.Unstructured != nil {
		found = slices.DeleteFunc(found, func(r cloud.Refusal) bool { return r.Reason == cloud.NodesWouldBeReplaced })
		const all = "%s, so Cluster API would replace all machines"
		remedy := "set " + t.strategyPath() + " to " + onDelete
		switch asked := t.strategy(); {
		case asked != "" && asked != onDelete:
			found = refuse(true, found, cloud.NodesWouldBeReplaced, remedy, "the topology of %s asks for the strategy "+all, v.pool, asked)
		case v.pool.strategy() != onDelete:
			found = refuse(true, found, cloud.NodesWouldBeReplaced, remedy, "%s has the strategy "+all, v.pool, v.pool.strategy())
		case asked == "":
			found = refuse(true, found, cloud.NodesWouldBeReplaced, remedy,
				"the topology of %s sets no strategy, and by default Cluster API would replace all machines", v.pool)
		}
	}
	if v.topology.refused != nil {
		found = append(found, *v.topology.refused)
	}
	return found
}

// pending returns a refusal if the topology controller has not yet applied the requested image. Otherwise another source
// sets the image, and a variable would have no effect.
func (v poolView) pending() []cloud.Refusal {
	if v.group != nil {
		return v.pendingInGroup()
	}
	if v.topology == nil || v.topology.asked == v.topology.carried {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(reasonPending,
		fmt.Sprintf("the topology of %s asks for image %s for %s, but %s names %s", v.cluster, v.topology.asked, v.ref, v.named, v.topology.carried),
		"wait until Cluster API has applied the image, or check the Cluster's condition TopologyReconciled")}
}

// setVariables is SetRecipe for a pool of a topology: a single write to the Cluster, conditional on resourceVersion. The
// resourceVersion also covers the strategy in the topology.
func (r *clusterAccess) setVariables(ctx context.Context, v poolView, change cloud.RecipeChange) error {
	if v.image == change.To && change.To != "" {
		return r.waitForImage(ctx, change)
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
	return r.waitForImage(ctx, change)
}

// overridesTo returns the overrides for a change: in a restoration the saved overrides if still right, else new
// overrides.
func (v poolView) overridesTo(change cloud.RecipeChange, native string) ([]override, error) {
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
	overrides, err := overridesFor(v.of, v.machine(), t.imageVariables, t.value, native)
	if err != nil {
		return nil, cloud.Refuse(cloud.ManagedElsewhere, fmt.Sprintf("the variables of %s cannot express %s: %v", t.class, native, err),
			"let the variables hold the whole image").Error(opRecipe, v.ref.String())
	}
	return overrides, nil
}

// asksWith returns the requested image under other overrides; empty without an image.
func (v poolView) asksWith(overrides []override) string {
	entries, err := withOverrides(v.cluster, v.topology.entry.text("name"), overrides)
	if err != nil {
		return ""
	}
	entry := find(specsIn(spec{"all": entries}, "all"), "name", v.topology.entry.text("name"))
	made, err := machineBy(v.machine(), v.topology.imageVariables, func(name string) any { return valueOf(v.cluster, v.topology.class, entry, name) })
	if err != nil {
		return ""
	}
	return v.of.image(made)
}

// overrides returns the current overrides of the image's variables, for the backup.
func (t *topology) overrides() (all []override) {
	if t == nil {
		return nil
	}
	for _, h := range t.imageVariables {
		if !slices.ContainsFunc(all, func(o override) bool { return o.Name == h.variable }) {
			all = append(all, overrideOf(t.entry, h.variable))
		}
	}
	return all
}

// waitTimeout limits the wait for Cluster API's controllers, and pollInterval is the poll interval. Running controllers need a
// moment; otherwise the caller tries again.
const (
	waitTimeout  = 30 * time.Second
	pollInterval = 300 * time.Millisecond
	// groupPollInterval is the poll interval of a group, because the cloud limits requests.
	groupPollInterval = time.Second
)

// waitForImage waits until the pool's template names the requested image, or until the group's template has the object's
// image. Templates are immutable: the same reference means the same image.
func (r *clusterAccess) waitForImage(ctx context.Context, change cloud.RecipeChange) error {
	for last := time.Now().Add(waitTimeout); ; {
		v, err := r.view(cloud.WithoutReadCache(ctx), change.Pool)
		if err != nil {
			return err
		}
		late := v.pending()
		switch {
		case v.image != change.To:
			return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(),
				Message: fmt.Sprintf("the recipe was set to %s, but shows %s: another client changed the recipe", change.To, v.image)}
		case len(late) == 0:
			return nil
		case time.Now().After(last):
			return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(), Code: late[0].Reason, Message: late[0].Message}
		}
		if v.group != nil {
			err = pause(ctx, opRecipe, v.ref, groupPollInterval)
		} else {
			err = r.otherTemplate(ctx, v, last)
		}
		if err != nil {
			return err
		}
	}
}

// pause returns after a time, or with the context.
func pause(ctx context.Context, op string, of fmt.Stringer, long time.Duration) error {
	return apiserver.Fail(op, of.String(), process.Wait(ctx, long))
}

// otherTemplate waits until a pool names another template, or until the deadline.
func (r *clusterAccess) otherTemplate(ctx context.Context, seen poolView, last time.Time) error {
	for time.Now().Before(last) {
		if err := pause(ctx, opRecipe, seen.ref, pollInterval); err != nil {
			return err
		}
		pool, err := r.kube.get(cloud.WithoutReadCache(ctx), core(seen.kind()), seen.name)
		if err != nil || pool.reference(pathInfrastructure...) != seen.named {
			return err
		}
	}
	return nil
}
