package week

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/rollback"
)

const (
	// provision is how long the cluster autoscaler gives an instance to become a Node, and backoff for how long it leaves a pool
	// alone then; that doubles up to maxBackoff, until one joins. They are its own defaults.
	provision  = 15 * time.Minute
	backoff    = 5 * time.Minute
	maxBackoff = 30 * time.Minute
	// judged is when a node has been judged at the latest: it is late behind fifteen minutes, is seen to be so by a look a
	// minute later, and is counted within five.
	judged = 21 * time.Minute
)

// ailing is a version that is bad: so many of a hundred of its nodes never join.
type ailing struct {
	percent  int
	promoted time.Time
	// births of its nodes, as long as the recipe names it, and what becomes of each, in their order: J, F.
	births []time.Time
	word   []byte
	back   time.Time
	// states of the pool while the recipe names it, as the policy reports them, each with when it began.
	states []string
	// hindered: something else was in the way at some time.
	hindered bool
	// frozen: the policy has said that the pool stays.
	frozen bool
}

// after counts the nodes that were ordered although two could have been judged.
func (a *ailing) after() int {
	n := 0
	for i, born := range a.births {
		if i >= 2 && born.Sub(a.births[1]) > judged {
			n++
		}
	}
	return n
}

// times of the births.
func (a *ailing) times() []string {
	var times []string
	for _, born := range a.births {
		times = append(times, born.Format("15:04"))
	}
	return times
}

// kube is an API server that knows one policy, and no Prototypes. It keeps what is written as an API server does, and costs less
// than a whole one.
type kube struct {
	client.Client
	policy v1alpha1.PrototypePolicy
}

func (k *kube) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if policies, is := list.(*v1alpha1.PrototypePolicyList); is {
		policies.Items = []v1alpha1.PrototypePolicy{*k.policy.DeepCopy()}
	}
	return nil
}

func (k *kube) Status() client.SubResourceWriter { return kubeStatus{k: k} }

type kubeStatus struct {
	client.SubResourceWriter
	k *kube
}

func (s kubeStatus) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	object.(*v1alpha1.PrototypePolicy).Status.DeepCopyInto(&s.k.policy.Status)
	return nil
}

// trust is a week of pools that get a new version a day, some of which are bad, with nobody watching but a policy. Nothing is
// tried and nothing captured: it is about what comes behind a promotion.
type trust struct {
	t      testing.TB
	random *rand.Rand
	clock  *memory.Clock
	cloud  *memory.Cloud
	calls  *memory.Faulty
	nodes  *nodecache.Nodes
	policy *policy.Decider
	make   func() *policy.Decider
	api    *kube
	pools  []cloud.PoolID
	// step is how many nodes a pool gets at once at most, and waits: the autoscaler leaves a pool alone that failed.
	step  int
	waits bool

	// bad versions by pool and version.
	bad      map[string]*ailing
	newborns []*newborn
	// owed are the nodes that a pool is to get in place of such as never joined, and pause is how long it is left alone, until rest.
	owed  map[cloud.PoolID]int
	pause map[cloud.PoolID]time.Duration
	rest  map[cloud.PoolID]time.Time
	// apiAway, cniAway and throttled are until when the API server answers nobody, new nodes of all pools do not become Ready,
	// and the cloud refuses most calls; troubles is when they begin, and how long they last.
	apiAway, cniAway, throttled time.Time
	troubles                    map[string][2]time.Time
	next                        time.Time
	made, killed                int

	detected, alarmed []string
	stories           []string // of each false alarm
	latency           []time.Duration
}

// newborn is an instance, with when its node joins: never if that is zero.
type newborn struct {
	id    cloud.InstanceID
	pool  cloud.PoolID
	born  time.Time
	joins time.Time
	known bool
	// of is the bad version that it was built from, if it was, and turn which of its nodes it is.
	of   *ailing
	turn int
}

func key(pool cloud.PoolID, version string) string { return string(pool) + " " + version }

