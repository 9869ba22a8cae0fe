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
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	// provision is the cluster autoscaler's time limit for an instance without a Node. backoff is the following pause of
	// the pool, doubled up to maxBackoff until a node joins. The values are the autoscaler's defaults.
	provision  = 15 * time.Minute
	backoff    = 5 * time.Minute
	maxBackoff = 30 * time.Minute
	// largest is the size of a pool that no longer grows.
	largest = 60
)

// growths are the mean minutes between two growths of a pool. Pools with at least slowly minutes may grow by several nodes.
var growths = []int{3, 5, 10, 20, 40, 60}

const slowly = 20

// Kinds of outages. Each affects all pools.
const (
	apiAway   = "the API server is away"
	throttled = "the cloud throttles"
	cniAway   = "new nodes are not Ready"
	slowJoins = "new nodes need 20 minutes more"
	daemons   = "a DaemonSet fails on new nodes"
	lost      = "young nodes lose Ready"
	unwell    = "no node is Ready"
)

// weekly outages happen in each week, and two of the others.
var weekly, others = []string{apiAway, throttled, cniAway}, []string{slowJoins, daemons, lost, unwell}

// fault is how the nodes of a bad version fail.
type fault struct {
	name string
	// percent of the nodes fail.
	percent int
	// differs: the nodes differ from the pool's other nodes from the start.
	differs bool
	// unready and lacking are the minutes after the start of the instance at which a node loses Ready, or a DaemonSet fails. up and down are the
	// minutes that a flapping node is Ready and not Ready. All are zero for a node that never joins.
	unready, lacking, up, down int
}

var faults = []fault{
	{name: "never joins", percent: 100},
	{name: "90 % never join", percent: 90},
	{name: "70 % never join", percent: 70},
	{name: "not Ready after 20 min", percent: 100, unready: 20},
	{name: "not Ready after 40 min", percent: 100, unready: 40},
	{name: "not Ready after 58 min", percent: 100, unready: 58},
	{name: "DaemonSet fails at minute 58", percent: 100, lacking: 58},
	{name: "Ready 3 min, not Ready 3 min", percent: 100, up: 3, down: 3},
	{name: "differs from the other nodes", percent: 100, differs: true},
}

func (f fault) neverJoins() bool { return f.unready == 0 && f.lacking == 0 && f.up == 0 && !f.differs }

// ready returns the state of Ready at an age, and the age at the last change; changed is negative without a change.
func (f fault) ready(minutes int) (ready bool, changed int) {
	switch {
	case f.unready > 0 && minutes >= f.unready:
		return false, f.unready
	case f.up > 0 && minutes >= f.up:
		cycle := minutes % (f.up + f.down)
		if cycle < f.up {
			return true, minutes - cycle
		}
		return false, minutes - cycle + f.up
	}
	return true, -1
}

// badVersion is a bad version with its fault.
type badVersion struct {
	fault
	promoted time.Time
	// births of the version's nodes while the recipe names the version, and the results in the same order: J, F.
	births []time.Time
	word   []byte
	back   time.Time
	// states of the pool while the recipe names the version, from the policy's reports, each with its begin.
	states []string
	// frozen: the policy reported that the pool stays.
	frozen bool
}

// times of the births.
func (a *badVersion) times() []string {
	var times []string
	for _, born := range a.births {
		times = append(times, born.Format("15:04"))
	}
	return times
}

// kube is an API server with one policy and without Prototypes. kube stores writes as an API server does, and is faster.
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

// trustEnv is a week of pools with a new version per day, some of them bad, with a policy and without people. There are no
// trials and no captures: the test is about the time after promotions.
type trustEnv struct {
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
	// every is the mean number of minutes between two growths of a pool. step is the largest growth of a slow pool at once.
	// waits: the autoscaler pauses a failed pool.
	every map[cloud.PoolID]int
	step  int
	waits bool

	// bad versions by pool and version.
	bad      map[string]*badVersion
	newborns []*joiningInstance
	// owed counts the replacements of nodes that never joined, and pause is the pause of the pool, until rest.
	owed  map[cloud.PoolID]int
	pause map[cloud.PoolID]time.Duration
	rest  map[cloud.PoolID]time.Time
	// troubles has the begin and end of each outage.
	troubles     map[string][2]time.Time
	next         time.Time
	made, killed int

	detected, alarmed []string
	stories           []string // of each false alarm
	latency           []time.Duration
}

