package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/reservations"
	"github.com/kamino-dev/kamino/internal/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons of what is decided about rebuilding the nodes of a pool's oldest image. The others are those of package schedule,
// of package history, and the policy's own.
const (
	// NotCounted: nobody has counted yet from how many images the pool's nodes were built, or its cloud has no limit to it.
	NotCounted = "NotCounted"
	// CannotRebuild: the pool's cloud cannot build an instance anew.
	CannotRebuild = "CannotRebuild"
	// FewImages: they are fewer than spec.rebuild.atImages, or all nodes are of the current one.
	FewImages = "FewImages"
	// Rebuilding: a node of the pool is being rebuilt. No capture of it begins meanwhile, and no other rebuild.
	Rebuilding = "Rebuilding"
	// CaptureFirst: a capture of the pool is about to begin.
	CaptureFirst = "CaptureFirst"
	// OldestImage: the nodes of the oldest image are to be rebuilt.
	OldestImage = "OldestImage"
	// Waiting: the next node can't be taken now.
	Waiting = "Waiting"
)

// rebuildAgain is after how long the next node is looked for where none could be taken.
const rebuildAgain = 5 * time.Minute

// Rebuild is the wish that the next node of a pool's oldest image is taken, to be rebuilt.
type Rebuild struct {
	Pool   Pool
	Policy string
	// Image that must go, as the cloud writes it, From what it is called, and To the version that the recipe names.
	Image, From, To string
	Settings        v1alpha1.Settings
	Failures        v1alpha1.FailureSettings
	// MaxUnavailable nodes of the pool may be out of service.
	MaxUnavailable int
}

// Taken is what came of it.
type Taken struct {
	// Node that was taken; empty if none was, of which Waiting says what for.
	Node    string
	Waiting string
	// Alone are nodes that are left alone, each with the reason.
	Alone map[string]cloud.Refusal
}

// rebuildCase is what a decision about rebuilding depends on.
type rebuildCase struct {
	pool     string
	atImages int32
	spread   imagecount.Count
	recipe   cloud.Recipe
	// refusals of a rebuild for the sake of the recipe.
	refusals []cloud.Refusal
	// held names the nodes of the pool that a replacement holds.
	held []string
	// inFlight names the Prototype of a capture of the pool, and capture tells that one is about to begin.
	inFlight           string
	capture            bool
	suspended, dryRun  bool
	policy             string
	calendar           schedule.Answer
	holding, maxAtOnce int
	// unable: the cloud cannot build an instance anew.
	unable bool
}