// newTrust is a week of so many pools.
func newTrust(t testing.TB, seed uint64, pools int) *trust {
	w := &trust{
		t: t, random: rand.New(rand.NewPCG(seed, 11)), clock: memory.NewClock(start), bad: map[string]*ailing{}, //nolint:gosec // a simulation
		owed: map[cloud.PoolID]int{}, pause: map[cloud.PoolID]time.Duration{}, rest: map[cloud.PoolID]time.Time{},
		step: []int{1, 1, 3, 8}[seed%4], waits: seed%8 < 6, troubles: map[string][2]time.Time{},
	}
	w.cloud = memory.New(memory.Config{Now: w.clock.Now})
	w.calls = memory.NewFaulty(w.cloud, func(c memory.Call) memory.Outcome {
		draw := fnv.New32a() // calls come from several goroutines, in no order
		fmt.Fprint(draw, c.Op, c.Resource, w.clock.Now().Unix())
		if w.clock.Now().Before(w.throttled) && draw.Sum32()%5 > 0 {
			return memory.Throttle(time.Duration(draw.Sum32()/5%120) * time.Second)
		}
		return memory.Pass()
	})
	w.nodes = nodecache.NewNodes(w.cloud)
	api := &kube{}
	w.api = api
	api.policy.Name, api.policy.UID = policyName, "policy"
	api.policy.Spec.Schedule.Cron = "0 3 1 1 *"
	w.make = func() *policy.Decider {
		return &policy.Decider{
			Read: api, Client: api, Cloud: w.calls, Nodes: w.nodes, Looks: policy.NewLooks(w.calls, w.clock.Now), Now: w.clock.Now,
			ObservedSince: w.clock.Now(), Log: logr.Discard(),
		}
	}
	w.policy = w.make()
	for i := range pools {
		id := w.cloud.AddPool(memory.PoolSpec{Name: fmt.Sprintf("pool%d", i), MaxSize: 1000})
		w.pools = append(w.pools, id)
		w.promote(id, 0, 0)
		for range 6 {
			w.add(id)
		}
	}
	for _, m := range w.newborns {
		m.joins = start
	}
	for _, trouble := range []string{"api", "cni", "throttle"} {
		from := start.Add(time.Duration(24*60+w.random.IntN(6*24*60)) * time.Minute)
		from = from.Truncate(24 * time.Hour).Add(time.Duration(8*60+w.random.IntN(11*60)) * time.Minute) // when pools grow
		w.troubles[trouble] = [2]time.Time{from, from.Add(time.Duration(15+w.random.IntN(165)) * time.Minute)}
	}
	return w
}

// promote has the pool's recipe name a new version of the day.
func (w *trust) promote(id cloud.PoolID, day, percent int) {
	version := imageversion.Of(start.AddDate(0, 0, day-1))
	w.cloud.AddVersion(id, memory.VersionSpec{Version: version, Tags: map[string]string{cloud.TagBuiltAt: w.clock.Now().Format(cloud.BuiltAtLayout)}, CreatedAt: w.clock.Now()})
	w.cloud.ChangeRecipe(id, string(id)+"/versions/"+version)
	if percent > 0 {
		w.bad[key(id, version)] = &ailing{percent: percent, promoted: w.clock.Now()}
	}
}

func (w *trust) recipe(id cloud.PoolID) string {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return seen.Recipe.Version
}

// add is one instance more; when its node will be Ready is drawn.
func (w *trust) add(id cloud.PoolID) {
	w.made++
	instance := w.cloud.AddInstance(id, fmt.Sprintf("i%05d", w.made))
	w.resize(id)
	at := w.clock.Now().Add(time.Duration(60+w.random.IntN(240)) * time.Second)
	m := &newborn{id: instance, pool: id, born: w.clock.Now(), joins: at}
	if ill := w.bad[key(id, w.recipe(id))]; ill != nil {
		m.of, m.turn = ill, len(ill.word)
		letter := byte('J')
		if w.random.IntN(100) < ill.percent {
			m.joins, letter = time.Time{}, 'F' // never
		}
		ill.births, ill.word = append(ill.births, w.clock.Now()), append(ill.word, letter)
	}
	w.newborns = append(w.newborns, m)
}

// resize has the pool's capacity be what it has.
func (w *trust) resize(id cloud.PoolID) {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := int64(len(w.cloud.InstanceIDs(id))); n != seen.Capacity {
		if err := w.cloud.SetCapacity(w.t.Context(), id, seen.Capacity, n); err != nil {
			w.t.Fatal(err)
		}
	}
}

