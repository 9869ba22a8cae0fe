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
)

// A trial is a separate Machine from the pool's templates, with another image and without the labels of the pool's selector. A
// finalizer keeps the Machine until the end of the trial, because the Machine is the record of the trial.

const (
	opTry = "try a version of"
	opEnd = "end"
)

// finalizerTrial is on a trial's Machine until the end of the trial.
const finalizerTrial = "kamino.dev/trial"

// annotationEnding on a trial's Machine means that Kamino ends the trial. Without it, a deleted Machine is lost.
const annotationEnding = "kamino.dev/trial-ending"

// trialRecord is the record of a trial on its Machine.
type trialRecord struct {
	Pool    cloud.PoolID      `json:"pool"`
	Version string            `json:"version"`
	Name    string            `json:"name"`
	Image   string            `json:"image"`
	Tags    map[string]string `json:"tags,omitempty"`
}

func recordOf(m object) (record trialRecord, is bool) {
	text, found := m.GetAnnotations()[annotationTrial]
	return record, found && json.Unmarshal([]byte(text), &record) == nil
}

// trialName returns the name of a trial's Machine and its objects.
func trialName(of ref, name string) string {
	return shorten(of.name, 40) + "-trial-" + digest([]byte(name))
}

// PreflightTrial implements cloud.PoolProvider. Capacity is unknown in advance.
func (r *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	found := append(v.refusals(), v.refuseSeparateMachine()...)
	lack, err := r.refuseRights(ctx, v, cloud.ForTrialApart)
	if err != nil {
		return nil, err
	}
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		_, err := r.kube.get(ctx, by.GroupKind, by.name)
		if cloud.Is(err, cloud.NotFound) {
			found = append(found, cloud.Refuse(reasonTemplate, fmt.Sprintf("%s names %s, which does not exist", v.ref, by),
				"create the object again, or point the pool at an existing object"))
		} else if err != nil && !cloud.Is(err, cloud.Denied) {
			return nil, err
		}
	}
	return append(found, lack...), nil
}

// trialMachine returns the Machine of a trial; there is false without a Machine.
func (r *clusterAccess) trialMachine(ctx context.Context, of ref, name string) (m object, there bool, err error) {
	m, err = r.kube.get(ctx, core(kindMachine), trialName(of, name))
	if err = r.confirmMissing(ctx, opTry, err); cloud.Is(err, cloud.NotFound) {
		return object{}, false, nil
	}
	return m, err == nil, err
}