// joiningInstance is an instance with the time at which its node joins; zero means never.
type joiningInstance struct {
	id    cloud.InstanceID
	pool  cloud.PoolID
	born  time.Time
	joins time.Time
	known bool
	// of is the bad version of the instance, if any, and turn the number among the version's nodes. fails: the node fails as the
	// version's fault says. since is when the node joined.
	of    *badVersion
	turn  int
	fails bool
	since time.Time
	// isReady and changed are the state of the Node in the controller's cache.
	isReady bool
	changed time.Time
}

func key(pool cloud.PoolID, version string) string { return string(pool) + " " + version }

// newTrust is a week of so many pools.
func newTrust(t testing.TB, seed uint64, pools int) *trustEnv {
	w := &trustEnv{
		t: t, random: rand.New(rand.NewPCG(seed, 11)), clock: memory.NewClock(start), bad: map[string]*badVersion{}, //nolint:gosec // a simulation
		owed: map[cloud.PoolID]int{}, pause: map[cloud.PoolID]time.Duration{}, rest: map[cloud.PoolID]time.Time{},
		step: []int{1, 1, 3, 8}[seed%4], waits: seed%8 < 6, troubles: map[string][2]time.Time{}, every: map[cloud.PoolID]int{},
	}
	w.cloud = memory.New(memory.Config{Now: w.clock.Now, NoCopy: true})
	w.calls = memory.NewFaulty(w.cloud, func(c memory.Call) memory.Outcome {
		draw := fnv.New32a() // calls come from several goroutines, in no order
		fmt.Fprint(draw, c.Op, c.Resource, w.clock.Now().Unix())
		if w.has(throttled) && draw.Sum32()%5 > 0 {
			return memory.Throttle(time.Duration(draw.Sum32()/5%120) * time.Second)
		}
		return memory.Pass()
	})
	w.nodes = nodecache.NewNodes(w.cloud)
	api := &kube{}
	w.api = api
	api.policy.Name, api.policy.UID = policyName, "policy"
	api.policy.Spec.Schedule.Cron = "0 3 28 * *" // after the week, and cheap to compute
	api.policy.Spec.Rollback.FailOnDifference = true
	w.make = func() *policy.Decider {
		return &policy.Decider{
			Read: api, Client: api, Cloud: w.calls, Nodes: w.nodes, PoolCache: policy.NewPoolCache(w.calls, w.clock.Now), Now: w.clock.Now,
			Log: logr.Discard(), NewNodes: policy.NewNodes{ObservedSince: w.clock.Now(), UnhealthyDaemonSets: w.unhealthyDaemonSets, Differences: w.differences},
		}
	}
	w.policy = w.make()
	for i := range pools {
		id := w.cloud.AddPool(memory.PoolSpec{Name: fmt.Sprintf("pool%d", i), MaxSize: 1000})
		w.pools, w.every[id] = append(w.pools, id), growths[w.random.IntN(len(growths))]
		w.promote(id, 0, nil)
		for range 6 {
			w.add(id)
		}
	}
	for _, m := range w.newborns {
		m.joins = start
	}
	for _, trouble := range append(slices.Clone(weekly), others[seed%4], others[(seed+1+seed/4%3)%4]) {
		from := start.Add(time.Duration(24*60+w.random.IntN(6*24*60)) * time.Minute)
		from = from.Truncate(24 * time.Hour).Add(time.Duration(8*60+w.random.IntN(11*60)) * time.Minute) // when pools grow
		w.troubles[trouble] = [2]time.Time{from, from.Add(time.Duration(15+w.random.IntN(165)) * time.Minute)}
	}
	return w
}

// promote names a new version of the day in the pool's recipe.
func (w *trustEnv) promote(id cloud.PoolID, day int, bad *fault) {
	version := imageversion.Of(start.AddDate(0, 0, day-1))
	w.cloud.AddVersion(id, memory.VersionSpec{Version: version, Tags: map[string]string{cloud.TagBuiltAt: w.clock.Now().Format(cloud.BuiltAtLayout)},
		CreatedAt: w.clock.Now()})
	w.cloud.ChangeRecipe(id, string(id)+"/versions/"+version)
	if bad != nil {
		w.bad[key(id, version)] = &badVersion{fault: *bad, promoted: w.clock.Now()}
	}
}

