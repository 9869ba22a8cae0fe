package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	pool1   = cloud.PoolID("memory:///pools/pool1")
	pool2   = cloud.PoolID("memory:///pools/pool2")
	shrunk  = cloud.PoolID("memory:///pools/shrunk")
	unknown = cloud.PoolID("memory:///pools/unknown")
)

func node(name string, provider cloud.InstanceID, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: string(provider)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func prototype(name, version, pool string, donor cloud.InstanceID) *v1alpha1.Prototype {
	return &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.PrototypeSpec{Pool: pool, Version: version, Donor: v1alpha1.Donor{ProviderID: string(donor)}},
	}
}

// testEnv is a cluster with two pools that have nodes, one pool without nodes, and nodes without a pool.
type testEnv struct {
	Finder
	memory *memory.Cloud
	kube   *fake.Clientset
}

func newTestEnv(t *testing.T, funcs interceptor.Funcs) *testEnv {
	t.Helper()
	c := memory.New(memory.Config{})
	for _, name := range []string{"pool1", "pool2", "shrunk"} {
		id := c.AddPool(memory.PoolSpec{Name: name, Image: "memory:///pools/" + name + "/versions/2026.03.01"})
		for _, version := range []string{"2026.02.01", "2026.03.01"} {
			c.AddVersion(id, memory.VersionSpec{Version: version, CreatedAt: time.Unix(1770000000, 0),
				Tags: map[string]string{cloud.TagUID: "uid-" + name + "-" + version}})
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		c.AddInstance(pool1, id)
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset(
		node("b", cloud.InstanceID(pool2)+"/instances/1", corev1.ConditionTrue), node("a", cloud.InstanceID(pool1)+"/instances/1", corev1.ConditionTrue),
		node("upper", cloud.InstanceID(strings.ToUpper(string(pool1)))+"/INSTANCES/2", corev1.ConditionFalse),
		node("master", "elsewhere://vm/7", corev1.ConditionTrue), node("bare", "", corev1.ConditionTrue),
	)
	objects := clientfake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(
		prototype("pool1-2026.03.01", "2026.03.01", "pool1", cloud.InstanceID(pool1)+"/instances/1"),
		prototype("shrunk-2026.03.01", "2026.03.01", "shrunk", cloud.InstanceID(shrunk)+"/instances/1"),
		prototype("lost", "2026.03.01", "lost", "elsewhere://vm/8"),
	).Build()
	return &testEnv{Finder: Finder{Cluster: &cluster.Connection{Client: objects, Kube: kube}, Cloud: c}, memory: c, kube: kube}
}

// TestPoolByName tests which pool a name selects, among the pools of nodes, of captures and of the cloud.
func TestPoolByName(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	for text, want := range map[string]struct {
		id         cloud.PoolID
		prototypes int
		why        string
	}{
		"pool1": {pool1, 1, ""}, "POOL2": {pool2, 0, ""}, "1": {pool1, 1, ""}, "shrunk": {shrunk, 1, ""}, string(pool2): {pool2, 0, ""},
		"pool": {why: "2 pools have pool in the name"}, "polo1": {why: "did you mean pool1?"}, "": {why: "not found"},
	} {
		p, err := s.Named(t.Context(), text)
		var refused *cluster.Refused
		switch {
		case (err == nil) != (want.why == ""), err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want.why)):
			t.Errorf("%q: %v", text, err)
		case err == nil && (p.ID != want.id || len(p.Prototypes) != want.prototypes):
			t.Errorf("%q is %s with %d captures", text, p.ID, len(p.Prototypes))
		}
	}
	some, err := s.Some(t.Context(), 500)
	if err != nil || !slices.Equal(some, []cloud.PoolID{pool1, pool2}) {
		t.Errorf("some are %v, %v", some, err)
	}
}