// decide names the first thing that is in the way of a rebuild, or wants one.
func (c rebuildCase) decide() (wanted bool, decision v1alpha1.PoolDecision) {
	say := func(reason, format string, args ...any) (bool, v1alpha1.PoolDecision) {
		return false, v1alpha1.PoolDecision{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if len(c.held) > 0 {
		return say(Rebuilding, "%s of pool %s is being rebuilt", strings.Join(c.held, ", "), c.pool)
	}
	if c.suspended {
		return say(v1alpha1.PolicySuspended, "policy %s is suspended", c.policy)
	}
	if c.spread.Limit == 0 {
		return say(NotCounted, "from how many images the nodes of pool %s were built is not counted yet, or its cloud has no limit to it", c.pool)
	}
	if c.unable {
		return say(CannotRebuild, "the cloud of pool %s can't rebuild nodes: leave spec.rebuild out of policy %s, and have nodes of old images replaced", c.pool, c.policy)
	}
	oldest := c.spread.Oldest(c.recipe)
	if n := len(c.spread.Images); n < int(c.atImages) || oldest.Name == "" {
		return say(FewImages, "the nodes of pool %s and its recipe name %s; the oldest is rebuilt from %d on (spec.rebuild.atImages)", c.pool, wording.Count(n, "different image"), c.atImages)
	}
	switch {
	case len(c.refusals) > 0:
		return say(c.refusals[0].Reason, "%s", c.refusals[0].Message)
	case c.inFlight != "":
		return say(selection.CaptureInFlight, "prototype %s is capturing pool %s: nodes are rebuilt once it has ended", c.inFlight, c.pool)
	case c.capture:
		return say(CaptureFirst, "a capture of pool %s is about to begin: nodes are rebuilt once it has ended", c.pool)
	case !c.calendar.Allowed:
		return say(c.calendar.Reason, "the policy's schedule lets no rebuild begin at this time")
	case c.holding >= c.maxAtOnce:
		return say(Queued, "as many nodes of the cluster are held as policy %s allows, which is %d (spec.maxConcurrent)", c.policy, c.maxAtOnce)
	}
	const nodes = "the nodes of pool %s and its recipe name %s, and those built from %s"
	if c.dryRun {
		return say(v1alpha1.PolicyDryRun, nodes+" would be rebuilt; spec.dryRun keeps policy %s from it", c.pool, wording.Count(len(c.spread.Images), "different image"), called(oldest), c.policy)
	}
	_, decision = say(OldestImage, nodes+", the oldest, are rebuilt from version %s, one at a time", c.pool, wording.Count(len(c.spread.Images), "different image"), called(oldest), c.recipe.Version)
	return true, decision
}

// called is an image as a sentence names it.
func called(image imagecount.Image) string {
	if image.Version != "" {
		return "version " + image.Version
	}
	return "image " + image.Name
}

// judgeRebuild decides whether a node of the pool is to be rebuilt, where the policy allows it.
func (d *Decider) judgeRebuild(o *Outcome, r *rules, inFlight string, now time.Time) {
	if r.spec.Rebuild == nil || r.invalid != nil {
		return
	}
	nodes := d.Nodes.Of(o.Pool.ID)
	_, able := cloud.As[cloud.Rebuilder](d.Cloud)
	calendar := r.schedule.At(now, schedule.Past{}, r.spec.Failures)
	c := rebuildCase{
		pool: o.Pool.Name, policy: o.Policy, atImages: r.spec.Rebuild.AtImages, recipe: o.Look.Pool.Recipe, held: d.replaced(nodes), inFlight: inFlight,
		capture: o.Wanted, suspended: r.spec.Suspend, dryRun: r.spec.DryRun, calendar: calendar,
		holding: d.holding, maxAtOnce: int(r.spec.MaxConcurrent), unable: !able,
	}
	if o.Look.Known() {
		c.spread = o.Look.Spread.With(c.recipe.Image)
		c.refusals = history.Of(history.Facts{Pool: o.Look.Pool, Images: o.Look.Images}).RefuseRebuild()
	}
	wanted, decision := c.decide()
	o.rebuild, o.Status.Rebuild = wanted, &decision
	o.sooner(calendar.Next, now)
	o.failedRebuilds(nodes, r)
	if able && o.Status.Images <= r.spec.Rebuild.AtImages {
		o.crowded = nil // the policy sees to it
	}
}

// failedRebuilds finds the nodes that stand in the way of their rebuild themselves.
func (o *Outcome) failedRebuilds(nodes []*corev1.Node, r *rules) {
	var told []string
	for _, n := range nodes {
		failed := v1alpha1.NotRebuiltOf(n.Annotations)
		if failed == nil || failed.To != o.Look.Pool.Recipe.Version {
			continue
		}
		remedy := "it is tried again by itself"
		switch {
		case n.Annotations[v1alpha1.ReservationAnnotation] != "":
			remedy = fmt.Sprintf("see `kubectl describe node %s`; it goes on by itself once that is mended, and `kamino release-node %s` gives it back as it is", n.Name, n.Name)
		case failed.Attempts >= int(r.spec.Failures.Limit):
			remedy = fmt.Sprintf("that was tried %d times (failures.limit): mend it, then `kamino rebuild %s`", failed.Attempts, o.Pool.Name)
		}
		told = append(told, cloud.Refuse(failed.Reason, fmt.Sprintf("node %s of pool %s %s", n.Name, o.Pool.Name, failed.Message), remedy).Message)
	}
	if len(told) > 0 {
		o.unrebuilt = &trouble{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(told, "; ")}
	}
}

// reservation of a node, if a Lease confirms it; nil if none does.
func (d *Decider) reservation(n *corev1.Node) *v1alpha1.Reservation {
	r, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil || r == nil || d.Leased == nil {
		return r
	}
	if leased, is := d.leased[n.UID]; is && leased.Same(r.Holder) {
		return &leased
	}
	return nil
}

// reserved reports whether a Lease confirms the reservation on a node, whatever that reservation says.
func reserved(d *Decider) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		if d.Leased == nil {
			return n.Annotations[v1alpha1.ReservationAnnotation] != ""
		}
		_, is := d.leased[n.UID]
		return is
	}
}