func (w *trustEnv) recipe(id cloud.PoolID) string {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return seen.Recipe.Version
}

// add adds an instance; the time of Ready is random.
func (w *trustEnv) add(id cloud.PoolID) {
	w.made++
	instance := w.cloud.AddInstance(id, fmt.Sprintf("i%05d", w.made))
	w.resize(id)
	at := w.clock.Now().Add(time.Duration(60+w.random.IntN(240)) * time.Second)
	if w.has(slowJoins) {
		at = at.Add(20 * time.Minute)
	}
	m := &joiningInstance{id: instance, pool: id, born: w.clock.Now(), joins: at}
	if ill := w.bad[key(id, w.recipe(id))]; ill != nil {
		m.of, m.turn = ill, len(ill.word)
		letter := byte('J')
		if w.random.IntN(100) < ill.percent {
			m.fails, letter = true, 'F'
			if ill.neverJoins() {
				m.joins = time.Time{}
			}
		}
		ill.births, ill.word = append(ill.births, w.clock.Now()), append(ill.word, letter)
	}
	w.newborns = append(w.newborns, m)
}

// remove removes an instance with its Node.
func (w *trustEnv) remove(m *joiningInstance) {
	w.cloud.RemoveInstance(m.id)
	w.resize(m.pool)
	w.nodes.Delete(nodeName(m.id))
}

// resize sets the pool's capacity to the number of its instances.
func (w *trustEnv) resize(id cloud.PoolID) {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := int64(len(w.cloud.InstanceIDs(id))); n > seen.Capacity {
		if err := w.cloud.Scale(id, n); err != nil {
			w.t.Fatal(err)
		}
	}
}

// has reports whether an outage is in progress.
func (w *trustEnv) has(trouble string) bool { return w.during(trouble, w.clock.Now()) }

func (w *trustEnv) during(trouble string, at time.Time) bool {
	of := w.troubles[trouble]
	return !at.Before(of[0]) && at.Before(of[1])
}

// kubelets let due nodes join, unless an outage prevents the join, and show changed nodes.
func (w *trustEnv) kubelets() {
	now := w.clock.Now()
	if w.has(apiAway) {
		return
	}
	for _, m := range w.newborns {
		if !m.known {
			if m.joins.IsZero() || now.Before(m.joins) || w.delays(m) {
				continue
			}
			m.known, m.since = true, now
		}
		if isReady, changed := w.readyOf(m); isReady != m.isReady || !changed.Equal(m.changed) {
			m.isReady, m.changed = isReady, changed
			w.show(m)
		}
	}
}

// delays moves the join of a node after an outage, by up to three minutes.
func (w *trustEnv) delays(m *joiningInstance) bool {
	for _, trouble := range []string{cniAway, lost, unwell} {
		if w.has(trouble) {
			m.joins = w.troubles[trouble][1].Add(time.Duration(w.random.IntN(4)) * time.Minute)
			return true
		}
	}
	return false
}