// kubelets let those nodes join whose time has come, unless something is away. What was kept by the network's being away comes
// within three minutes of its return.
func (w *trust) kubelets() {
	now := w.clock.Now()
	if now.Before(w.apiAway) {
		return
	}
	for _, m := range w.newborns {
		switch {
		case m.known || m.joins.IsZero() || now.Before(m.joins):
			continue
		case now.Before(w.cniAway):
			m.joins = w.cniAway.Add(time.Duration(w.random.IntN(4)) * time.Minute)
			continue
		}
		m.known = true
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(m.id), CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		n.Spec.ProviderID = string(m.id)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		nodecache.Strip(n)
		w.nodes.Set(n)
	}
}

// autoscaler removes what has not become a Node in time and orders others instead, and now and then removes one that has.
func (w *trust) autoscaler() {
	now := w.clock.Now()
	if now.Before(w.apiAway) {
		return
	}
	w.newborns = slices.DeleteFunc(w.newborns, func(m *newborn) bool {
		late := !m.known && now.Sub(m.born) >= provision
		if !late && (!m.known || w.random.IntN(20000) > 0 || len(w.cloud.InstanceIDs(m.pool)) <= 5) {
			return false
		}
		w.cloud.RemoveInstance(m.id)
		w.resize(m.pool)
		w.nodes.Delete(nodeName(m.id))
		if late {
			w.owed[m.pool]++
			if w.waits && now.After(w.rest[m.pool]) {
				w.pause[m.pool] = min(max(2*w.pause[m.pool], backoff), maxBackoff)
				w.rest[m.pool] = now.Add(w.pause[m.pool])
			}
		}
		return true
	})
	for _, id := range w.pools {
		if !now.Before(w.rest[id]) {
			for ; w.owed[id] > 0; w.owed[id]-- {
				w.add(id)
			}
		}
		if now.Sub(w.rest[id]) > 3*time.Hour {
			w.pause[id] = 0
		}
	}
}

// wanting tells whether pods wait for nodes that a pool is to get, or has got.
func (w *trust) wanting() bool {
	for _, id := range w.pools {
		if w.owed[id] > 0 {
			return true
		}
	}
	return slices.ContainsFunc(w.newborns, func(m *newborn) bool { return !m.known })
}

// minute is one of the week.
func (w *trust) minute() {
	now := w.clock.Now()
	w.begin(now)
	w.kubelets()
	w.autoscaler()
	if now.Minute()%30 == 0 { // who watches which versions are in use
		for _, id := range w.pools {
			w.policy.Looks.Forget(id)
		}
	}
	if now.Before(w.apiAway) {
		w.blink()
		w.next = w.apiAway // a controller that can't renew its Lease ends, and another one begins later
		w.policy = w.make()
		w.policy.ObservedSince = w.apiAway
	} else {
		w.look(now)
	}
	w.follow(now)
	w.note()
	w.clock.Advance(time.Minute)
}