// replaced names the nodes that a replacement holds, whoever asked for it.
func (d *Decider) replaced(nodes []*corev1.Node) []string {
	var names []string
	for _, n := range nodes {
		if r := d.reservation(n); r != nil && r.Is(v1alpha1.HolderReplacement) {
			names = append(names, "node "+n.Name)
		}
	}
	return names
}

// reserved counts the nodes of the cluster that are being rebuilt for a policy, and the donors that are being removed though no
// Prototype holds them.
func (d *Decider) reserved(prototypes []v1alpha1.Prototype) (n int) {
	for _, node := range d.Nodes.Reserved() {
		r := d.reservation(node)
		if r == nil {
			continue
		}
		holds := func(p v1alpha1.Prototype) bool { return p.UID == r.UID && HoldsDonor(&p) }
		removed := r.Departure != nil && r.Departure.Removing && !slices.ContainsFunc(prototypes, holds)
		if removed || r.Rebuild != nil && r.Rebuild.Policy != "" {
			n++
		}
	}
	return n
}

// count lists the pool's instances, because what was counted last may be old, and tells whether the cloud could be asked.
func (d *Decider) count(ctx context.Context, pool cloud.PoolID) error {
	census, able := cloud.As[cloud.InstanceLister](d.Cloud)
	if !able || census.MaxImages(pool) == 0 {
		return nil
	}
	instances, err := census.Instances(ctx, pool)
	if err == nil {
		d.Looks.Counted(pool, imagecount.Of(cloud.Recipe{}, instances, census.MaxImages(pool)).Brief())
	}
	return err
}

// beginRebuild has the next node taken where that is wanted still once everything is looked at again.
func (d *Decider) beginRebuild(ctx context.Context, w *observed, o *decided) error {
	if d.Rebuild == nil || !o.rebuild || o.Wanted || o.rebuildAt.After(w.now) {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := d.count(looking, o.Pool.ID); err != nil {
		o.rebuildWaits(w.now, err.Error())
		return ctx.Err()
	}
	if err := d.lookAgain(ctx, w, o); err != nil || !o.rebuild || o.Wanted {
		o.sooner(w.now.Add(time.Second), w.now)
		return err
	}
	if limit := int(o.rules.spec.MaxConcurrent); d.holding+w.took >= limit {
		o.rebuildWaits(w.now, fmt.Sprintf("policy %s allows %d at once (spec.maxConcurrent)", o.Policy, limit))
		return nil
	}
	recipe := o.Look.Pool.Recipe
	oldest := o.Look.Spread.With(recipe.Image).Oldest(recipe)
	away := o.rules.spec.Settings.Defaulted().OutOfService.MaxUnavailable
	from := oldest.Version
	if from == "" {
		from = oldest.Name
	}
	taken, err := d.Rebuild(ctx, Rebuild{
		Pool: o.Pool, Policy: o.Policy, Image: oldest.Name, From: from, To: recipe.Version, Settings: o.rules.spec.Settings,
		Failures: o.rules.spec.Failures, MaxUnavailable: selection.MayBeAway(orTenth(away), len(d.Nodes.Of(o.Pool.ID))),
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		o.rebuildWaits(w.now, err.Error())
	case taken.Node == "":
		o.rebuildWaits(w.now, taken.Waiting)
		o.leftAlone(taken.Alone)
	default:
		w.took++
		o.rebuild, o.rebuildAt = false, w.now.Add(rebuildAgain)
		o.sooner(o.rebuildAt, w.now)
		o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: Rebuilding, Message: fmt.Sprintf("node %s of pool %s is being rebuilt", taken.Node, o.Pool.Name)}
		d.Log.Info("decided", "policy", o.Policy, "pool", o.Pool.Name, "rebuild", taken.Node, "from", from, "to", recipe.Version)
		d.announceRebuild(w, o, taken.Node)
	}
	return nil
}

func orTenth(limit *intstr.IntOrString) intstr.IntOrString {
	if limit == nil {
		return intstr.FromString(v1alpha1.DefaultMaxUnavailable)
	}
	return *limit
}

// rebuildWaits reports why no node could be taken, and looks again after a while.
func (o *decided) rebuildWaits(now time.Time, why string) {
	o.rebuildAt = now.Add(rebuildAgain)
	o.sooner(o.rebuildAt, now)
	if why != "" {
		o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: Waiting, Message: "the next node of pool " + o.Pool.Name + " is not rebuilt yet: " + why}
	}
}

