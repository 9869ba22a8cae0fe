package membership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// recordedRegistry is a registry that records the questions.
type recordedRegistry struct {
	*memory.Cloud
	questions [][]cloud.NodeValues
	err       error
	forgets   bool
}

func (a *recordedRegistry) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	a.questions = append(a.questions, nodes)
	found, err := a.Cloud.PoolsOf(ctx, nodes)
	if a.forgets {
		found = found[1:]
	}
	return found, errors.Join(err, a.err)
}

func registry() *recordedRegistry { return &recordedRegistry{Cloud: memory.New(memory.Config{})} }

func node(name, pool string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": name}, Annotations: map[string]string{"a": name}}}
	if pool != "" {
		n.Spec.ProviderID = "memory:///pools/" + pool + "/instances/" + name
	}
	return n
}

func prototype(pool, poolID, instance string) v1alpha1.Prototype {
	return v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Pool: pool, PoolID: poolID, Donor: v1alpha1.Donor{NodeName: "n", ProviderID: instance}}}
}

func TestEachAsksOnceForAPage(t *testing.T) {
	var nodes []runtime.Object
	for i := range 7 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), []string{"pool1", "", "pool2"}[i%3]))
	}
	r := registry()
	got := map[string]cloud.PoolID{}
	err := membership.Each(t.Context(), fake.NewClientset(nodes...), r, "", func(n *corev1.Node, of cloud.Membership) error {
		if (of.Pool == "") == (of.Why == "") {
			t.Errorf("%s: %+v", n.Name, of)
		}
		got[n.Name] = of.Pool
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const one, two = "memory:///pools/pool1", "memory:///pools/pool2"
	want := map[string]cloud.PoolID{"n0": one, "n1": "", "n2": two, "n3": one, "n4": "", "n5": two, "n6": one}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.questions) != 1 || len(r.questions[0]) != 7 || r.questions[0][2].Labels["l"] != "n2" || r.questions[0][2].Annotations["a"] != "n2" {
		t.Errorf("asked %+v", r.questions)
	}
	r.err = errors.New("away")
	if err := membership.Each(t.Context(), fake.NewClientset(nodes...), r, "",
		func(*corev1.Node, cloud.Membership) error { return nil }); !errors.Is(err, r.err) {
		t.Errorf("a cloud that is away: %v", err)
	}
	r.err = nil
	if err := membership.Each(t.Context(), fake.NewClientset(nodes...), r, "",
		func(*corev1.Node, cloud.Membership) error { return errors.New("enough") }); err == nil {
		t.Error("what is done with a node does not end it")
	}
}

// TestMachinesOfClusterAPI: without a pool, the reason names the Machine of Cluster API. A Machine of a pool counts as
// any other node.
func TestMachinesOfClusterAPI(t *testing.T) {
	annotations := map[string]string{"cluster.x-k8s.io/machine": "md-0-x7", "cluster.x-k8s.io/cluster-namespace": "fleet",
		"cluster.x-k8s.io/cluster-name": "c1"}
	values := []cloud.NodeValues{{ProviderID: "elsewhere:///vm/1", Annotations: annotations},
		{ProviderID: "memory:///pools/pool1/instances/i", Annotations: annotations}}
	found, err := membership.Of(t.Context(), registry(), values...)
	if err != nil || found[0].Pool != "" || !strings.Contains(found[0].Why, "Machine fleet/md-0-x7 of Cluster API's cluster c1") {
		t.Errorf("%+v, %v", found, err)
	}
	if want := (cloud.Membership{Pool: "memory:///pools/pool1"}); found[1] != want {
		t.Errorf("%+v, want %+v", found[1], want)
	}
}

// TestPoolIDHasPrecedence: one request covers all Prototypes without spec.poolID. spec.poolID has precedence over
// the donor's pool.
func TestPoolIDHasPrecedence(t *testing.T) {
	said := rapid.SampledFrom([]string{"", "memory:///pools/pool1", "memory:///pools/pool2"})
	donors := rapid.SampledFrom([]string{"memory:///pools/pool1/instances/a", "memory:///pools/pool3/instances/b", "elsewhere://c"})
	rapid.Check(t, func(t *rapid.T) {
		r := registry()
		var all []v1alpha1.Prototype
		var want []cloud.PoolID
		silent := 0
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			p := prototype("pool", said.Draw(t, "said"), donors.Draw(t, "donor"))
			pool := cloud.PoolID(p.Spec.PoolID)
			if pool == "" {
				silent++
				pool, _ = r.PoolOf(cloud.InstanceID(p.Spec.Donor.ProviderID))
			}
			all, want = append(all, p), append(want, pool)
		}
		found, err := membership.OfPrototypes(t.Context(), r, all)
		if err != nil || len(found) != len(all) {
			t.Fatalf("%d of %d: %v", len(found), len(all), err)
		}
		for i := range found {
			if found[i].Pool != want[i] {
				t.Fatalf("prototype %d is of %q, want %q", i, found[i].Pool, want[i])
			}
			alone, err := membership.OfPrototype(t.Context(), r, &all[i], nil)
			if err != nil || alone != found[i] {
				t.Fatalf("prototype %d is of %+v alone and of %+v among others: %v", i, alone, found[i], err)
			}
		}
		if silent == 0 && len(r.questions) != 0 {
			t.Fatalf("asked %v about prototypes that say it themselves", r.questions)
		}
		if silent > 0 && len(r.questions[0]) != silent {
			t.Fatalf("asked about %d at first, want %d", len(r.questions[0]), silent)
		}
	})
}

func TestNodeHasPrecedenceOverInstance(t *testing.T) {
	r, p := registry(), prototype("pool1", "", "memory:///pools/pool1/instances/a")
	if _, err := membership.OfPrototype(t.Context(), r, &p, node("a", "pool9")); err != nil {
		t.Fatal(err)
	}
	asked := r.questions[0][0]
	if asked.ProviderID != "memory:///pools/pool1/instances/a" || asked.Annotations["a"] != "a" || asked.Labels["l"] != "a" {
		t.Errorf("asked about %+v: the instance is the decision's, the rest the Node's", asked)
	}
}

func TestAnAnswerThatDoesNotFitIsNone(t *testing.T) {
	r := registry()
	r.forgets = true
	if _, err := membership.OfNode(t.Context(), r, node("a", "pool1")); err == nil {
		t.Error("fewer answers than questions are no error")
	}
	r.forgets, r.err = false, errors.New("away")
	p := prototype("pool1", "", "memory:///pools/pool1/instances/a")
	if _, err := membership.OfPrototype(t.Context(), r, &p, nil); !errors.Is(err, r.err) {
		t.Errorf("a cloud that is away: %v", err)
	}
	if _, err := membership.OfPrototypes(t.Context(), r, []v1alpha1.Prototype{p}); !errors.Is(err, r.err) {
		t.Errorf("a cloud that is away: %v", err)
	}
	if _, err := membership.OfNode(t.Context(), r, node("a", "pool1")); !errors.Is(err, r.err) {
		t.Errorf("a cloud that is away: %v", err)
	}
	if found, err := membership.Of(t.Context(), r); err != nil || found != nil {
		t.Errorf("no node: %v, %v", found, err)
	}
}