// readyOf returns the state of a joined node, and its last change. The times of a version's fault begin with the instance.
func (w *trustEnv) readyOf(m *joiningInstance) (isReady bool, changed time.Time) {
	now := w.clock.Now()
	isReady, changed = true, m.since
	if m.fails {
		of, minutes := m.of.ready(int(min(now.Sub(m.born), 3*time.Hour) / time.Minute))
		if at := m.born.Add(time.Duration(minutes) * time.Minute); minutes >= 0 && at.After(m.since) {
			isReady, changed = of, at
		}
	}
	for _, trouble := range []string{lost, unwell} {
		of := w.troubles[trouble]
		isOld := trouble == lost && m.born.Before(of[0].Add(-time.Hour))
		switch {
		case isOld || !isReady || now.Before(of[0]) || !m.since.Before(of[0]):
		case now.Before(of[1]):
			isReady, changed = false, later(changed, of[0])
		default:
			changed = later(changed, of[1])
		}
	}
	return isReady, changed
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// unhealthyDaemonSets returns the nodes on which a DaemonSet fails, by the version's fault or an outage.
func (w *trustEnv) unhealthyDaemonSets(_ context.Context, nodes, _ []string) (map[string]nodejoin.UnhealthyDaemonSet, error) {
	unhealthy := map[string]nodejoin.UnhealthyDaemonSet{}
	for _, m := range w.newborns {
		if !m.known || !slices.Contains(nodes, nodeName(m.id)) {
			continue
		}
		if w.has(daemons) && w.during(daemons, m.since) {
			unhealthy[nodeName(m.id)] = nodejoin.UnhealthyDaemonSet{DaemonSet: "shop/agent", Since: m.since}
			continue
		}
		if !m.fails || m.of.lacking == 0 {
			continue
		}
		if since := m.born.Add(time.Duration(m.of.lacking) * time.Minute); !w.clock.Now().Before(since) {
			unhealthy[nodeName(m.id)] = nodejoin.UnhealthyDaemonSet{DaemonSet: "shop/agent", Since: since}
		}
	}
	return unhealthy, nil
}

// differences returns the nodes that differ from at least two others.
func (w *trustEnv) differences(_ context.Context, _ cloud.PoolID, nodes, others, _ []string) (map[string]string, error) {
	found := map[string]string{}
	for _, m := range w.newborns {
		if m.known && m.fails && m.of.differs && len(others) > 1 && slices.Contains(nodes, nodeName(m.id)) {
			found[nodeName(m.id)] = "allocatable pods is 8, and at least 110 on other nodes"
		}
	}
	return found, nil
}

// show updates the Node of an instance in the controller's cache.
func (w *trustEnv) show(m *joiningInstance) {
	ready := corev1.ConditionFalse
	if m.isReady {
		ready = corev1.ConditionTrue
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(m.id), CreationTimestamp: metav1.NewTime(m.since),
		Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	n.Spec.ProviderID = string(m.id)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(m.changed)}}
	membership.Strip(n)
	w.nodes.Set(n)
}

