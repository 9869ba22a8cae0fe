package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/prototype"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// staleEnv is a decider with the informers of a controller, which read a real API server through a proxy that shows the past.
type staleEnv struct {
	*testEnv
	proxy  *apitest.Stale
	random *rand.Rand
	pools  []cloud.PoolID
	// cached is what the informers have; stop ends them.
	cached cache.Cache
	stop   context.CancelFunc
	// versions are the resource versions of the past, and happened is the course.
	versions []string
	happened []string
	// wrong changes the decider of each process; nil changes nothing.
	wrong func(*staleEnv)
}

const stalePolicy = "stale"

func newStaleEnv(t *testing.T, seed uint64, wrong func(*staleEnv)) *staleEnv {
	s := &staleEnv{testEnv: newTestEnv(t), proxy: apitest.NewStale(t), random: rand.New(rand.NewPCG(seed, 34)), wrong: wrong}
	s.must(s.client.DeleteAllOf(t.Context(), &corev1.Node{}))
	for _, name := range []string{"one", "two", "three"} {
		id := s.cloud.AddPool(memory.PoolSpec{Name: name, Capacity: 3, MaxSize: 100})
		s.pools = append(s.pools, id)
		for i := range 3 {
			s.join(id, fmt.Sprintf("%s-%d", name, i))
		}
	}
	s.policy(stalePolicy, func(p *v1alpha1.PrototypePolicySpec) { p.MaxConcurrent = 1 + s.random.Int32N(2) })
	s.process("")
	t.Cleanup(func() { s.stop() })
	return s
}

// join creates a Ready node of a new instance, patched and rebooted.
func (s *staleEnv) join(id cloud.PoolID, name string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{
		v1alpha1.KuredRebootNeededAnnotation: s.clock.Now().Add(-24 * time.Hour).Format(time.RFC3339)}}}
	n.Spec.ProviderID = string(s.cloud.AddInstance(id, name))
	s.must(s.client.Create(s.Context(), n))
	since := metav1.NewTime(s.clock.Now().Add(-10 * time.Hour))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
	s.must(s.client.Status().Update(s.Context(), n))
}

// process starts a controller without memory, whose first lists are of an earlier resource version.
func (s *staleEnv) process(past string) {
	if s.stop != nil {
		s.stop()
	}
	s.proxy.Show(past, past != "")
	scheme, err := cluster.Scheme()
	s.must(err)
	options, err := prototype.CacheOptions(v1alpha1.DefaultGeneralizeNamespace)
	s.must(err)
	options = nodecache.InformerOptions(options)
	options.Scheme, options.Mapper = scheme, cluster.StaticMapper()
	s.cached, err = cache.New(s.proxy.Config(), options)
	s.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.stop = cancel
	s.nodes = nodecache.NewNodes(s.cloud)
	s.testEnv.restart()
	s.decider.Read, s.decider.Nodes = s.cached, s.nodes
	for _, kind := range []client.Object{&v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}, &corev1.Node{}} {
		informer, err := s.cached.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		s.must(err)
		if _, isNode := kind.(*corev1.Node); isNode {
			nodes := s.nodes
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(o any) { nodes.Set(o.(*corev1.Node)) }, UpdateFunc: func(_, o any) { nodes.Set(o.(*corev1.Node)) },
				DeleteFunc: func(o any) {
					if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
						o = gone.Obj
					}
					nodes.Delete(o.(*corev1.Node).Name)
				},
			})
			s.must(err)
		}
	}
	if s.wrong != nil {
		s.wrong(s)
	}
	go func() { _ = s.cached.Start(ctx) }()
	if !s.cached.WaitForCacheSync(ctx) {
		s.Fatal("the informers have no list")
	}
}

// states are name and resource version of all objects that a reader has.
func (s *staleEnv) states(reader client.Reader) (states []string) {
	s.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.PrototypeList{}, &v1alpha1.PrototypePolicyList{}, &corev1.NodeList{}} {
		s.must(reader.List(s.Context(), list))
		switch list := list.(type) {
		case *v1alpha1.PrototypeList:
			for _, o := range list.Items {
				states = append(states, "prototype "+o.Name+" "+o.ResourceVersion)
			}
		case *v1alpha1.PrototypePolicyList:
			for _, o := range list.Items {
				states = append(states, "policy "+o.Name+" "+o.ResourceVersion)
			}
		case *corev1.NodeList:
			for _, o := range list.Items {
				states = append(states, "node "+o.Name+" "+o.ResourceVersion)
			}
		}
	}
	slices.Sort(states)
	return states
}

