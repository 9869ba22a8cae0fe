package karpenter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// A machine outside the pool is a NodeClaim without a NodePool, on a copy of the class. Karpenter launches it as any other, and neither
// consolidates nor replaces it. A finalizer keeps the NodeClaim until the end, because it is the record: Karpenter deletes a NodeClaim
// that it cannot launch, or that does not register within 15 minutes.

const opEnd = "end"

// use is what machines outside the pool are for.
type use struct {
	// noun is "trial" or "workshop".
	noun string
	// op begins the errors, and feature is that of the rights.
	op, feature string
}

var (
	trials    = use{noun: "trial", op: "try a version of", feature: cloud.ForTrialApart}
	workshops = use{noun: "workshop", op: "build a workshop for", feature: cloud.ForCopy}
)

// mark is the annotation with the record, on NodeClaim and class. It is also the finalizer of the NodeClaim.
func (u use) mark() string { return "kamino.dev/" + u.noun }

// ending is the annotation of a NodeClaim that Kamino ends. Without it, a deleted NodeClaim is lost.
func (u use) ending() string { return u.mark() + "-ending" }

// isApart reports whether an object is of a machine outside the pools.
func isApart(annotations map[string]string) bool {
	for _, u := range []use{trials, workshops} {
		if _, found := annotations[u.mark()]; found {
			return true
		}
	}
	return false
}

