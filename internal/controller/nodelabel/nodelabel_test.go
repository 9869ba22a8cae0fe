package nodelabel

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const version = "2026.03.01"

// testEnv is a cloud with one pool, a cluster, and a labeler with counted lists, inside a synctest bubble.
type testEnv struct {
	t       *testing.T
	cloud   *memory.Cloud
	pool    cloud.PoolID
	kube    *fake.Clientset
	events  *watch.FakeWatcher
	labeler *Labeler
	lists   int
	maxAge  time.Duration
	fail    error
	joined  []string
}

// Instances counts the lists.
func (s *testEnv) Instances(ctx context.Context, pool cloud.PoolID, maxAge time.Duration) ([]cloud.Instance, error) {
	s.maxAge = maxAge
	s.lists++
	if s.fail != nil {
		return nil, s.fail
	}
	return s.cloud.Instances(ctx, pool)
}

func newTestEnv(t *testing.T) *testEnv {
	s := &testEnv{t: t, cloud: memory.New(memory.Config{}), kube: fake.NewClientset(), events: watch.NewFakeWithChanSize(100, false)}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1"})
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := metadatafake.NewSimpleMetadataClient(scheme)
	objects.PrependReactor("list", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
		if got := a.(kubetesting.ListAction).GetListRestrictions().Labels.String(); got != unlabelled {
			t.Errorf("nodes with %q are watched, want %q", got, unlabelled)
		}
		return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
	})
	objects.PrependWatchReactor("nodes", kubetesting.DefaultWatchReactor(s.events, nil))
	s.labeler = &Labeler{
		Kube: s.kube, Metadata: objects, Cloud: s.cloud, Instances: s.Instances, Log: logr.Discard(), Pace: Pace{Settle: time.Nanosecond},
		Joined: func(version string, took time.Duration) {
			s.joined = append(s.joined, fmt.Sprintf("%s %s", version, took))
		},
	}
	return s
}

// start runs the labeler until the labeler is idle.
func (s *testEnv) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error)
	go func() { ended <- s.labeler.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	s.after(time.Nanosecond)
}

// node creates a node, Ready since now or not, and an event of the watch.
func (s *testEnv) node(name string, ready bool) *corev1.Node {
	s.t.Helper()
	id := s.cloud.AddInstance(s.pool, name)
	return s.nodeOf(name, string(id), ready)
}

func (s *testEnv) nodeOf(name, providerID string, ready bool) *corev1.Node {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()}}
	n.Spec.ProviderID = providerID
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
	if ready {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if err := s.kube.Tracker().Add(n); err != nil {
		s.t.Fatal(err)
	}
	s.events.Add(metadataOf(n))
	return n
}

func metadataOf(n *corev1.Node) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: *n.ObjectMeta.DeepCopy()}
}

// becomes is a kubelet's report.
func (s *testEnv) becomes(n *corev1.Node, status corev1.ConditionStatus) {
	s.t.Helper()
	fresh, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if fresh.Status.Conditions[0].Status != status {
		fresh.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}
	}
	if err := s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), fresh, ""); err != nil {
		s.t.Fatal(err)
	}
	s.events.Modify(metadataOf(fresh))
}

func (s *testEnv) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *testEnv) labels() map[string]string {
	s.t.Helper()
	list, err := s.kube.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	labels := map[string]string{}
	for _, n := range list.Items {
		labels[n.Name] = n.Labels[v1alpha1.VersionLabel]
	}
	return labels
}

func (s *testEnv) want(labels map[string]string, lists int) {
	s.t.Helper()
	if diff := cmp.Diff(labels, s.labels()); diff != "" {
		s.t.Errorf("labels (-want +got):\n%s", diff)
	}
	if s.lists != lists {
		s.t.Errorf("the cloud was asked %d times, want %d", s.lists, lists)
	}
}

// promote lets the pool build its next instances from a version.
func (s *testEnv) promote() {
	s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version})
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+version)
}

func TestNodesThatJoinAreLabelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.node("old", true)
		s.promote()
		s.start()
		s.node("young", true)
		s.node("younger", true)
		s.nodeOf("master", "foreign://0", true)
		s.after(10 * time.Second)
		s.want(map[string]string{"old": "generic", "young": version, "younger": version, "master": ""}, 1)
		if len(s.joined) != 3 {
			t.Errorf("joined: %v", s.joined)
		}
	})
}

// TestAQuietClusterCostsNothing: heartbeats of nodes that stay without a label cause no request within an hour.
func TestAQuietClusterCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.labeler.Pace.Refresh = 24 * time.Hour
		s.start()
		s.node("a", true)
		master := s.nodeOf("master", "foreign://0", true)
		s.after(time.Minute)
		before := len(s.kube.Actions())
		for range 20 {
			s.becomes(master, corev1.ConditionTrue)
			s.after(10 * time.Second)
		}
		s.want(map[string]string{"a": "generic", "master": ""}, 1)
		lists := 0
		for _, action := range s.kube.Actions()[before:] {
			if action.GetVerb() == "list" {
				lists++
			}
		}
		if lists > 1 { // the one of s.want
			t.Errorf("nodes were listed %d times for the heartbeats of one that has no pool", lists-1)
		}
	})
}