// catchUp shows the present, and waits until the informers have it.
func (s *staleEnv) catchUp() {
	s.Helper()
	s.proxy.Show("", false)
	var have, want []string
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if have, want = s.states(s.cached), s.states(s.client); slices.Equal(have, want) {
			return
		}
	}
	s.Fatalf("the informers do not catch up:\nhave %v\nwant %v", have, want)
}

// now is the present resource version.
func (s *staleEnv) now() string {
	list := &v1alpha1.PrototypeList{}
	s.must(s.client.List(s.Context(), list))
	return list.ResourceVersion
}

// happens makes a drawn change of the world, without faults.
func (s *staleEnv) happens(event int) string {
	s.Helper()
	p := &v1alpha1.PrototypePolicy{}
	s.must(client.IgnoreNotFound(s.client.Get(s.Context(), client.ObjectKey{Name: stalePolicy}, p)))
	active := slices.DeleteFunc(s.prototypes(), func(p v1alpha1.Prototype) bool { return p.Status.Terminal() })
	switch {
	case p.Name == "":
		s.policy(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) { spec.MaxConcurrent, spec.Suspend = 2, event%2 == 0 })
		return "the policy is made again"
	case event < 3:
		s.edit(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) { spec.Suspend = !spec.Suspend })
		return fmt.Sprintf("the policy is suspended: %t", !p.Spec.Suspend)
	case event < 5:
		s.edit(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) { spec.MaxConcurrent = 3 - spec.MaxConcurrent })
		return fmt.Sprintf("maxConcurrent is %d", 3-p.Spec.MaxConcurrent)
	case event < 7:
		names := [][]string{nil, nil, {"one", "three"}, {"two"}}[s.random.IntN(4)]
		s.edit(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) { spec.Pools.Names = names })
		return fmt.Sprintf("the policy is for %v", names)
	case event < 12 && len(active) > 0:
		s.end(active[0].Name, v1alpha1.PhaseFailed)
		return active[0].Name + " fails"
	case event == 12:
		s.must(s.client.Delete(s.Context(), p))
		return "the policy is deleted"
	case event == 13 && len(active) > 0:
		s.must(s.client.Delete(s.Context(), &active[0]))
		return active[0].Name + " is deleted"
	}
	return "nothing"
}

// befalls draws what the controller's view suffers.
func (s *staleEnv) befalls(event int) string {
	switch {
	case event < 6:
		s.proxy.Show("", true)
		return "watches stand still"
	case event < 9:
		past := s.versions[s.random.IntN(len(s.versions))]
		s.process(past)
		return "a new process begins at resource version " + past
	case event < 10:
		s.proxy.Cut()
		s.catchUp()
		return "watches are cut"
	}
	s.catchUp()
	return "watches go on"
}

// begun checks the Prototypes that the last pass has made against the true state.
func (s *staleEnv) begun(before []v1alpha1.Prototype) error {
	s.Helper()
	p := &v1alpha1.PrototypePolicy{}
	missing := s.client.Get(s.Context(), client.ObjectKey{Name: stalePolicy}, p)
	active, byPool := 0, map[string]int{}
	var made []v1alpha1.Prototype
	for _, one := range s.prototypes() {
		if !one.Status.Terminal() {
			active, byPool[one.Spec.PoolID] = active+1, byPool[one.Spec.PoolID]+1
		}
		if !slices.ContainsFunc(before, func(old v1alpha1.Prototype) bool { return old.UID == one.UID }) {
			made = append(made, one)
		}
	}
	for _, one := range made {
		if wanted := p.Spec.Pools.Names; missing != nil || p.Spec.Suspend || len(wanted) > 0 && !slices.Contains(wanted, one.Spec.Pool) {
			return fmt.Errorf("%s begins under a policy that is missing (%t), suspended (%t), or for other pools (%v)",
				one.Name, missing != nil, p.Spec.Suspend, wanted)
		}
		if active > int(p.Spec.MaxConcurrent) || byPool[one.Spec.PoolID] > 1 {
			return fmt.Errorf("%s begins as one of %d captures, and of %d in its pool; maxConcurrent is %d",
				one.Name, active, byPool[one.Spec.PoolID], p.Spec.MaxConcurrent)
		}
	}
	return nil
}

// settled runs passes until nothing changes, and returns what the policy decides about each pool.
func (s *staleEnv) settled() (decisions []string, err error) {
	s.Helper()
	s.catchUp()
	for range 4 {
		s.clock.Advance(31 * time.Minute)
		before := s.prototypes()
		s.runPass()
		if err := s.begun(before); err != nil {
			return nil, err
		}
		s.catchUp()
	}
	for _, pool := range s.status(stalePolicy).Status.Pools {
		if pool.Decision != nil {
			decisions = append(decisions, pool.Name+" "+pool.Decision.Reason)
		}
	}
	return decisions, nil
}

