package capi

import (
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

// A trial is a Machine of its own: infrastructure and bootstrap configuration are made from the pool's templates as a MachineSet makes
// them, but for the image, and the Machine that names them has none of the labels by which the pool would know it as its own. The pool is
// not touched. A finalizer keeps the Machine until the trial is ended, whoever deletes it: it is what tells that it was begun.

const (
	opTry = "try a version of"
	opEnd = "end"
)

// finalizerTrial is on a trial's Machine until the trial is ended.
const finalizerTrial = "kamino.dev/trial"

// annotationEnding on a trial's Machine tells that it was not lost, but ended.
const annotationEnding = "kamino.dev/trial-ending"

// trialRecord is what a trial's Machine says of it.
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

// trialName is the name of a trial's Machine and of what it is made from.
func trialName(of ref, name string) string {
	return shorten(of.name, 40) + "-trial-" + digest([]byte(name))
}

func besideOnly(of ref) cloud.Refusal {
	return cloud.Refuse(cloud.TrialBesideOnly, fmt.Sprintf("%s: with Cluster API a version is tried by a Machine of its own, beside the pool", of), "try it Apart")
}

// PreflightTrial implements cloud.TrialRunner. Whether there will be room the cloud tells the infrastructure provider, and nobody before.
func (r *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	if spec.InPool {
		return []cloud.Refusal{besideOnly(v.ref)}, nil
	}
	found := append(v.refusals(), v.refuseBeside()...)
	lack, err := r.refuseRights(ctx, v, cloud.ForTrialApart)
	if err != nil {
		return nil, err
	}
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		_, err := r.kube.get(ctx, by.GroupKind, by.name)
		if cloud.Is(err, cloud.NotFound) {
			found = append(found, cloud.Refuse(reasonTemplate, fmt.Sprintf("%s names %s, which does not exist", v.ref, by), "make it again, or point the pool at one that exists"))
		} else if err != nil && !cloud.Is(err, cloud.Denied) {
			return nil, err
		}
	}
	return append(found, lack...), nil
}

// trialMachine is the Machine of a trial; none if there is none.
func (r *world) trialMachine(ctx context.Context, of ref, name string) (m object, there bool, err error) {
	m, err = r.kube.get(ctx, core(kindMachine), trialName(of, name))
	if err = r.believed(ctx, opTry, err); cloud.Is(err, cloud.NotFound) {
		return object{}, false, nil
	}
	return m, err == nil, err
}

// Trial implements cloud.TrialRunner.
func (r *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	of, err := parsePool(spec.Pool)
	if err != nil || spec.InPool {
		return cloud.Trial{}, err
	}
	m, there, err := r.trialMachine(ctx, of, spec.Name)
	if err != nil || !there {
		return cloud.Trial{}, err
	}
	return trialFrom(m), nil
}

// trialFrom reads how far a trial is off its Machine.
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

// provisioned tells that a Machine's infrastructure is there.
func (o object) provisioned() bool {
	return o.truth("status", "initialization", "infrastructureProvisioned") || o.truth("status", "infrastructureReady")
}

// conditionInfrastructure is a Machine's condition that its infrastructure is there, in both versions.
const conditionInfrastructure = "InfrastructureReady"

// trouble is what a Machine says of what is in its way: why it failed, else the message of the condition of its infrastructure, as long
// as that is a failure and no waiting.
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

// Trials implements cloud.TrialRunner, in one list.
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
		found = append(found, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: record.Pool, Version: record.Version}, Name: record.Name, To: record.Image, Tags: cloud.OwnerTags(record.Tags)})
	}
	return found, nil
}

// EnsureTrial implements cloud.TrialRunner. The Machine is made last: what it is made from does nothing without it.
func (r *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ctx = cloud.WithoutReadCache(ctx)
	of, err := parsePool(spec.Pool)
	if err != nil {
		return cloud.Trial{}, err
	}
	if spec.InPool {
		return cloud.Trial{}, besideOnly(of).Error(opTry, of.String())
	}
	if err := r.atHome(ctx, opTry); err != nil {
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
	for _, refusal := range slices.Concat(v.refusals(), v.refuseBeside()) {
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

// partsOf are the objects of a trial, its Machine last.
func (r *world) partsOf(ctx context.Context, v view, spec cloud.TrialSpec, native string) ([]object, error) {
	name := trialName(v.ref, spec.Name)
	record, err := json.Marshal(trialRecord{Pool: v.ref.pool(), Version: spec.Version, Name: spec.Name, Image: spec.To, Tags: spec.Tags})
	if err != nil {
		return nil, fail(opTry, v.ref.String(), err)
	}
	mark := map[string]string{annotationTrial: string(record)}
	infrastructure := r.from(v.template, name, mark)
	if err := v.of.setImage(specOf(infrastructure, "spec"), native); err != nil {
		return nil, err
	}
	parts := []object{infrastructure}

	inner, _, _ := unstructured.NestedMap(v.pool.Object, "spec", "template", "spec")
	ofMachinePool(v.pool, inner)
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
		config := r.from(template, name, mark)
		parts = append(parts, config)
		rename([]string{"spec", "bootstrap", "configRef"}, config)
	}
	m.SetName(name)
	m.SetNamespace(v.namespace)
	m.SetLabels(r.labelsBeside(v.pool))
	m.SetAnnotations(map[string]string{annotationTrial: string(record), annotationSkip: ""})
	m.SetFinalizers([]string{finalizerTrial})
	return append(parts, m), nil
}

// from makes the object that a template, or what a MachinePool names in its place, is for, as Cluster API makes it. Source:
// controllers/external, GenerateTemplate.
func (r *world) from(template object, name string, annotations map[string]string) object {
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

// madeOf is the kind of what is made from an object of a kind.
func madeOf(kind schema.GroupKind) schema.GroupKind {
	if factory, is := pooledOf(kind); is {
		kind.Kind = factory.of.machine
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, templateSuffix)
	return kind
}

// labelsBeside are a pool's labels of its Machines without those by which it selects them.
func (r *world) labelsBeside(pool object) map[string]string {
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

// CloseTrial implements cloud.TrialRunner. The pool was not touched.
func (r *PoolProvider) CloseTrial(context.Context, cloud.TrialSpec) error { return nil }

// EndTrial implements cloud.TrialRunner. Once Cluster API has let go of the Machine, nothing of it is left but what tells of the trial.
func (r *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (state cloud.State, err error) {
	err = again(func() error {
		state, err = r.endTrial(cloud.WithoutReadCache(ctx), spec)
		return err
	})
	return state, err
}

func (r *PoolProvider) endTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	of, err := parsePool(spec.Pool)
	if err != nil || spec.InPool {
		return cloud.Absent, err
	}
	if err := r.atHome(ctx, opEnd); err != nil {
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
	if _, err := r.kube.patch(ctx, opEnd, m, map[string]any{"metadata": map[string]any{"finalizers": []string{}}}); err != nil && !cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, err
	}
	return cloud.Absent, r.dropParts(ctx, of, spec.Name)
}

// dropParts deletes what was made for a trial whose Machine is not there: nobody else would.
func (r *world) dropParts(ctx context.Context, of ref, name string) error {
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