// look lets the controller make a pass if it is due.
func (w *trust) look(now time.Time) {
	if w.wanting() && w.policy.Growth.Expect(now) {
		w.next = now
	}
	if now.Before(w.next) {
		return
	}
	after, err := w.policy.Pass(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.next = now.Add(min(after, 10*time.Minute))
	if w.random.IntN(300) == 0 {
		w.killed++
		w.blink()
		w.policy = w.make()
		w.next = now
	}
}

// blink takes those that have not joined out of what the controller can know: nobody holds a time against a node in which nobody
// looked.
func (w *trust) blink() {
	for _, m := range w.newborns {
		if m.of != nil && !m.known {
			m.of.word[m.turn] = 'x'
		}
	}
}

// begin has the troubles begin whose time has come.
func (w *trust) begin(now time.Time) {
	for trouble, of := range w.troubles {
		if now.Before(of[0]) || !now.Before(of[1]) {
			continue
		}
		switch trouble {
		case "api":
			w.apiAway = of[1]
		case "cni":
			w.cniAway = of[1]
		default:
			w.throttled = of[1]
			w.blink()
		}
	}
}

// follow keeps what the policy says of bad versions.
func (w *trust) follow(now time.Time) {
	troubled := now.Before(w.apiAway) || now.Before(w.cniAway) || now.Before(w.throttled)
	for _, pool := range w.api.policy.Status.Pools {
		if pool.Probation == nil {
			continue
		}
		ill := w.bad[key(cloud.PoolID(pool.ID), pool.Probation.Version)]
		if ill == nil || !ill.back.IsZero() {
			continue
		}
		if state := pool.Probation.State; len(ill.states) == 0 || !strings.HasSuffix(ill.states[len(ill.states)-1], state) {
			ill.states = append(ill.states, now.Format("15:04 ")+state)
		}
		ill.frozen = ill.frozen || joinhealth.State(pool.Probation.State).Frozen()
		ill.hindered = ill.hindered || troubled || joinhealth.State(pool.Probation.State).Frozen()
	}
}

// note sees who went back, judges that, and is the person who acknowledges it hours later.
func (w *trust) note() {
	for _, id := range w.pools {
		images, err := w.cloud.Images(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		went := history.Unacknowledged(images)
		if went == nil {
			continue
		}
		k := key(id, went.Version)
		if said := fmt.Sprintf("%s from %s at %s", id, went.Version, went.At); !slices.Contains(w.detected, said) && !slices.Contains(w.alarmed, said) {
			if ill := w.bad[k]; ill != nil {
				ill.back = went.At
				w.detected, w.latency = append(w.detected, said), append(w.latency, went.At.Sub(ill.births[0]))
			} else {
				w.alarmed = append(w.alarmed, said)
				w.stories = append(w.stories, w.story())
			}
		}
		if w.clock.Now().Sub(went.At) < 3*time.Hour || went.Open && w.clock.Now().Sub(went.At) < 20*time.Hour {
			continue
		}
		w.acknowledge(id, images)
	}
}

func (w *trust) acknowledge(id cloud.PoolID, images []cloud.Image) {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range history.Of(history.Facts{Pool: seen, Images: images}).Acknowledge(w.clock.Now()).Marks {
		if _, err := rollback.OfMark(m, w.cloud, id).Pass(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// day plays one: at eight each pool gets a new version, and all day long pools grow.
func (w *trust) day(day int) {
	begin := start.AddDate(0, 0, day-1)
	for w.clock.Now().Before(begin.Add(24 * time.Hour)) {
		minute := int(w.clock.Now().Sub(begin) / time.Minute)
		if minute == 8*60 {
			for i, id := range w.pools {
				percent := 0
				if day%2 == 0 && i == w.random.IntN(len(w.pools)) {
					percent = []int{70, 90, 100}[w.random.IntN(3)]
				}
				w.promote(id, day+1, percent)
			}
		}
		if minute == 2*60 {
			w.shrink()
		}
		if minute >= 8*60 && minute < 20*60 {
			for _, id := range w.pools {
				if w.random.IntN(40) == 0 {
					for range 1 + w.random.IntN(w.step) {
						if len(w.cloud.InstanceIDs(id)) < 60 {
							w.add(id)
						}
					}
				}
			}
		}
		w.minute()
	}
}

// story is what the policy remembers of the pools' nodes.
func (w *trust) story() string {
	var told strings.Builder
	for _, pool := range w.api.policy.Status.Pools {
		p := pool.Probation
		if p == nil {
			continue
		}
		fmt.Fprintf(&told, "\n%s %s %s:", pool.Name, p.Version, p.State)
		for _, join := range p.Joins {
			fmt.Fprintf(&told, " %s %s", join.RunningSince.Format("15:04"), join.Outcome)
			if join.ReadyAfter != nil {
				fmt.Fprintf(&told, " after %s", join.ReadyAfter.Duration)
			}
			fmt.Fprint(&told, ";")
		}
	}
	return told.String()
}

// shrink is the night: of each pool's nodes eight stay, the youngest ones go.
func (w *trust) shrink() {
	left := map[cloud.PoolID]int{}
	w.newborns = slices.DeleteFunc(w.newborns, func(m *newborn) bool {
		if left[m.pool]++; left[m.pool] <= 8 || !m.known {
			return false
		}
		w.cloud.RemoveInstance(m.id)
		w.resize(m.pool)
		w.nodes.Delete(nodeName(m.id))
		return true
	})
	clear(w.owed)
}
