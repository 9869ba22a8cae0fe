package karpenter

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// groups is a PoolProvider of another kind.
type groups struct{ cloud.Pools }

func (groups) PoolsOf(_ context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	found := make([]cloud.Membership, len(nodes))
	for i := range found {
		found[i].Why = "of groups"
	}
	return found, nil
}

// TestTrial: a trial is a NodeClaim on a copy of the class, as Karpenter's definitions accept them. Class and NodePools stay as they are.
// The trial ends only after Karpenter has ended the instance.
func TestTrial(t *testing.T) {
	e := newTestEnv(t, guarded)
	e.claim("one", "aws:///eu-central-1a/i-00000000000000001", stock)
	before := e.now()
	spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: e.id, Version: "v1"}, Name: "capture-1",
		MachineType: "m6i.4xlarge", To: region + "/v1", Tags: map[string]string{cloud.TagUID: "u"}}
	made, err := e.EnsureTrial(t.Context(), spec)
	e.must(err)
	if made.State != cloud.Pending {
		t.Errorf("the trial is %+v", made)
	}
	a := e.apart(trials, e.id, spec.Name)
	class, claim := e.read(classes.Resource, a.name()), e.read(claims.Resource, a.name())
	want := before.Object["spec"].(map[string]any)
	want["amiSelectorTerms"], want["amiFamily"], want["tags"] = []any{map[string]any{"id": "ami-" + digest("v1")}}, "AL2023", map[string]any{}
	if diff := cmp.Diff(want, class.Object["spec"]); diff != "" {
		t.Errorf("the class of the trial (-want +have):\n%s", diff)
	}
	requirements, _, _ := unstructured.NestedSlice(claim.Object, "spec", "requirements")
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	if diff := cmp.Diff([]any{in(labelArch, "amd64"), in(labelType, "m6i.4xlarge"), in(labelCapacityType, "on-demand")}, requirements); diff != "" {
		t.Errorf("the requirements (-want +have):\n%s", diff)
	}
	if claim.GetLabels()["example.com/tier"] != "free" || claim.GetLabels()[labelPool] != "" {
		t.Errorf("the labels are %v", claim.GetLabels())
	}
	// The work of Karpenter: a finalizer, an instance.
	e.merge(claims, a.name(), `{"metadata":{"finalizers":["kamino.dev/trial","karpenter.sh/termination"]}}`)
	e.statusOf(claims, a.name(), `{"providerID":"aws:///eu-central-1a/i-00000000000000007","conditions":[{"type":"Launched","status":"True","reason":"Launched","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`)
	have, err := e.Trial(t.Context(), spec)
	if err != nil || have.State != cloud.Complete || len(have.Instances) != 1 || have.Instances[0].Image != spec.To {
		t.Errorf("the trial is %+v, %v", have, err)
	}
	if again, err := e.EnsureTrial(t.Context(), spec); err != nil || again.State != cloud.Complete {
		t.Errorf("a repeated call: %+v, %v", again, err)
	}
	all, err := e.Trials(t.Context(), e.id)
	if err != nil || len(all) != 1 || all[0].Name != spec.Name || all[0].Pool != e.id || all[0].Version != "v1" || all[0].Tags[cloud.TagUID] != "u" {
		t.Errorf("the trials are %+v, %v", all, err)
	}
	if other, err := e.Workshops(t.Context(), e.id); err != nil || len(other) > 0 {
		t.Errorf("the workshops are %+v, %v", other, err)
	}
	scope, err := e.PoolsInScope(t.Context(), e.id)
	if err != nil || len(scope) != 1 || scope[0] != e.id {
		t.Errorf("the pools are %v, %v", scope, err)
	}
	members, err := e.PoolsOf(t.Context(), []cloud.NodeValues{ofKarpenter("aws:///eu-central-1a/i-00000000000000007")})
	if err != nil || members[0].Pool != "" {
		t.Errorf("the node of the trial is of %+v, %v", members, err)
	}

	for range 2 {
		if state, err := e.EndTrial(t.Context(), spec); err != nil || state != cloud.Deleting {
			t.Fatalf("the instance runs, and the end is %s, %v", state, err)
		}
	}
	if e.read(classes.Resource, a.name()) == nil {
		t.Error("the class is gone before the instance")
	}
	if have, err := e.Trial(t.Context(), spec); err != nil || have.State != cloud.Deleting {
		t.Errorf("the trial is %+v, %v", have, err)
	}
	e.merge(claims, a.name(), `{"metadata":{"finalizers":["kamino.dev/trial"]}}`)
	for _, want := range []cloud.State{cloud.Deleting, cloud.Absent, cloud.Absent} {
		if state, err := e.EndTrial(t.Context(), spec); err != nil || state != want {
			t.Errorf("the end is %q, %v, want %q", state, err, want)
		}
	}
	if e.read(classes.Resource, a.name()) != nil || e.read(claims.Resource, a.name()) != nil {
		t.Error("objects of the trial are left")
	}
	if now := e.now(); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the trial wrote the class: %s", cmp.Diff(before, now))
	}
}