// autoscaler replaces instances without a Node in time, and now and then removes a joined node.
func (w *trustEnv) autoscaler() {
	now := w.clock.Now()
	if w.has(apiAway) {
		return
	}
	w.newborns = slices.DeleteFunc(w.newborns, func(m *joiningInstance) bool {
		late := !m.known && now.Sub(m.born) >= provision
		if !late && (!m.known || w.random.IntN(20000) > 0 || len(w.cloud.InstanceIDs(m.pool)) <= 5) {
			return false
		}
		w.remove(m)
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

// hasWaitingPods reports whether pods wait for new nodes of a pool.
func (w *trustEnv) hasWaitingPods() bool {
	for _, id := range w.pools {
		if w.owed[id] > 0 {
			return true
		}
	}
	return slices.ContainsFunc(w.newborns, func(m *joiningInstance) bool { return !m.known })
}

// playMinute plays a minute of the week.
func (w *trustEnv) playMinute() {
	now := w.clock.Now()
	if w.has(throttled) {
		w.skipOpenJoins()
	}
	w.kubelets()
	w.autoscaler()
	if now.Minute()%30 == 0 { // the observer of used versions
		for _, id := range w.pools {
			w.policy.PoolCache.Forget(id)
		}
	}
	switch {
	case w.has(apiAway):
		w.skipOpenJoins()
		w.next = w.troubles[apiAway][1] // a controller without its Lease exits, and the next controller starts later
		w.policy = w.make()
		w.policy.NewNodes.ObservedSince = w.next
	case w.runController(now), now.Minute() == 0:
		w.recordReports(now)
		w.checkRollbacks()
	}
	w.clock.Advance(time.Minute)
}

// runController lets the controller run a pass if due, and reports whether the pass ran.
func (w *trustEnv) runController(now time.Time) bool {
	if w.hasWaitingPods() && w.policy.Growth.Expect(now) {
		w.next = now
	}
	if now.Before(w.next) {
		return false
	}
	after, err := w.policy.Pass(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.next = now.Add(min(after, 10*time.Minute))
	if w.random.IntN(300) == 0 {
		w.killed++
		w.skipOpenJoins()
		w.policy = w.make()
		w.next = now
	}
	return true
}

// skipOpenJoins removes open joins from the controller's knowledge: time without a look counts against no node.
func (w *trustEnv) skipOpenJoins() {
	for _, m := range w.newborns {
		if m.of != nil && !m.known {
			m.of.word[m.turn] = 'x'
		}
	}
}

// recordReports records the policy's reports on bad versions.
func (w *trustEnv) recordReports(now time.Time) {
	for _, pool := range w.api.policy.Status.Pools {
		if pool.JoinHealth == nil {
			continue
		}
		ill := w.bad[key(cloud.PoolID(pool.ID), pool.JoinHealth.Version)]
		if ill == nil || !ill.back.IsZero() {
			continue
		}
		if state := pool.JoinHealth.State; len(ill.states) == 0 || !strings.HasSuffix(ill.states[len(ill.states)-1], state) {
			ill.states = append(ill.states, now.Format("15:04 ")+state)
		}
		ill.frozen = ill.frozen || pool.JoinHealth.State == string(joinhealth.Failing)
	}
}

// checkRollbacks records and judges rollbacks, and acknowledges the rollbacks hours later.
func (w *trustEnv) checkRollbacks() {
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
		if messages := fmt.Sprintf("%s from %s at %s", id, went.Version, went.At); !slices.Contains(w.detected, messages) &&
			!slices.Contains(w.alarmed, messages) {
			if ill := w.bad[k]; ill != nil {
				ill.back = went.At
				w.detected, w.latency = append(w.detected, messages), append(w.latency, went.At.Sub(ill.births[0]))
			} else {
				w.alarmed = append(w.alarmed, messages)
				w.stories = append(w.stories, w.describeStates())
			}
		}
		if w.clock.Now().Sub(went.At) < 3*time.Hour || went.Open && w.clock.Now().Sub(went.At) < 20*time.Hour {
			continue
		}
		w.acknowledge(id, images)
	}
}

func (w *trustEnv) acknowledge(id cloud.PoolID, images []cloud.Image) {
	seen, err := w.cloud.Pool(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range history.Of(history.Facts{Pool: seen, Images: images}).Acknowledge(w.clock.Now()).Marks {
		if _, err := recipe.OfMark(m, w.cloud, id).Pass(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// playDay plays a day: at eight each pool gets a new version, and pools grow all day.
func (w *trustEnv) playDay(playDay int) {
	begin := start.AddDate(0, 0, playDay-1)
	for w.clock.Now().Before(begin.Add(24 * time.Hour)) {
		minute := int(w.clock.Now().Sub(begin) / time.Minute)
		if minute == 8*60 {
			for i, id := range w.pools {
				var bad *fault
				if playDay%2 == 0 && i == w.random.IntN(len(w.pools)) {
					bad = &faults[w.random.IntN(len(faults))]
				}
				w.promote(id, playDay+1, bad)
			}
		}
		if minute == 2*60 {
			w.shrinkPools()
		}
		if minute >= 8*60 && minute < 20*60 {
			for _, id := range w.pools {
				w.grow(id)
			}
		}
		w.playMinute()
	}
}

// grow adds nodes to a pool now and then.
func (w *trustEnv) grow(id cloud.PoolID) {
	if w.random.IntN(w.every[id]) > 0 {
		return
	}
	n := 1
	if w.every[id] >= slowly {
		n += w.random.IntN(w.step)
	}
	for range n {
		if len(w.cloud.InstanceIDs(id)) < largest {
			w.add(id)
		}
	}
}

// describeStates is the policy's memory of the pools' nodes.
func (w *trustEnv) describeStates() string {
	var reported strings.Builder
	for _, pool := range w.api.policy.Status.Pools {
		p := pool.JoinHealth
		if p == nil {
			continue
		}
		fmt.Fprintf(&reported, "\n%s %s %s:", pool.Name, p.Version, p.State)
		for _, join := range p.Joins {
			fmt.Fprintf(&reported, " %s %s", join.RunningSince.Format("15:04"), join.Outcome)
			if join.ReadyAfter != nil {
				fmt.Fprintf(&reported, " after %s", join.ReadyAfter.Duration)
			}
			fmt.Fprint(&reported, ";")
		}
	}
	return reported.String()
}

// shrinkPools is the night: eight nodes of each pool stay, and the youngest nodes go.
func (w *trustEnv) shrinkPools() {
	left := map[cloud.PoolID]int{}
	w.newborns = slices.DeleteFunc(w.newborns, func(m *joiningInstance) bool {
		if left[m.pool]++; left[m.pool] <= 8 || !m.known {
			return false
		}
		w.remove(m)
		return true
	})
	clear(w.owed)
}