// playStale plays a schedule. At its end the policy decides as a controller without a past does.
func (s *staleEnv) playStale() error {
	s.Helper()
	for range 14 {
		s.versions = append(s.versions, s.now())
		s.happened = append(s.happened, s.befalls(s.random.IntN(12)), s.happens(s.random.IntN(28)))
		if s.random.IntN(3) == 0 {
			s.happened = append(s.happened, s.happens(s.random.IntN(28)))
		}
		s.clock.Advance(time.Minute)
		before := s.prototypes()
		_, err := s.decider.Pass(s.Context())
		if err != nil {
			s.happened = append(s.happened, "the pass fails: "+err.Error())
		}
		for _, one := range s.prototypes() {
			if !slices.ContainsFunc(before, func(old v1alpha1.Prototype) bool { return old.UID == one.UID }) {
				s.happened = append(s.happened, one.Name+" begins")
			}
		}
		if err := s.begun(before); err != nil {
			return err
		}
	}
	if s.client.Get(s.Context(), client.ObjectKey{Name: stalePolicy}, &v1alpha1.PrototypePolicy{}) != nil {
		s.policy(stalePolicy, nil)
	}
	s.edit(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) { spec.Suspend = false })
	after, err := s.settled()
	if err != nil {
		return err
	}
	s.process("")
	fresh, err := s.settled()
	if err == nil && !slices.Equal(after, fresh) {
		err = fmt.Errorf("the policy decides %v, and a new controller %v", after, fresh)
	}
	return err
}

// TestStaleAPIServer plays schedules in which the informers of the controller have the past, while the decisions meet the present.
func TestStaleAPIServer(t *testing.T) {
	schedules := 40
	if testing.Short() {
		schedules = 3
	}
	for seed := range memory.Schedules(t, schedules) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newStaleEnv(t, seed, nil)
			if err := s.playStale(); err != nil {
				t.Errorf("seed %d: %v:\n%s", seed, err, strings.Join(s.happened, "\n"))
			}
		})
	}
}

// cachedReads reads some kinds from the informers, where the decider must read the API server.
type cachedReads struct {
	client.Client
	cached client.Reader
	kind   client.ObjectList
}

func (c cachedReads) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if reflect.TypeOf(list) == reflect.TypeOf(c.kind) {
		return c.cached.List(ctx, list, options...)
	}
	return c.Client.List(ctx, list, options...)
}

// TestWrongDecidersAreCaught plays the schedules with deciders that read from a cache before they begin a capture. Some schedule
// catches each.
func TestWrongDecidersAreCaught(t *testing.T) {
	for name, kind := range map[string]client.ObjectList{"policies": &v1alpha1.PrototypePolicyList{}, "prototypes": &v1alpha1.PrototypeList{}} {
		t.Run(name, func(t *testing.T) {
			const most = 40
			for seed := uint64(1); seed <= most; seed++ {
				s := newStaleEnv(t, seed, func(s *staleEnv) { s.decider.Client = cachedReads{s.client, s.cached, kind} })
				if err := s.playStale(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("%d schedules caught nothing", most)
		})
	}
}

// TestOldNodesAreNoEvidence: three nodes of a new version join and become Ready while the watch of the controller stands still. The
// controller sees three instances without a Node for half an hour, and rolls nothing back.
func TestOldNodesAreNoEvidence(t *testing.T) {
	for name, watches := range map[string]bool{"the watch stands still": false, "the nodes do not join": true} {
		t.Run(name, func(t *testing.T) {
			s := newStaleEnv(t, 1, nil)
			id := s.pools[0]
			s.edit(stalePolicy, func(spec *v1alpha1.PrototypePolicySpec) {
				spec.DryRun, spec.Rollback.Mode = false, v1alpha1.RollbackAutomatic
			})
			for _, daysAgo := range []int{2, 1} {
				at := s.clock.Now().AddDate(0, 0, -daysAgo)
				s.version(id, at, nil)
				s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(at))
			}
			before, err := s.cloud.Pool(t.Context(), id)
			s.must(err)
			s.catchUp()
			s.runPass()
			s.proxy.Show("", !watches)
			for i := range 3 {
				name := fmt.Sprintf("new-%d", i)
				if watches {
					s.cloud.AddInstance(id, name)
				} else {
					s.join(id, name)
				}
			}
			for range 60 {
				s.clock.Advance(time.Minute)
				s.runPass()
			}
			after, err := s.cloud.Pool(t.Context(), id)
			s.must(err)
			if rolled := before.Recipe.Version != after.Recipe.Version; rolled != watches {
				t.Errorf("the pool went from %s to %s; %+v", before.Recipe.Version, after.Recipe.Version, s.poolStatus(stalePolicy, "one").JoinHealth)
			}
		})
	}
}