// TestLostTrial: Karpenter deletes a NodeClaim that it cannot launch. The trial has failed without a word about the image, and is not
// built again before its end.
func TestLostTrial(t *testing.T) {
	e := newTestEnv(t, guarded)
	spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: e.id, Version: "v1"}, Name: "capture-2", To: region + "/v1"}
	_, err := e.EnsureTrial(t.Context(), spec)
	e.must(err)
	a := e.apart(trials, e.id, spec.Name)
	e.must(e.objects.Resource(claims).Delete(t.Context(), a.name(), metav1.DeleteOptions{}))
	for range 2 {
		have, err := e.EnsureTrial(t.Context(), spec)
		if err != nil || have.State != cloud.Failed || !have.LacksCapacity {
			t.Errorf("the trial is %+v, %v", have, err)
		}
	}
	for _, want := range []cloud.State{cloud.Deleting, cloud.Absent} {
		if state, err := e.EndTrial(t.Context(), spec); err != nil || state != want {
			t.Errorf("the end is %q, %v, want %q", state, err, want)
		}
	}
}

// TestWorkshop: a workshop has the image of the pool, the tag of the IAM policy, and a taint for pods of users.
func TestWorkshop(t *testing.T) {
	e := newTestEnv(t, guarded)
	spec := cloud.WorkshopSpec{Pool: e.id, Name: "capture-3", InstanceType: "m7i.large", Tags: map[string]string{cloud.TagUID: "u", cloud.TagEndsAt: "2026-01-01T00:00:00Z"}}
	_, err := e.EnsureWorkshop(t.Context(), spec)
	e.must(err)
	a := e.apart(workshops, e.id, spec.Name)
	class, claim := e.read(classes.Resource, a.name()), e.read(claims.Resource, a.name())
	tags, _, _ := unstructured.NestedStringMap(class.Object, "spec", "tags")
	terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
	taints, _, _ := unstructured.NestedSlice(claim.Object, "spec", "taints")
	if tags[cloud.TagWorkshop] != spec.Name || len(taints) != 1 {
		t.Errorf("tags %v, taints %v", tags, taints)
	}
	if diff := cmp.Diff([]any{map[string]any{"id": stock}}, terms); diff != "" {
		t.Errorf("the terms (-want +have):\n%s", diff)
	}
	for _, want := range []cloud.State{cloud.Deleting, cloud.Deleting, cloud.Absent} {
		if state, err := e.EndWorkshop(t.Context(), spec); err != nil || state != want {
			t.Errorf("the end is %q, %v, want %q", state, err, want)
		}
	}
}

// read returns an object; nil without one.
func (e *testEnv) read(resource, name string) *unstructured.Unstructured {
	e.Helper()
	kind := classes
	if resource == claims.Resource {
		kind = claims
	}
	o, err := e.objects.Resource(kind).Get(e.Context(), name, metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	e.must(err)
	return o
}
