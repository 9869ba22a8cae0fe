package capi

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Kinds of Cluster API's core.
const (
	kindCluster    = "Cluster"
	kindDeployment = "MachineDeployment"
	kindSet        = "MachineSet"
	kindMachine    = "Machine"
)

// Labels and annotations of Cluster API's. Source: its "Labels and Annotations", and api/core/v1beta2.
const (
	labelCluster      = "cluster.x-k8s.io/cluster-name"
	labelControlPlane = "cluster.x-k8s.io/control-plane"
	labelTopology     = "topology.cluster.x-k8s.io/owned"

	annotationPaused  = "cluster.x-k8s.io/paused"
	annotationSkip    = "cluster.x-k8s.io/skip-remediation"
	annotationDelete  = "cluster.x-k8s.io/delete-machine"
	annotationMaxSize = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

	// annotationHook keeps the deletion of a Machine waiting, before anything of it is drained, until it is taken away.
	annotationHook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kamino"
)

// Annotations of this package's own.
const (
	// annotationRemoving on a Machine tells that it is removed with its place, and how far.
	annotationRemoving = "kamino.dev/removing"
	// annotationPlace on a pool is the value of annotationRemoving of the Machine whose place was taken from it last, and goes with that one write.
	annotationPlace = "kamino.dev/place-of"
	// annotationVersion and annotationPool on a template tell that it was copied for a version of a pool.
	annotationVersion = "kamino.dev/version"
	annotationPool    = "kamino.dev/pool"
	// annotationTrial on a Machine and its parts is the name of the trial that they were made for.
	annotationTrial = "kamino.dev/trial"
)

// Strategies of a MachineDeployment. Source: Cluster API, MachineDeploymentRolloutStrategyType.
const (
	onDelete      = "OnDelete"
	rollingUpdate = "RollingUpdate"
)

// object is one of Cluster API's, or of an infrastructure provider's.
type object struct {
	*unstructured.Unstructured
}

func (o object) String() string { return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName() }

func (o object) text(path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

func (o object) number(path ...string) (int64, bool) {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	return n, found && err == nil
}

func (o object) truth(path ...string) bool {
	is, _, _ := unstructured.NestedBool(o.Object, path...)
	return is
}

func (o object) is(annotation string) bool {
	_, found := o.GetAnnotations()[annotation]
	return found
}

// controller is the owner that controls the object; nil if there is none.
func (o object) controller() *metav1.OwnerReference { return metav1.GetControllerOf(o) }

// deleting tells that somebody has deleted it.
func (o object) deleting() bool { return o.GetDeletionTimestamp() != nil }

// v1beta1 tells that the core's object is of the older version.
func (o object) v1beta1() bool { return strings.HasSuffix(o.GetAPIVersion(), "/v1beta1") }

// strategy of a MachineDeployment; RollingUpdate where it says nothing, which is Cluster API's default.
func (o object) strategy() string {
	path := []string{"spec", "rollout", "strategy", "type"}
	if o.v1beta1() {
		path = []string{"spec", "strategy", "type"}
	}
	if strategy := o.text(path...); strategy != "" {
		return strategy
	}
	return rollingUpdate
}

// strategyPath is where a person sets it.
func (o object) strategyPath() string {
	if o.v1beta1() {
		return "spec.strategy.type"
	}
	return "spec.rollout.strategy.type"
}

// replicas that a pool is meant to have; 1 where it says nothing, which is Cluster API's default.
func (o object) replicas() int64 {
	if n, set := o.number("spec", "replicas"); set {
		return n
	}
	return 1
}

// maxSize by the cluster autoscaler's annotation; 0 if there is none. Source: its provider for Cluster API.
func (o object) maxSize() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(o.GetAnnotations()[annotationMaxSize]), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return max(n, o.replicas())
}

// paused tells that Cluster API leaves the object alone until somebody says otherwise.
func (o object) paused() bool { return o.is(annotationPaused) || o.truth("spec", "paused") }