// apartRecord is the record of a machine outside the pool.
type apartRecord struct {
	Pool cloud.PoolID `json:"pool"`
	// Version is of the image under test; empty without a test.
	Version string            `json:"version,omitempty"`
	Name    string            `json:"name"`
	Image   string            `json:"image"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// apart is a machine outside the pool, which need not exist.
type apart struct {
	*access
	use
	pool cloud.PoolID
	// caller is the caller's name.
	caller string
}

func (r *access) apart(of use, pool cloud.PoolID, name string) apart { return apart{r, of, pool, name} }

func classOf(pool cloud.PoolID) string { return strings.TrimPrefix(string(pool), poolPrefix) }

// name is the name of NodeClaim and class.
func (a apart) name() string {
	return shorten(classOf(a.pool), 36) + "-" + a.noun + "-" + digest(string(a.pool)+"/"+a.caller)
}

// preflight returns the obstacles. Capacity is unknown in advance.
func (a apart) preflight(ctx context.Context) ([]cloud.Refusal, error) {
	v, err := a.view(ctx, a.pool)
	if err != nil {
		return nil, err
	}
	lack, err := a.refuseRights(ctx, a.feature)
	return append(cloud.RefusalsFor(true, v.refusals()), lack...), err
}

// read returns the NodeClaim; nil without one.
func (a apart) read(ctx context.Context) (*unstructured.Unstructured, error) {
	o, err := a.get(ctx, claims, a.name())
	if cloud.Is(err, cloud.NotFound) {
		return nil, nil
	}
	return o, err
}

// state returns the state of the machine.
func (a apart) state(ctx context.Context) (cloud.Trial, error) {
	o, err := a.read(ctx)
	if err != nil || o == nil {
		return cloud.Trial{}, err
	}
	return a.stateOf(o)
}

// stateOf returns the state from a NodeClaim.
func (a apart) stateOf(o *unstructured.Unstructured) (cloud.Trial, error) {
	c, err := as[nodeClaim](o)
	if err != nil {
		return cloud.Trial{}, err
	}
	var record apartRecord
	if err := json.Unmarshal([]byte(o.GetAnnotations()[a.mark()]), &record); err != nil {
		return cloud.Trial{}, &cloud.Error{Kind: cloud.Conflict, Op: a.op, Resource: nameOf(o), Message: "another client made the object, or changed its record"}
	}
	var built []cloud.Instance
	if c.Status.ProviderID != "" {
		one := c.instance("")
		one.Image, one.Power = record.Image, cloud.PowerRunning
		built = []cloud.Instance{one}
	}
	launch := conditionOf(c.Status.Conditions, "Launched")
	trouble := ""
	if launch.Status != metav1.ConditionTrue && launch.Reason != "AwaitingReconciliation" {
		trouble = launch.Message
	}
	_, ending := c.Metadata.Annotations[a.ending()]
	switch {
	case ending:
		return cloud.Trial{State: cloud.Deleting, Instances: built}, nil
	case c.Metadata.DeletionTimestamp != nil && len(built) == 0: // Karpenter could not launch it
		return cloud.Trial{State: cloud.Failed, Trouble: cmp.Or(trouble, "Karpenter could not launch "+nameOf(o)), LacksCapacity: trouble == ""}, nil
	case c.Metadata.DeletionTimestamp != nil:
		return cloud.Trial{State: cloud.Failed}, nil
	case len(built) > 0 && launch.Status == metav1.ConditionTrue:
		return cloud.Trial{State: cloud.Complete, Instances: built}, nil
	}
	return cloud.Trial{State: cloud.Pending, Trouble: trouble, LacksCapacity: false}, nil
}

// listApart lists the records of machines outside the pools: those of NodeClaims, and of classes that are left.
func (r *access) listApart(ctx context.Context, of use, pools []cloud.PoolID) (found []apartRecord, err error) {
	if len(pools) == 0 {
		return nil, nil
	}
	all, err := r.list(ctx, claims)
	if err != nil {
		return nil, err
	}
	left, err := r.list(ctx, classes)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, o := range append(all, left...) {
		var record apartRecord
		text, is := o.GetAnnotations()[of.mark()]
		if !is || seen[o.GetName()] || json.Unmarshal([]byte(text), &record) != nil {
			continue
		}
		seen[o.GetName()] = true
		record.Tags = cloud.OwnerTags(record.Tags)
		found = append(found, record)
	}
	return found, nil
}

// apartSpec is what a machine outside the pool has in addition to the class.
type apartSpec struct {
	apartRecord
	// native is the AMI, and instanceType the type; empty for the usual type of the pool.
	native, instanceType string
	// tag is a tag of the instance with the caller's name; empty without a tag.
	tag string
}

// ensure creates class and NodeClaim, unless the NodeClaim exists. The class has no effect without the NodeClaim.
func (a apart) ensure(ctx context.Context, like func(context.Context, view) (apartSpec, error)) (cloud.Trial, error) {
	ctx = cloud.WithoutReadCache(ctx)
	o, err := a.read(ctx)
	if err != nil {
		return cloud.Trial{}, err
	}
	if o != nil {
		return a.stateOf(o)
	}
	v, err := a.view(ctx, a.pool)
	if err != nil {
		return cloud.Trial{}, err
	}
	for _, refusal := range cloud.RefusalsFor(true, v.refusals()) {
		return cloud.Trial{}, refusal.Error(a.op, v.String())
	}
	spec, err := like(ctx, v)
	if err != nil {
		return cloud.Trial{}, err
	}
	spec.Pool, spec.Name = v.pool(), a.caller
	record, err := json.Marshal(spec.apartRecord)
	if err != nil {
		return cloud.Trial{}, apiserver.Fail(a.op, v.String(), err)
	}
	mark := map[string]string{a.mark(): string(record)}
	all, err := a.claimsOf(ctx, classOf(a.pool))
	if err != nil {
		return cloud.Trial{}, err
	}
	if spec.instanceType == "" {
		spec.instanceType = a.usualType(v, all)
	}
	if err := a.create(ctx, a.op, a.classLike(v, spec, mark)); err != nil {
		return cloud.Trial{}, err
	}
	return cloud.Trial{State: cloud.Pending}, a.create(ctx, a.op, a.claimLike(v, spec, mark, all))
}

// classLike returns the copy of the class, with the image and tags of the instance.
func (a apart) classLike(v view, spec apartSpec, mark map[string]string) *unstructured.Unstructured {
	inner, _, _ := unstructured.NestedMap(v.raw.Object, "spec") // a copy
	inner["amiSelectorTerms"] = []any{object{"id": spec.native}}
	inner["amiFamily"] = v.class.family()
	tags, _, _ := unstructured.NestedMap(inner, "tags")
	if tags == nil {
		tags = object{}
	}
	if spec.tag != "" {
		tags[spec.tag] = shorten(a.caller, 255)
	}
	inner["tags"] = tags
	made := &unstructured.Unstructured{Object: object{"spec": inner}}
	made.SetAPIVersion(classes.GroupVersion().String())
	made.SetKind(kindClass)
	made.SetName(a.name())
	made.SetAnnotations(mark)
	return made
}

// claimLike returns the NodeClaim as Karpenter makes one from the NodePool with most nodes. A workshop has a taint for pods of users; a
// trial has the taints of the pool's nodes, to which it is compared.
func (a apart) claimLike(v view, spec apartSpec, mark map[string]string, all []nodeClaim) *unstructured.Unstructured {
	count := func(p nodePool) (n int) {
		for _, c := range all {
			if c.Metadata.Labels[labelPool] == p.Metadata.Name {
				n++
			}
		}
		return n
	}
	of := slices.MaxFunc(v.pools, func(x, y nodePool) int { return cmp.Compare(count(x), count(y)) })
	from := of.raw.Object
	inner, _, _ := unstructured.NestedMap(from, "spec", "template", "spec")
	inner["nodeClassRef"] = object{"group": awsGroup, "kind": kindClass, "name": a.name()}
	inner["requirements"] = requirementsFor(of, v.architectures(), spec.instanceType)
	inner["expireAfter"] = "Never"
	inner["terminationGracePeriod"] = "1m" // a pod that slipped in must not keep it
	inner["resources"] = object{"requests": object{"cpu": "500m", "memory": "512Mi"}}
	if a.use == workshops {
		inner["taints"] = []any{object{"key": a.mark(), "effect": "NoSchedule"}}
	}
	made := &unstructured.Unstructured{Object: object{"spec": inner}}
	made.SetAPIVersion(claims.GroupVersion().String())
	made.SetKind(kindClaim)
	made.SetName(a.name())
	made.SetLabels(of.Spec.Template.Metadata.Labels)
	annotations := map[string]string{}
	for key, value := range of.Spec.Template.Metadata.Annotations {
		annotations[key] = value
	}
	for key, value := range mark {
		annotations[key] = value
	}
	made.SetAnnotations(annotations)
	made.SetFinalizers([]string{a.mark()})
	return made
}

// requirementsFor returns the requirements of a machine outside the pool: those of the NodePool with one type, and on-demand capacity if
// the NodePool allows it, because an interruption would cost the work.
func requirementsFor(of nodePool, architectures []string, instanceType string) []any {
	in := func(key string, values ...string) any {
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		return object{"key": key, "operator": "In", "values": list}
	}
	onDemand := true
	var kept []any
	raw, _, _ := unstructured.NestedSlice(of.raw.Object, "spec", "template", "spec", "requirements")
	for i, r := range of.Spec.Template.Spec.Requirements {
		switch r.Key {
		case labelCapacityType:
			if onDemand = r.allows("on-demand"); !onDemand {
				kept = append(kept, raw[i])
			}
		case labelArch:
		case labelType:
			if instanceType == "" {
				kept = append(kept, raw[i])
			}
		default:
			if instanceType == "" || r.Key == labelZone { // the type implies the rest
				kept = append(kept, raw[i])
			}
		}
	}
	kept = append(kept, in(labelArch, architectures...))
	if instanceType != "" {
		kept = append(kept, in(labelType, instanceType))
	}
	if onDemand {
		kept = append(kept, in(labelCapacityType, "on-demand"))
	}
	return kept
}

// end deletes the NodeClaim. After Karpenter has removed its finalizer, only the record is left, and end removes record and class.
func (a apart) end(ctx context.Context) (state cloud.State, err error) {
	err = apiserver.RetryOnConflict(func() error {
		state, err = a.tryEnd(cloud.WithoutReadCache(ctx))
		return err
	})
	return state, err
}

func (a apart) tryEnd(ctx context.Context) (cloud.State, error) {
	o, err := a.read(ctx)
	if err != nil {
		return cloud.Absent, err
	}
	if o == nil {
		return a.dropClass(ctx)
	}
	if _, found := o.GetAnnotations()[a.ending()]; !found {
		if o, err = a.patch(ctx, opEnd, o, object{"metadata": object{"annotations": object{a.ending(): ""}}}); err != nil {
			return cloud.Absent, err
		}
	}
	if o.GetDeletionTimestamp() == nil {
		return cloud.Deleting, a.remove(ctx, opEnd, o)
	}
	if finalizers := o.GetFinalizers(); len(finalizers) > 1 || !slices.Contains(finalizers, a.mark()) {
		return cloud.Deleting, nil
	}
	if _, err := a.patch(ctx, opEnd, o, object{"metadata": object{"finalizers": []string{}}}); err != nil && !cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, err
	}
	return a.dropClass(ctx)
}

// dropClass deletes the class. Karpenter's finalizer removes its instance profile and launch templates.
func (a apart) dropClass(ctx context.Context) (cloud.State, error) {
	o, err := a.get(ctx, classes, a.name())
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	}
	if _, ours := o.GetAnnotations()[a.mark()]; !ours {
		return cloud.Absent, nil
	}
	return cloud.Deleting, a.remove(ctx, opEnd, o)
}