func TestHistory(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	report := func(name string) history.History {
		t.Helper()
		p, err := s.Named(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.History(t.Context(), p, 0)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := report("pool1")
	// An instance has the name of its Node, in any case of the ID. Before the Node joins, the instance has its ID.
	if want := []string{"a", string(pool1) + "/instances/3", "upper"}; !h.Counted || len(h.Versions) != 2 ||
		!slices.Equal(slices.Sorted(slices.Values(h.Versions[0].Nodes)), want) {
		t.Errorf("%+v", h)
	}
	if h = report("shrunk"); !h.Counted || len(h.Versions[0].Nodes) != 0 {
		t.Errorf("without nodes: %+v", h)
	}
	var reported error
	s.Uncounted = func(err error) { reported = err }
	s.memory.Forbid("Instances")
	if h = report("pool1"); h.Counted || !cloud.Is(reported, cloud.Denied) || h.Versions[0].Nodes != nil {
		t.Errorf("uncounted: %v, %+v", reported, h)
	}
	s.Uncounted = nil
	report("pool1")
	for _, op := range []string{"Pool", "Images"} {
		s := newTestEnv(t, interceptor.Funcs{})
		s.memory.Forbid(op)
		if _, err := s.History(t.Context(), newPool(pool1), 0); !cloud.Is(err, cloud.Denied) {
			t.Errorf("%s is forbidden: %v", op, err)
		}
	}
}

// listed lists all versions as unfinished, and adds a version that does not exist.
type listed struct{ *memory.Cloud }

func (l listed) Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error) {
	images, err := l.Cloud.Images(ctx, pool)
	for i := range images {
		images[i].State, images[i].Tags = cloud.Pending, nil
	}
	return append(images, cloud.Image{Version: "2026.03.02", State: cloud.Pending}), err
}

func TestUnfinishedVersions(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	s.Cloud = listed{s.memory}
	h, err := s.History(t.Context(), newPool(pool1), 0)
	if err != nil || len(h.Versions) != 3 {
		t.Fatalf("%v, %+v", err, h)
	}
	if h.Versions[0].State != cloud.Pending || h.Versions[1].State != cloud.Complete || h.Versions[2].State != cloud.Complete {
		t.Errorf("%+v", h.Versions)
	}
}

func TestStandings(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	say := func(all []Status) (messages []string) {
		for _, p := range all {
			messages = append(messages, fmt.Sprintf("%s %d/%d %d %s %v", p.Name, p.ReadyNodes, p.Nodes, len(p.Images), p.Recipe.Version, p.Err != nil))
		}
		return messages
	}
	for only, want := range map[string][]string{
		"":       {"pool1 1/2 2 2026.03.01 false", "pool2 1/1 2 2026.03.01 false"},
		"pool2":  {"pool2 1/1 2 2026.03.01 false"},
		"shrunk": {"shrunk 0/0 2 2026.03.01 false"},
	} {
		if all, err := s.Statuses(t.Context(), only); err != nil || !slices.Equal(say(all), want) {
			t.Errorf("%q: %v, %q", only, err, say(all))
		}
	}
	var refused *cluster.Refused
	if _, err := s.Statuses(t.Context(), "pool"); !errors.As(err, &refused) {
		t.Errorf("two pools match: %v", err)
	}
	// An error for one pool hides no other pool.
	faulty := memory.NewFaulty(s.memory, func(c memory.Call) memory.Outcome {
		if c.Op == "Images" {
			return memory.FailBefore(cloud.Unavailable)
		}
		return memory.Pass()
	})
	s.Cloud = faulty
	all, err := s.Statuses(t.Context(), "")
	if err != nil || len(all) != 2 || !cloud.Is(all[0].Err, cloud.Unavailable) || all[0].Nodes != 2 || all[0].Recipe.Version == "" {
		t.Errorf("%v, %+v", err, all)
	}
}

// TestManyPoolsAtOnce tests more pools than the limit of parallel requests.
func TestManyPoolsAtOnce(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	const many = 48
	for i := range many {
		name := fmt.Sprintf("many%02d", i)
		id := s.memory.AddPool(memory.PoolSpec{Name: name, Image: "generic"})
		if err := s.kube.Tracker().Add(node(name, cloud.InstanceID(id)+"/instances/1", corev1.ConditionTrue)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Statuses(t.Context(), "")
	if err != nil || len(all) != many+2 {
		t.Fatalf("%v, %d pools", err, len(all))
	}
	for i, p := range all {
		if p.Err != nil || i > 0 && p.Name <= all[i-1].Name || p.Nodes == 0 {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

// TestTheAPIServerIsAway: an API server that is away is an error, not an unknown pool.
func TestTheAPIServerIsAway(t *testing.T) {
	away := apierrors.NewServiceUnavailable("away")
	s := newTestEnv(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }})
	if _, err := s.Named(t.Context(), "pool1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("no Prototypes: %v", err)
	}
	s.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	for name, look := range map[string]func() error{
		"named":     func() error { _, err := s.Named(t.Context(), "pool1"); return err },
		"some":      func() error { _, err := s.Some(t.Context(), 5); return err },
		"standings": func() error { _, err := s.Statuses(t.Context(), ""); return err },
	} {
		if err := look(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	absent := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}
	s = newTestEnv(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return absent }})
	if p, err := s.Named(t.Context(), "pool1"); err != nil || p.ID != pool1 || p.Prototypes != nil {
		t.Errorf("a cluster without Kamino's kinds: %+v, %v", p, err)
	}
}

// TestLeft: Left returns an image only if the same capture created the image.
func TestLeft(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	for name, test := range map[string]struct {
		p     *v1alpha1.Prototype
		state cloud.State
		named bool
	}{
		"the recipe names it":   {prototype("pool1-2026.03.01", "2026.03.01", "pool1", cloud.InstanceID(pool1)+"/instances/1"), cloud.Complete, true},
		"the recipe names none": {prototype("pool1-2026.02.01", "2026.02.01", "pool1", cloud.InstanceID(pool1)+"/instances/1"), cloud.Complete, false},
		"another one made it":   {prototype("another", "2026.03.01", "pool1", cloud.InstanceID(pool1)+"/instances/1"), cloud.Absent, false},
		"it was not made":       {prototype("pool1-2026.04.01", "2026.04.01", "pool1", cloud.InstanceID(pool1)+"/instances/1"), cloud.Absent, false},
		"its pool is none":      {prototype("lost", "2026.03.01", "lost", "elsewhere://vm/8"), cloud.Absent, false},
		"its donor is unknown":  {prototype("lost", "2026.03.01", "lost", ""), cloud.Absent, false},
	} {
		left, err := s.Left(t.Context(), test.p)
		if err != nil || left.Image.State != test.state || left.Named != test.named {
			t.Errorf("%s: %v, %+v", name, err, left)
		}
	}
	s.memory.Forbid("Image")
	if _, err := s.Left(t.Context(), prototype("pool1-2026.03.01", "2026.03.01", "pool1", cloud.InstanceID(pool1)+
		"/instances/1")); !cloud.Is(err, cloud.Denied) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := s.Left(t.Context(), prototype("x", "2026.03.01", "unknown", cloud.InstanceID(unknown)+"/instances/1")); err == nil {
		t.Error("a pool that the cloud does not know is reported")
	}
}

// TestNodesComeInPages: each node counts exactly once.
func TestNodesComeInPages(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	pages := 0
	s.kube.PrependReactor("list", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if options := a.(clienttesting.ListActionImpl).ListOptions; options.Limit < 100 || options.Limit > 500 {
			t.Errorf("pages of %d", options.Limit)
		}
		list := &corev1.NodeList{}
		for i := range 10 {
			list.Items = append(list.Items,
				*node(fmt.Sprint(pages*10+i), cloud.InstanceID(fmt.Sprintf("memory:///pools/pool%d/instances/%d", i%2+1, i)), corev1.ConditionTrue))
		}
		if pages++; pages < 3 {
			list.Continue = "more"
		}
		return true, list, nil
	})
	all, err := s.Statuses(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].Nodes != 15 || all[1].ReadyNodes != 15 || pages != 3 {
		t.Errorf("%v, %d pages, %+v", err, pages, all)
	}
}

// TestCrowdAfter: a rollback to a version without nodes adds one image.
func TestCrowdAfter(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	h := history.History{Pool: "pool1", PoolID: pool1, Recipe: cloud.Recipe{Image: string(pool1) + "/versions/2026.03.01", Version: "2026.03.01"}}
	for name, test := range map[string]struct {
		limit int
		to    string
		says  bool
	}{
		"no limit": {0, "2026.02.01", false}, "far from it": {20, "2026.02.01", false}, "near it": {2, "2026.02.01", true},
		"to no version": {2, "2026.04.01", false},
	} {
		s.Cloud = imageLimitCloud{s.memory, test.limit}
		if message := s.ImageLimitWarning(t.Context(), h, test.to); (message != "") != test.says || test.says && !strings.Contains(message, "pool1") {
			t.Errorf("%s: %q", name, message)
		}
	}
	s.memory.Forbid("Instances")
	if message := s.ImageLimitWarning(t.Context(), h, "2026.02.01"); message != "" {
		t.Errorf("uncounted: %q", message)
	}
}

// imageLimitCloud limits the number of images of a pool's instances.
type imageLimitCloud struct {
	*memory.Cloud
	most int
}

func (l imageLimitCloud) MaxImages(cloud.PoolID) int { return l.most }
