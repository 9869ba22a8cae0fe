package capi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// A separate Machine is built from the pool's templates, without the labels of the pool's selector, so that the pool stays
// unchanged. It is the machine of a trial or of a workshop. A finalizer keeps the Machine until the end, because the Machine is the
// record.

const opEnd = "end"

// use is what separate Machines are for.
type use struct {
	// noun is "trial" or "workshop".
	noun string
	// op begins the errors, feature is that of the rights, and instead is another remedy, without such a Machine.
	op, feature, instead string
	// annotations of the Machine.
	annotations map[string]string
}

// mark is the annotation with the record, on the Machine and its objects. It is also the Machine's finalizer.
func (u use) mark() string { return "kamino.dev/" + u.noun }

// ending is the annotation of a Machine that Kamino ends. Without it, a deleted Machine is lost.
func (u use) ending() string { return u.mark() + "-ending" }

// useOf returns the use of a separate Machine.
func useOf(m object) (use, bool) {
	for _, u := range []use{trials, workshops} {
		if m.is(u.mark()) {
			return u, true
		}
	}
	return use{}, false
}

// apartRecord is the record of a separate Machine.
type apartRecord struct {
	Pool cloud.PoolID `json:"pool"`
	// Version is of the image under test; empty without a test.
	Version string `json:"version,omitempty"`
	Name    string `json:"name"`
	Image   string `json:"image"`
	// Type and Recipe are as in cloud.Instance.
	Type   string            `json:"type,omitempty"`
	Recipe string            `json:"recipe,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

func (u use) recordOf(m object) (record apartRecord, is bool) {
	text, found := m.GetAnnotations()[u.mark()]
	return record, found && json.Unmarshal([]byte(text), &record) == nil
}

// apartSpec is what a separate Machine has in addition to the pool's templates.
type apartSpec struct {
	apartRecord
	// native is the image, as the cloud writes it, and instanceType the type; empty for those of the template.
	native, instanceType string
	// tag is a tag of the instance with the caller's name; empty without a tag.
	tag string
}

// apart is a separate Machine, which need not exist.
type apart struct {
	*clusterAccess
	use
	of ref
	// caller is the caller's name.
	caller string
}

func (r *clusterAccess) apart(of use, pool cloud.PoolID, name string) (apart, error) {
	in, err := parsePool(pool)
	return apart{r, of, in, name}, err
}

// name is the name of the Machine and its objects.
func (a apart) name() string {
	return shorten(a.of.name, 40) + "-" + a.noun + "-" + digest([]byte(a.caller))
}

// preflight returns the obstacles. Capacity is unknown in advance.
func (a apart) preflight(ctx context.Context) ([]cloud.Refusal, error) {
	v, err := a.view(ctx, a.of.pool())
	if err != nil {
		return nil, err
	}
	found := append(cloud.RefusalsFor(true, v.refusals()), v.refuseSeparateMachine(a.use)...) // it is never stopped by Kamino
	lack, err := a.refuseRights(ctx, v, a.feature)
	if err != nil {
		return nil, err
	}
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		_, err := a.kube.get(ctx, by.GroupKind, by.name)
		if cloud.Is(err, cloud.NotFound) {
			found = append(found, cloud.Refuse(reasonTemplate, fmt.Sprintf("%s names %s, which does not exist", v.ref, by),
				"create the object again, or point the pool at an existing object"))
		} else if err != nil && !cloud.Is(err, cloud.Denied) {
			return nil, err
		}
	}
	return append(found, lack...), nil
}

// machine returns the Machine; there is false without a Machine.
func (a apart) machine(ctx context.Context) (m object, there bool, err error) {
	m, err = a.kube.get(ctx, core(kindMachine), a.name())
	if err = a.confirmMissing(ctx, a.op, err); cloud.Is(err, cloud.NotFound) {
		return object{}, false, nil
	}
	return m, err == nil, err
}

// state returns the state of the Machine.
func (a apart) state(ctx context.Context) (cloud.Trial, error) {
	m, there, err := a.machine(ctx)
	if err != nil || !there {
		return cloud.Trial{}, err
	}
	out := a.stateOf(m)
	if out.State == cloud.Pending && out.Trouble != "" {
		out.Trouble, err = a.refusalOf(ctx, m, out.Trouble)
	}
	return out, err
}

// refusalOf returns why a Machine cannot be built, from the infrastructure object: the Machine has only a summary, such as
// "0 of 2 completed". Without the object, refusalOf returns the summary.
func (r *clusterAccess) refusalOf(ctx context.Context, m object, summary string) (string, error) {
	by := m.reference(pathMachineInfrastructure...)
	if by.name == "" {
		return summary, nil
	}
	built, err := r.kube.get(ctx, by.GroupKind, by.name)
	switch {
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Denied):
		return summary, nil
	case err != nil:
		return "", err
	}
	return cmp.Or(built.refusal(), summary), nil
}

// refusal returns the cloud's message in the conditions of an infrastructure object; empty without a failure. Source: AWS's
// provider, InstanceReady; Azure's provider, VMRunning.
func (o object) refusal() string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		said, is := c.(map[string]any)
		kind := spec(said)
		failed := kind.text("status") == "False" && strings.Contains(kind.text("reason"), "Failed")
		if is && failed && kind.text("type") != "Ready" && kind.text("message") != "" {
			return kind.text("message")
		}
	}
	return ""
}

// stateOf returns the state from a Machine.
func (u use) stateOf(m object) cloud.Trial {
	record, _ := u.recordOf(m)
	var built []cloud.Instance
	if id := m.providerID(); id != "" {
		built = []cloud.Instance{{ID: id, Image: record.Image, Power: cloud.PowerRunning, CreatedAt: m.GetCreationTimestamp().Time,
			Type: record.Type, Recipe: record.Recipe}}
	}
	switch {
	case m.is(u.ending()):
		return cloud.Trial{State: cloud.Deleting, Instances: built}
	case m.deleting():
		return cloud.Trial{State: cloud.Failed}
	case m.text("status", "phase") == "Failed":
		return cloud.Trial{State: cloud.Failed, Trouble: m.trouble()}
	case len(built) > 0 && m.provisioned():
		return cloud.Trial{State: cloud.Complete, Instances: built}
	}
	return cloud.Trial{State: cloud.Pending, Trouble: m.trouble()}
}

// provisioned reports whether a Machine's infrastructure is ready.
func (o object) provisioned() bool {
	return o.truth("status", "initialization", "infrastructureProvisioned") || o.truth("status", "infrastructureReady")
}

// conditionInfrastructure is the Machine's condition of ready infrastructure, in both versions.
const conditionInfrastructure = "InfrastructureReady"

// trouble returns the failure of a Machine: the failure message, else the message of a failed infrastructure condition. A
// waiting condition is no failure.
func (o object) trouble() string {
	for _, path := range [][]string{{"status", "deprecated", "v1beta1", "failureMessage"}, {"status", "failureMessage"}} {
		if text := o.text(path...); text != "" {
			return text
		}
	}
	said := o.condition(conditionInfrastructure, "status", "conditions")
	if said.text("status") == "False" && strings.Contains(said.text("reason"), "Failed") {
		return said.text("message")
	}
	return ""
}

// listApart lists the records of the separate Machines of pools with a single list.
func (r *clusterAccess) listApart(ctx context.Context, of use, pools []cloud.PoolID) (found []apartRecord, err error) {
	machines, err := r.kube.list(ctx, core(kindMachine), r.ofCluster())
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		if record, is := of.recordOf(m); is && len(pools) > 0 {
			record.Tags = cloud.OwnerTags(record.Tags)
			found = append(found, record)
		}
	}
	return found, nil
}

// ensure creates the objects, unless the Machine exists. The Machine is created last, because the other objects have no effect
// without the Machine.
func (a apart) ensure(ctx context.Context, like func(context.Context, poolView) (apartSpec, error)) (cloud.Trial, error) {
	ctx = cloud.WithoutReadCache(ctx)
	if err := a.requireNotMoved(ctx, a.op); err != nil {
		return cloud.Trial{}, err
	}
	m, there, err := a.machine(ctx)
	if err != nil {
		return cloud.Trial{}, err
	}
	if there {
		return a.stateOf(m), nil
	}
	v, err := a.view(ctx, a.of.pool())
	if err != nil {
		return cloud.Trial{}, err
	}
	for _, refusal := range slices.Concat(cloud.RefusalsFor(true, v.refusals()), v.refuseSeparateMachine(a.use)) {
		return cloud.Trial{}, refusal.Error(a.op, a.of.String())
	}
	spec, err := like(ctx, v)
	if err != nil {
		return cloud.Trial{}, err
	}
	parts, err := a.partsOf(ctx, v, spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	for _, part := range parts {
		if _, err := a.kube.create(ctx, a.op, part); err != nil && !cloud.Is(err, cloud.Conflict) {
			return cloud.Trial{}, err
		}
	}
	return cloud.Trial{State: cloud.Pending}, nil
}

// partsOf returns the objects, the Machine last.
func (a apart) partsOf(ctx context.Context, v poolView, spec apartSpec) ([]object, error) {
	name := a.name()
	spec.Pool, spec.Name = v.ref.pool(), a.caller
	infrastructure := a.objectFrom(v.template, name, nil)
	machine := specOf(infrastructure, "spec")
	if spec.native != "" {
		if err := v.of.setImage(machine, spec.native); err != nil {
			return nil, err
		}
	}
	if spec.instanceType != "" {
		machine[v.of.instanceType] = spec.instanceType
	}
	spec.Type, spec.Recipe = machine.text(v.of.instanceType), v.pool.configuration()
	record, err := json.Marshal(spec.apartRecord)
	if err != nil {
		return nil, apiserver.Fail(a.op, v.ref.String(), err)
	}
	mark := map[string]string{a.mark(): string(record)}
	infrastructure.SetAnnotations(merged(infrastructure.GetAnnotations(), mark))
	if spec.tag != "" {
		_ = unstructured.SetNestedField(machine, shorten(a.caller, maxObjectName), "additionalTags", spec.tag) // AWSMachine and AzureMachine
	}
	parts := []object{infrastructure}

	inner, _, _ := unstructured.NestedMap(v.pool.Object, "spec", "template", "spec")
	forSeparateMachine(v.pool, inner)
	m := object{&unstructured.Unstructured{Object: map[string]any{"spec": inner}}}
	m.SetGroupVersionKind(v.pool.GroupVersionKind().GroupVersion().WithKind(kindMachine))
	_ = unstructured.SetNestedField(m.Object, a.cluster.Name, "spec", "clusterName")
	rename := func(path []string, part object) {
		_ = unstructured.SetNestedField(m.Object, part.GetKind(), append(slices.Clone(path), "kind")...)
		_ = unstructured.SetNestedField(m.Object, name, append(slices.Clone(path), "name")...)
	}
	rename(pathMachineInfrastructure, infrastructure)
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		template, err := a.kube.get(ctx, by.GroupKind, by.name)
		if err != nil {
			return nil, err
		}
		config := a.objectFrom(template, name, mark)
		parts = append(parts, config)
		rename([]string{"spec", "bootstrap", "configRef"}, config)
	}
	m.SetName(name)
	m.SetNamespace(v.namespace)
	m.SetLabels(a.labelsOutsidePool(v.pool))
	mark[annotationSkip] = ""
	maps.Copy(mark, a.annotations)
	m.SetAnnotations(mark)
	m.SetFinalizers([]string{a.mark()})
	return append(parts, m), nil
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// objectFrom returns the object of a template, or of a MachinePool's object, as Cluster API makes it. Source:
// controllers/external, GenerateTemplate.
func (r *clusterAccess) objectFrom(template object, name string, annotations map[string]string) object {
	kind, inner, metadata := contentOf(template)
	if inner == nil {
		inner = map[string]any{}
	}
	made := object{&unstructured.Unstructured{Object: map[string]any{"spec": inner}}}
	made.SetAPIVersion(template.GetAPIVersion())
	made.SetKind(kind)
	made.SetNamespace(template.GetNamespace())
	made.SetName(name)
	all, _, _ := unstructured.NestedStringMap(metadata, "annotations")
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, annotations)
	made.SetAnnotations(all)
	labels, _, _ := unstructured.NestedStringMap(metadata, "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelCluster] = r.cluster.Name
	made.SetLabels(labels)
	return made
}

// madeOf returns the kind of the object that is made from a kind.
func madeOf(kind schema.GroupKind) schema.GroupKind {
	if factory, is := machinePoolKindOf(kind); is {
		kind.Kind = factory.of.machine
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, templateSuffix)
	return kind
}

// labelsOutsidePool returns the labels of a pool's Machines without the pool's selector labels.
func (r *clusterAccess) labelsOutsidePool(pool object) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
	selects, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "selector", "matchLabels")
	for key := range selects {
		delete(labels, key)
	}
	delete(labels, labelPool)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelCluster] = r.cluster.Name
	return labels
}

// end deletes the Machine. After Cluster API has removed its finalizers, only the record is left, and end removes it.
func (a apart) end(ctx context.Context) (state cloud.State, err error) {
	err = apiserver.RetryOnConflict(func() error {
		state, err = a.tryEnd(cloud.WithoutReadCache(ctx))
		return err
	})
	return state, err
}

func (a apart) tryEnd(ctx context.Context) (cloud.State, error) {
	if err := a.requireNotMoved(ctx, opEnd); err != nil {
		return cloud.Absent, err
	}
	m, there, err := a.machine(ctx)
	if err != nil {
		return cloud.Absent, err
	}
	if !there {
		return cloud.Absent, a.dropParts(ctx)
	}
	if !m.is(a.ending()) {
		if m, err = a.kube.annotate(ctx, opEnd, m, map[string]any{a.ending(): ""}); err != nil {
			return cloud.Absent, err
		}
	}
	if !m.deleting() {
		return cloud.Deleting, a.kube.remove(ctx, opEnd, m)
	}
	if finalizers := m.GetFinalizers(); len(finalizers) > 1 || !slices.Contains(finalizers, a.mark()) {
		return cloud.Deleting, nil
	}
	_, err = a.kube.patch(ctx, opEnd, m, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, err
	}
	return cloud.Absent, a.dropParts(ctx)
}

// dropParts deletes the objects without a Machine, because Cluster API does not delete them.
func (a apart) dropParts(ctx context.Context) error {
	pool, err := a.kube.get(ctx, core(a.of.kind()), a.of.name)
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, path := range [][]string{pathInfrastructure, pathBootstrap} {
		template := pool.reference(path...)
		if template.name == "" {
			continue
		}
		part, err := a.kube.get(ctx, madeOf(template.GroupKind), a.name())
		if cloud.Is(err, cloud.NotFound) || err == nil && !part.is(a.mark()) {
			continue
		}
		if err != nil {
			return err
		}
		if err := a.kube.remove(ctx, opEnd, part); err != nil {
			return err
		}
	}
	return nil
}