// leftAlone tells of the nodes that are not taken for their own sake, where there is no other.
func (o *decided) leftAlone(alone map[string]cloud.Refusal) {
	var told []string
	for name, refusal := range alone {
		told = append(told, fmt.Sprintf("node %s of pool %s %s", name, o.Pool.Name, refusal.Message))
	}
	if len(told) == 0 {
		return
	}
	slices.Sort(told)
	if len(told) > maxTroubles {
		told = append(told[:maxTroubles], fmt.Sprintf("and %d more nodes", len(told)-maxTroubles))
	}
	o.unrebuilt = &trouble{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(told, "; ")}
	o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyNotRebuilt, Message: o.unrebuilt.message}
}

// announceRebuild records the decision as an event of the policy, if it is in the cluster.
func (d *Decider) announceRebuild(w *observed, o *decided, node string) {
	if d.Recorder == nil {
		return
	}
	for i := range w.policies {
		if p := &w.policies[i]; p.Name == o.Policy && p.UID != "" {
			d.Recorder.Eventf(p, nil, corev1.EventTypeNormal, "Decided", "Decide", "node %s is rebuilt: pool %s has many images", node, o.Pool.Name)
		}
	}
}

// stillUnrebuilt keeps when the next node is looked for, and until then why none could be taken.
func (o *decided) stillUnrebuilt(before *decided, now time.Time) {
	o.rebuildAt = before.rebuildAt
	if !o.rebuild || !o.rebuildAt.After(now) {
		return
	}
	o.sooner(o.rebuildAt, now)
	said := before.Status.Rebuild
	if said == nil || said.Reason != Waiting && said.Reason != v1alpha1.PolicyNotRebuilt {
		return
	}
	o.Status.Rebuild = said
	if said.Reason == v1alpha1.PolicyNotRebuilt && o.unrebuilt == nil {
		o.unrebuilt = before.unrebuilt
	}
}

// crowdedOf lists the pools a node of which should be rebuilt, by their IDs.
func crowdedOf(pools map[cloud.PoolID]*decided) []*decided {
	var crowded []*decided
	for _, o := range pools {
		if o.rebuild {
			crowded = append(crowded, o)
		}
	}
	slices.SortFunc(crowded, func(a, b *decided) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	return crowded
}

// held counts the nodes of the cluster that captures and policies' rebuilds hold, and the places of donors that do not return
// which nobody has filled yet. until is when the first of those is late; zero without one.
func (d *Decider) held(prototypes []v1alpha1.Prototype, now time.Time) (n int, until time.Time) {
	n = d.reserved(prototypes)
	for i := range prototypes {
		if HoldsDonor(&prototypes[i]) {
			n++
			continue
		}
		vacancy, vacant := reservations.PendingReplacementOf(&prototypes[i])
		if !vacant || !vacancy.Lasts(readyOf(d.Nodes.Of(cloud.PoolID(vacancy.Pool))), now) {
			continue
		}
		if n++; until.IsZero() || vacancy.Until.Before(until) {
			until = vacancy.Until
		}
	}
	return n, until
}

// readyOf counts the nodes that are Ready.
func readyOf(nodes []*corev1.Node) (n int) {
	for _, node := range nodes {
		if nodestate.Ready(node) {
			n++
		}
	}
	return n
}