// Trial implements cloud.PoolProvider.
func (r *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	of, err := parsePool(spec.Pool)
	if err != nil {
		return cloud.Trial{}, err
	}
	m, there, err := r.trialMachine(ctx, of, spec.Name)
	if err != nil || !there {
		return cloud.Trial{}, err
	}
	out := trialFrom(m)
	if out.State == cloud.Pending && out.Trouble != "" {
		out.Trouble, err = r.refusalOf(ctx, m, out.Trouble)
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

// trialFrom returns the state of a trial from its Machine.
func trialFrom(m object) cloud.Trial {
	record, _ := recordOf(m)
	var built []cloud.Instance
	if id := m.providerID(); id != "" {
		built = []cloud.Instance{{ID: id, Image: record.Image, Power: cloud.PowerRunning, CreatedAt: m.GetCreationTimestamp().Time}}
	}
	switch {
	case m.is(annotationEnding):
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

// Trials implements cloud.PoolProvider with a single list.
func (r *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	machines, err := r.kube.list(ctx, core(kindMachine), r.ofCluster())
	if err != nil {
		return nil, err
	}
	var found []cloud.TrialSpec
	for _, m := range machines {
		record, is := recordOf(m)
		if !is || !slices.Contains(pools, record.Pool) {
			continue
		}
		found = append(found, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: record.Pool, Version: record.Version}, Name: record.Name,
			To: record.Image, Tags: cloud.OwnerTags(record.Tags)})
	}
	return found, nil
}

// EnsureTrial implements cloud.PoolProvider. The Machine is created last, because the other objects have no effect without
// the Machine.
func (r *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ctx = cloud.WithoutReadCache(ctx)
	of, err := parsePool(spec.Pool)
	if err != nil {
		return cloud.Trial{}, err
	}
	if err := r.requireNotMoved(ctx, opTry); err != nil {
		return cloud.Trial{}, err
	}
	m, there, err := r.trialMachine(ctx, of, spec.Name)
	if err != nil {
		return cloud.Trial{}, err
	}
	if there {
		return trialFrom(m), nil
	}
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return cloud.Trial{}, err
	}
	for _, refusal := range slices.Concat(v.refusals(), v.refuseSeparateMachine()) {
		return cloud.Trial{}, refusal.Error(opTry, of.String())
	}
	native, err := r.images.NativeImage(ctx, v.at.place, spec.To)
	if err != nil {
		return cloud.Trial{}, err
	}
	parts, err := r.partsOf(ctx, v, spec, native)
	if err != nil {
		return cloud.Trial{}, err
	}
	for _, part := range parts {
		if _, err := r.kube.create(ctx, opTry, part); err != nil && !cloud.Is(err, cloud.Conflict) {
			return cloud.Trial{}, err
		}
	}
	return cloud.Trial{State: cloud.Pending}, nil
}

// partsOf returns the objects of a trial, the Machine last.
func (r *clusterAccess) partsOf(ctx context.Context, v poolView, spec cloud.TrialSpec, native string) ([]object, error) {
	name := trialName(v.ref, spec.Name)
	record, err := json.Marshal(trialRecord{Pool: v.ref.pool(), Version: spec.Version, Name: spec.Name, Image: spec.To, Tags: spec.Tags})
	if err != nil {
		return nil, fail(opTry, v.ref.String(), err)
	}
	mark := map[string]string{annotationTrial: string(record)}
	infrastructure := r.objectFrom(v.template, name, mark)
	if err := v.of.setImage(specOf(infrastructure, "spec"), native); err != nil {
		return nil, err
	}
	parts := []object{infrastructure}

	inner, _, _ := unstructured.NestedMap(v.pool.Object, "spec", "template", "spec")
	forSeparateMachine(v.pool, inner)
	m := object{&unstructured.Unstructured{Object: map[string]any{"spec": inner}}}
	m.SetGroupVersionKind(v.pool.GroupVersionKind().GroupVersion().WithKind(kindMachine))
	_ = unstructured.SetNestedField(m.Object, r.cluster.Name, "spec", "clusterName")
	rename := func(path []string, part object) {
		_ = unstructured.SetNestedField(m.Object, part.GetKind(), append(slices.Clone(path), "kind")...)
		_ = unstructured.SetNestedField(m.Object, name, append(slices.Clone(path), "name")...)
	}
	rename(pathMachineInfrastructure, infrastructure)
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		template, err := r.kube.get(ctx, by.GroupKind, by.name)
		if err != nil {
			return nil, err
		}
		config := r.objectFrom(template, name, mark)
		parts = append(parts, config)
		rename([]string{"spec", "bootstrap", "configRef"}, config)
	}
	m.SetName(name)
	m.SetNamespace(v.namespace)
	m.SetLabels(r.labelsOutsidePool(v.pool))
	m.SetAnnotations(map[string]string{annotationTrial: string(record), annotationSkip: ""})
	m.SetFinalizers([]string{finalizerTrial})
	return append(parts, m), nil
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

// EndTrial implements cloud.PoolProvider. After Cluster API has removed its finalizers, only the record is left, and
// EndTrial removes it.
func (r *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (state cloud.State, err error) {
	err = retryOnConflict(func() error {
		state, err = r.endTrial(cloud.WithoutReadCache(ctx), spec)
		return err
	})
	return state, err
}

func (r *PoolProvider) endTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	of, err := parsePool(spec.Pool)
	if err != nil {
		return cloud.Absent, err
	}
	if err := r.requireNotMoved(ctx, opEnd); err != nil {
		return cloud.Absent, err
	}
	m, there, err := r.trialMachine(ctx, of, spec.Name)
	if err != nil {
		return cloud.Absent, err
	}
	if !there {
		return cloud.Absent, r.dropParts(ctx, of, spec.Name)
	}
	if !m.is(annotationEnding) {
		if m, err = r.kube.annotate(ctx, opEnd, m, map[string]any{annotationEnding: ""}); err != nil {
			return cloud.Absent, err
		}
	}
	if !m.deleting() {
		return cloud.Deleting, r.kube.remove(ctx, opEnd, m)
	}
	if finalizers := m.GetFinalizers(); len(finalizers) > 1 || !slices.Contains(finalizers, finalizerTrial) {
		return cloud.Deleting, nil
	}
	_, err = r.kube.patch(ctx, opEnd, m, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, err
	}
	return cloud.Absent, r.dropParts(ctx, of, spec.Name)
}

// dropParts deletes the objects of a trial without a Machine, because Cluster API does not delete them.
func (r *clusterAccess) dropParts(ctx context.Context, of ref, name string) error {
	pool, err := r.kube.get(ctx, core(of.kind()), of.name)
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
		part, err := r.kube.get(ctx, madeOf(template.GroupKind), trialName(of, name))
		if cloud.Is(err, cloud.NotFound) || err == nil && !part.is(annotationTrial) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.kube.remove(ctx, opEnd, part); err != nil {
			return err
		}
	}
	return nil
}