// TestJoiningIsMeasuredWhenTheNodeIsReady: the label waits for Ready, within a limit.
func TestJoiningIsMeasuredWhenTheNodeIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.start()
		slow, never := s.node("slow", false), s.node("never", false)
		s.after(90 * time.Second)
		s.want(map[string]string{"slow": "", "never": ""}, 0)
		s.becomes(slow, corev1.ConditionTrue)
		s.becomes(never, corev1.ConditionFalse)
		s.after(30 * time.Second)
		s.want(map[string]string{"slow": "generic", "never": ""}, 1)
		if diff := cmp.Diff([]string{"generic 1m30s"}, s.joined); diff != "" {
			t.Errorf("joined (-want +got):\n%s", diff)
		}
		s.after(9 * time.Minute)
		s.want(map[string]string{"slow": "generic", "never": "generic"}, s.lists)
		if len(s.joined) != 1 {
			t.Errorf("a node that is not Ready has joined: %v", s.joined)
		}
	})
}

// TestARebuiltInstanceIsFound: the Node keeps the old label until the next list of all pools.
func TestARebuiltInstanceIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.promote()
		s.start()
		n := s.node("a", true)
		n.Labels = map[string]string{v1alpha1.VersionLabel: "2026.02.01"}
		if err := s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
			t.Fatal(err)
		}
		s.after(7 * time.Minute)
		s.want(map[string]string{"a": version}, 1)
		if len(s.joined) != 0 {
			t.Errorf("a node that was labelled before has joined: %v", s.joined)
		}
		s.after(24 * time.Hour)
		s.want(map[string]string{"a": version}, 25)
	})
}

// TestASharedListServesANewNode: a list since the creation of the Node serves the labeler; a retry and the list of all pools
// need a new list.
func TestASharedListServesANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.start()
		slow := s.node("slow", false)
		s.after(40 * time.Second)
		s.becomes(slow, corev1.ConditionTrue)
		s.node("fast", true)
		s.after(10 * time.Second)
		if want := s.labeler.Pace.orDefaults().Gather; s.maxAge.Round(time.Second) != want {
			t.Errorf("a list of %s serves a Node that is %s old", s.maxAge, want)
		}
		s.nodeOf("ghost", slow.Spec.ProviderID+"9", true)
		s.after(4 * time.Minute)
		if want := s.labeler.Pace.orDefaults().Again; s.maxAge != want {
			t.Errorf("a list of %s serves a retry after %s", s.maxAge, want)
		}
		s.after(2 * time.Minute)
		if s.maxAge != 0 {
			t.Errorf("a list of %s serves the list of all pools", s.maxAge)
		}
	})
}

// TestAnErrorIsTriedAgainAtItsPace: at the cloud's time, and not with each event.
func TestAnErrorIsTriedAgainAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.labeler.Pace.Refresh = 24 * time.Hour
		s.fail = &cloud.Error{Kind: cloud.Throttled, Op: "list", RetryAfter: 3 * time.Minute}
		s.start()
		n := s.node("a", true)
		for range 16 {
			s.after(10 * time.Second)
			s.becomes(n, corev1.ConditionTrue)
		}
		s.want(map[string]string{"a": ""}, 1)
		s.fail = nil
		s.after(time.Minute)
		s.want(map[string]string{"a": "generic"}, 2)
	})
}

// TestANodeThatItsCloudDoesNotList waits a minute, also with heartbeats.
func TestANodeThatItsCloudDoesNotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.labeler.Pace.Refresh = 24 * time.Hour
		s.start()
		known := s.node("a", true)
		s.after(10 * time.Second)
		ghost := s.nodeOf("ghost", known.Spec.ProviderID+"9", true)
		nameless := s.nodeOf("nameless", "", true)
		for range 20 {
			s.after(10 * time.Second)
			s.becomes(ghost, corev1.ConditionTrue)
			s.becomes(nameless, corev1.ConditionTrue)
		}
		if s.lists < 3 || s.lists > 5 {
			t.Errorf("the cloud was asked %d times in three minutes", s.lists)
		}
	})
}

// TestClocksThatDiffer: a node that the cloud lists later gets its label then, also if the API server's clock is days
// behind.
func TestClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.labeler.Now = func() time.Time { return time.Now().Add(4 * 24 * time.Hour) }
		s.start()
		known := s.node("a", true)
		s.nodeOf("b", strings.TrimSuffix(known.Spec.ProviderID, "a")+"b", true)
		s.after(30 * time.Second)
		s.want(map[string]string{"a": v1alpha1.VersionGeneric, "b": ""}, 1)
		if id := s.cloud.AddInstance(s.pool, "b"); string(id) != strings.TrimSuffix(known.Spec.ProviderID, "a")+"b" {
			t.Fatalf("the instance is %s", id)
		}
		s.after(time.Minute)
		s.want(map[string]string{"a": v1alpha1.VersionGeneric, "b": v1alpha1.VersionGeneric}, 2)
	})
}

// TestANodeWhoseInstanceIsGone: the requests become rarer, down to one per hour after a day.
func TestANodeWhoseInstanceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.start()
		known := s.node("a", true)
		ghost := s.nodeOf("ghost", known.Spec.ProviderID+"9", true)
		s.after(24 * time.Hour)
		before := s.lists
		for range 6 * 60 {
			s.after(time.Minute)
			s.becomes(ghost, corev1.ConditionTrue)
		}
		if asked := s.lists - before; asked > 2*6 { // once for it, and once for all pools
			t.Errorf("the cloud was asked %d times in six hours", asked)
		}
	})
}