// conditionPaused is what each controller of Cluster API's says first, whether the object is paused or not, with the generation that it
// saw. Source: Cluster API from v1.9 on, util/paused.
const conditionPaused = "Paused"

// condition of that type among those at a path; nil if there is none.
func (o object) condition(name string, path ...string) spec {
	all, _, _ := unstructured.NestedSlice(o.Object, path...)
	for _, c := range all {
		if said, is := c.(map[string]any); is && spec(said).text("type") == name {
			return said
		}
	}
	return nil
}

// pausedCondition is that one; nil if the object has none. In objects of v1beta1 such conditions are beside their own.
func (o object) pausedCondition() spec {
	if o.v1beta1() {
		return o.condition(conditionPaused, "status", "v1beta2", "conditions")
	}
	return o.condition(conditionPaused, "status", "conditions")
}

// noted tells that its controller has taken note of the object as it is, of a pause, too.
func (o object) noted() bool {
	said := o.pausedCondition()
	seen, _ := said["observedGeneration"].(int64)
	return said != nil && seen >= o.GetGeneration() && (!o.is(annotationPaused) || said.text("status") == string(metav1.ConditionTrue))
}

// reference is where an object names another of its namespace.
type reference struct {
	schema.GroupKind
	name string
}

func (r reference) String() string { return r.Kind + " " + r.name }

// where pools name their infrastructure template and their bootstrap configuration, and machines what was made of them.
var (
	pathInfrastructure        = []string{"spec", "template", "spec", "infrastructureRef"}
	pathBootstrap             = []string{"spec", "template", "spec", "bootstrap", "configRef"}
	pathMachineInfrastructure = []string{"spec", "infrastructureRef"}
)

// reference reads one: v1beta2 has the group of what it names, and v1beta1 its version, too.
func (o object) reference(path ...string) reference {
	group := o.text(append(slices.Clone(path), "apiGroup")...)
	if group == "" {
		group, _, _ = strings.Cut(o.text(append(slices.Clone(path), "apiVersion")...), "/")
	}
	return reference{schema.GroupKind{Group: group, Kind: o.text(append(slices.Clone(path), "kind")...)}, o.text(append(slices.Clone(path), "name")...)}
}

// providerID of a Machine.
func (o object) providerID() cloud.InstanceID { return cloud.InstanceID(o.text("spec", "providerID")) }

// ownerOf tells the pool of a Machine, by the MachineSets of its cluster: the MachineDeployment of its set, or the set itself. Else it
// says why there is none.
func ownerOf(m object, sets []object) (ref, string) {
	switch owner := m.controller(); {
	case m.is(annotationTrial):
		return ref{}, m.String() + " is there for a trial, and belongs to no pool"
	case hasLabel(m, labelControlPlane):
		return ref{}, m.String() + " is of the control plane, and only workers can be captured"
	case owner == nil:
		return ref{}, m.String() + " stands by itself: only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
	case owner.Kind == kindPool:
		return ref{m.GetNamespace(), machinePools, owner.Name}, ""
	case owner.Kind != kindSet:
		return ref{}, m.String() + " is made by " + owner.Kind + " " + owner.Name + ": only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
	default:
		at := slices.IndexFunc(sets, func(s object) bool { return s.GetName() == owner.Name })
		if at < 0 {
			return ref{}, m.String() + " is of MachineSet " + owner.Name + ", which does not exist: Cluster API is about to delete it"
		}
		return poolOfSet(sets[at]), ""
	}
}

// poolOfSet is the MachineDeployment of a MachineSet, or the set itself.
func poolOfSet(set object) ref {
	if owner := set.controller(); owner != nil && owner.Kind == kindDeployment {
		return ref{set.GetNamespace(), deployments, owner.Name}
	}
	return ref{set.GetNamespace(), sets, set.GetName()}
}

func hasLabel(o object, label string) bool {
	_, found := o.GetLabels()[label]
	return found
}
