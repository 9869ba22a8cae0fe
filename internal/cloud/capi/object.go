package capi

import (
	"encoding/json"
	"maps"
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

// Labels and annotations of Cluster API. Source: Cluster API, "Labels and Annotations", and api/core/v1beta2.
const (
	labelCluster      = "cluster.x-k8s.io/cluster-name"
	labelControlPlane = "cluster.x-k8s.io/control-plane"
	labelTopology     = "topology.cluster.x-k8s.io/owned"

	annotationPaused  = "cluster.x-k8s.io/paused"
	annotationSkip    = "cluster.x-k8s.io/skip-remediation"
	annotationMaxSize = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// Annotations of this package.
const (
	// annotationVersion and annotationPool on a template name version and pool of the copy.
	annotationVersion = "kamino.dev/version"
	annotationPool    = "kamino.dev/pool"
)

// Strategies of a MachineDeployment. Source: Cluster API, MachineDeploymentRolloutStrategyType.
const (
	onDelete      = "OnDelete"
	rollingUpdate = "RollingUpdate"
)

// object is an object of Cluster API or of an infrastructure provider.
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

// controller returns the controlling owner; nil without an owner.
func (o object) controller() *metav1.OwnerReference { return metav1.GetControllerOf(o) }

// deleting reports whether a client has deleted the object.
func (o object) deleting() bool { return o.GetDeletionTimestamp() != nil }

// v1beta1 reports whether a core object has the old version.
func (o object) v1beta1() bool { return strings.HasSuffix(o.GetAPIVersion(), "/v1beta1") }

// strategy returns the strategy of a MachineDeployment; Cluster API's default is RollingUpdate.
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

// strategyPath is the path of the strategy for people.
func (o object) strategyPath() string {
	if o.v1beta1() {
		return "spec.strategy.type"
	}
	return "spec.rollout.strategy.type"
}

// replicas returns the wanted replicas of a pool; Cluster API's default is 1.
func (o object) replicas() int64 {
	if n, set := o.number("spec", "replicas"); set {
		return n
	}
	return 1
}

// maxSize returns the size of the cluster autoscaler's annotation; 0 without the annotation. Source: the autoscaler's
// provider for Cluster API.
func (o object) maxSize() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(o.GetAnnotations()[annotationMaxSize]), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return max(n, o.replicas())
}

// paused reports whether Cluster API's controllers skip the object.
func (o object) paused() bool { return o.is(annotationPaused) || o.truth("spec", "paused") }

// condition returns the condition of the type at a path; nil if absent.
func (o object) condition(name string, path ...string) spec {
	all, _, _ := unstructured.NestedSlice(o.Object, path...)
	for _, c := range all {
		if said, is := c.(map[string]any); is && spec(said).text("type") == name {
			return said
		}
	}
	return nil
}

// reference is a reference to an object in the same namespace.
type reference struct {
	schema.GroupKind
	name string
}

func (r reference) String() string { return r.Kind + " " + r.name }

// Paths of infrastructure and bootstrap references in pools, and of the infrastructure reference in Machines.
var (
	pathInfrastructure        = []string{"spec", "template", "spec", "infrastructureRef"}
	pathBootstrap             = []string{"spec", "template", "spec", "bootstrap", "configRef"}
	pathMachineInfrastructure = []string{"spec", "infrastructureRef"}
)

// reference reads a reference: v1beta2 has the API group, v1beta1 has group and version.
func (o object) reference(path ...string) reference {
	group := o.text(append(slices.Clone(path), "apiGroup")...)
	if group == "" {
		group, _, _ = strings.Cut(o.text(append(slices.Clone(path), "apiVersion")...), "/")
	}
	return reference{schema.GroupKind{Group: group, Kind: o.text(append(slices.Clone(path), "kind")...)}, o.text(append(slices.Clone(path), "name")...)}
}

// providerID of a Machine.
func (o object) providerID() cloud.InstanceID { return cloud.InstanceID(o.text("spec", "providerID")) }

// ownerOf returns the pool of a Machine: the MachineDeployment of its MachineSet, or the MachineSet. The second result is
// the reason for no pool.
func ownerOf(m object, sets []object) (ref, string) {
	of, isApart := useOf(m)
	switch owner := m.controller(); {
	case isApart:
		return ref{}, m.String() + " belongs to a " + of.noun + ", not to a pool"
	case hasLabel(m, labelControlPlane):
		return ref{}, m.String() + " is in the control plane; only workers can be captured"
	case owner == nil:
		return ref{}, m.String() + " has no owner: only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
	case owner.Kind == kindPool:
		return ref{m.GetNamespace(), machinePools, owner.Name}, ""
	case owner.Kind != kindSet:
		return ref{}, m.String() + " is made by " + owner.Kind + " " + owner.Name +
			": only Machines of a MachineDeployment, a MachineSet or a MachinePool can be captured"
	default:
		at := slices.IndexFunc(sets, func(s object) bool { return s.GetName() == owner.Name })
		if at < 0 {
			return ref{}, m.String() + " belongs to MachineSet " + owner.Name + ", which does not exist: wait until Cluster API has deleted the Machine"
		}
		return poolOfSet(sets[at]), ""
	}
}

// poolOfSet returns the MachineDeployment of a MachineSet, or the MachineSet.
func poolOfSet(set object) ref {
	if owner := set.controller(); owner != nil && owner.Kind == kindDeployment {
		return ref{set.GetNamespace(), deployments, owner.Name}
	}
	return ref{set.GetNamespace(), sets, set.GetName()}
}

// setOf returns the MachineSet of a Machine; an empty object if there is none.
func setOf(m object, sets []object) object {
	owner := m.controller()
	at := slices.IndexFunc(sets, func(s object) bool { return owner != nil && s.GetName() == owner.Name })
	if at < 0 {
		return object{}
	}
	return sets[at]
}

// configuration identifies what the machines of a MachineDeployment or MachineSet are configured with besides the image: the bootstrap template,
// which is replaced at each change, and the labels and taints that Cluster API writes to Nodes. Empty if unknown.
func (o object) configuration() string {
	if o.Unstructured == nil || o.GetKind() == kindPool { // a MachinePool changes its bootstrap configuration in place
		return ""
	}
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.HasPrefix(key, "node") }) // source: Cluster API, ManagedNodeLabelDomain
	taints, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "taints")
	text, err := json.Marshal([]any{o.reference(pathBootstrap...).name, labels, taints})
	if err != nil {
		return ""
	}
	return digest(text)
}

func hasLabel(o object, label string) bool {
	_, found := o.GetLabels()[label]
	return found
}
