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
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/reservations"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons of decisions about a rebuild of the nodes of a pool's oldest image. Packages schedule and history and the policy
// give the other reasons.
const (
	// NotCounted: the images of the pool's nodes are not counted yet, or the cloud has no limit of images.
	NotCounted = "NotCounted"
	// CannotRebuild: the pool's cloud cannot rebuild an instance.
	CannotRebuild = "CannotRebuild"
	// FewImages: fewer images than spec.rebuild.atImages, or all nodes use the current image.
	FewImages = "FewImages"
	// Rebuilding: Kamino rebuilds a node of the pool. Meanwhile neither a capture nor another rebuild of the pool begins.
	Rebuilding = "Rebuilding"
	// CaptureFirst: a capture of the pool is about to begin.
	CaptureFirst = "CaptureFirst"
	// OldestImage: Kamino will rebuild the nodes of the oldest image.
	OldestImage = "OldestImage"
	// Waiting: Kamino cannot reserve the next node now.
	Waiting = "Waiting"
)

// rebuildAgain is the pause after Kamino could reserve no node.
const rebuildAgain = 5 * time.Minute

// rebuildCase holds the inputs of a decision about a rebuild.
type rebuildCase struct {
	pool       string
	atImages   int32
	imageCount imagecount.Count
	recipe     cloud.Recipe
	// refusals are reasons of the recipe against a rebuild.
	refusals []cloud.Refusal
	// held names the nodes of the pool that a replacement holds.
	held []string
	// inFlight names the running Prototype of the pool. capture reports that a capture is about to begin.
	inFlight           string
	capture            bool
	suspended, dryRun  bool
	policy             string
	calendar           schedule.Answer
	holding, maxAtOnce int
	// unable: the cloud cannot rebuild an instance.
	unable bool
}

// decide names the first obstacle of a rebuild, or wants the rebuild.
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
	if c.imageCount.Limit == 0 {
		return say(NotCounted, "the images of the nodes of pool %s are not counted yet, or the cloud has no limit of images", c.pool)
	}
	if c.unable {
		return say(CannotRebuild, "the cloud of pool %s cannot rebuild nodes: remove spec.rebuild from policy %s, and replace nodes of old images yourself", c.pool, c.policy)
	}
	oldest := c.imageCount.Oldest(c.recipe)
	if n := len(c.imageCount.Images); n < int(c.atImages) || oldest.Name == "" {
		return say(FewImages, "the nodes and the recipe of pool %s use %s; rebuilds of the oldest begin at %d (spec.rebuild.atImages)", c.pool, wording.Count(n, "different image"), c.atImages)
	}
	switch {
	case len(c.refusals) > 0:
		return say(c.refusals[0].Reason, "%s", c.refusals[0].Message)
	case c.inFlight != "":
		return say(selection.CaptureInFlight, "prototype %s is capturing pool %s: rebuilds begin after the capture", c.inFlight, c.pool)
	case c.capture:
		return say(CaptureFirst, "a capture of pool %s is about to begin: rebuilds begin after the capture", c.pool)
	case !c.calendar.Allowed:
		return say(c.calendar.Reason, "the policy's schedule allows no rebuild at this time")
	case c.holding >= c.maxAtOnce:
		return say(Queued, "the limit of policy %s is reached: %d reserved nodes in the cluster (spec.maxConcurrent)", c.policy, c.maxAtOnce)
	}
	const nodes = "the nodes and the recipe of pool %s use %s, and nodes of %s"
	if c.dryRun {
		return say(v1alpha1.PolicyDryRun, nodes+" would be rebuilt, but policy %s has spec.dryRun", c.pool, wording.Count(len(c.imageCount.Images), "different image"), called(oldest), c.policy)
	}
	_, decision = say(OldestImage, nodes+", the oldest, are rebuilt with version %s, one at a time", c.pool, wording.Count(len(c.imageCount.Images), "different image"), called(oldest), c.recipe.Version)
	return true, decision
}

// called is an image in the words of a message.
func called(image imagecount.Image) string {
	if image.Version != "" {
		return "version " + image.Version
	}
	return "image " + image.Name
}

// judgeRebuild decides whether a node of the pool needs a rebuild, if the policy allows rebuilds.
func (d *Decider) judgeRebuild(o *Outcome, r *rules, inFlight string, now time.Time) {
	if r.spec.Rebuild == nil || r.invalid != nil {
		return
	}
	nodes := d.Nodes.Of(o.Pool.ID)
	calendar := r.schedule.At(now, schedule.Past{}, r.spec.Failures)
	c := rebuildCase{
		pool: o.Pool.Name, policy: o.Policy, atImages: r.spec.Rebuild.AtImages, recipe: o.Look.Pool.Recipe, held: d.replaced(nodes), inFlight: inFlight,
		capture: o.Wanted, suspended: r.spec.Suspend, dryRun: r.spec.DryRun, calendar: calendar,
		holding: d.holding, maxAtOnce: int(r.spec.MaxConcurrent), unable: !d.Cloud.CanRebuild(),
	}
	if o.Look.Known() {
		c.imageCount = o.Look.ImageCount.With(c.recipe.Image)
		c.refusals = history.Of(history.Facts{Pool: o.Look.Pool, Images: o.Look.Images}).RefuseRebuild()
	}
	wanted, decision := c.decide()
	o.rebuild, o.Status.Rebuild = wanted, &decision
	o.sooner(calendar.Next, now)
	o.failedRebuilds(nodes, r)
	if d.Cloud.CanRebuild() && o.Status.Images <= r.spec.Rebuild.AtImages {
		o.manyImages = nil // the policy rebuilds these nodes
	}
}

// failedRebuilds finds the nodes with a failed rebuild.
func (o *Outcome) failedRebuilds(nodes []*corev1.Node, r *rules) {
	var lines []string
	for _, n := range nodes {
		failed := v1alpha1.NotRebuiltOf(n.Annotations)
		if failed == nil || failed.To != o.Look.Pool.Recipe.Version {
			continue
		}
		remedy := "Kamino tries again automatically"
		switch {
		case n.Annotations[v1alpha1.ReservationAnnotation] != "":
			remedy = fmt.Sprintf("`kubectl describe node %s` shows the cause; the rebuild continues after the repair, and `kamino release-node %s` returns the node unchanged", n.Name, n.Name)
		case failed.Attempts >= int(r.spec.Failures.Limit):
			remedy = fmt.Sprintf("%d tries failed (failures.limit): repair the cause, then run `kamino rebuild %s`", failed.Attempts, o.Pool.Name)
		}
		lines = append(lines, cloud.Refuse(failed.Reason, fmt.Sprintf("node %s of pool %s %s", n.Name, o.Pool.Name, failed.Message), remedy).Message)
	}
	if len(lines) > 0 {
		o.notRebuilt = &trouble{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(lines, "; ")}
	}
}

// reservation returns the reservation of a node if a Lease confirms the reservation; else nil.
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

// reserved reports whether a Lease confirms a reservation of the node.
func reserved(d *Decider) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		if d.Leased == nil {
			return n.Annotations[v1alpha1.ReservationAnnotation] != ""
		}
		_, is := d.leased[n.UID]
		return is
	}
}

// replaced names the nodes that a replacement holds, for any requester.
func (d *Decider) replaced(nodes []*corev1.Node) []string {
	var names []string
	for _, n := range nodes {
		if r := d.reservation(n); r != nil && r.Is(v1alpha1.HolderReplacement) {
			names = append(names, "node "+n.Name)
		}
	}
	return names
}

// reserved counts the nodes that Kamino rebuilds for a policy, and the donors in removal without a Prototype that holds
// them.
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

// count lists the pool's instances, because the last count may be old. The error is the cloud's.
func (d *Decider) count(ctx context.Context, pool cloud.PoolID) error {
	if d.Cloud.MaxImages(pool) == 0 {
		return nil
	}
	instances, err := d.Cloud.Instances(ctx, pool)
	if err == nil {
		d.PoolCache.Counted(pool, imagecount.Of(cloud.Recipe{}, instances, d.Cloud.MaxImages(pool)).Brief())
	}
	return err
}

// beginRebuild reserves the next node if a fresh look still wants the rebuild.
func (d *Decider) beginRebuild(ctx context.Context, w *observed, o *decided) error {
	if d.Rebuild == nil || !o.rebuild || o.Wanted || o.rebuildAt.After(w.now) {
		return nil
	}
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := d.count(lookCtx, o.Pool.ID); err != nil {
		o.rebuildWaits(w.now, err.Error())
		return ctx.Err()
	}
	if err := d.refresh(ctx, w, o); err != nil || !o.rebuild || o.Wanted {
		o.sooner(w.now.Add(time.Second), w.now)
		return err
	}
	if limit := int(o.rules.spec.MaxConcurrent); d.holding+w.took >= limit {
		o.rebuildWaits(w.now, fmt.Sprintf("policy %s allows %d at once (spec.maxConcurrent)", o.Policy, limit))
		return nil
	}
	recipe := o.Look.Pool.Recipe
	oldest := o.Look.ImageCount.With(recipe.Image).Oldest(recipe)
	away := o.rules.spec.Settings.Defaulted().OutOfService.MaxUnavailable
	from := oldest.Version
	if from == "" {
		from = oldest.Name
	}
	taken, err := d.Rebuild(ctx, rebuild.Request{
		Pool: o.Pool.ID, Policy: o.Policy, Image: oldest.Name, From: from, To: recipe.Version, Settings: o.rules.spec.Settings,
		Failures: o.rules.spec.Failures, MaxUnavailable: selection.MayBeAway(orDefault(away), len(d.Nodes.Of(o.Pool.ID))),
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		o.rebuildWaits(w.now, err.Error())
	case taken.Node == "":
		o.rebuildWaits(w.now, taken.Waiting)
		o.reportSkipped(taken.Alone)
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

func orDefault(limit *intstr.IntOrString) intstr.IntOrString {
	if limit == nil {
		return intstr.FromString(v1alpha1.DefaultMaxUnavailable)
	}
	return *limit
}

// rebuildWaits reports why Kamino could reserve no node, and sets the time of the next try.
func (o *decided) rebuildWaits(now time.Time, why string) {
	o.rebuildAt = now.Add(rebuildAgain)
	o.sooner(o.rebuildAt, now)
	if why != "" {
		o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: Waiting, Message: "the next node of pool " + o.Pool.Name + " is not rebuilt yet: " + why}
	}
}

// reportSkipped reports the nodes that Kamino leaves alone, if no other node is available.
func (o *decided) reportSkipped(alone map[string]cloud.Refusal) {
	var lines []string
	for name, refusal := range alone {
		lines = append(lines, fmt.Sprintf("node %s of pool %s %s", name, o.Pool.Name, refusal.Message))
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	if len(lines) > maxTroubles {
		lines = append(lines[:maxTroubles], fmt.Sprintf("and %d more nodes", len(lines)-maxTroubles))
	}
	o.notRebuilt = &trouble{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(lines, "; ")}
	o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyNotRebuilt, Message: o.notRebuilt.message}
}

// announceRebuild records the decision as an event of the policy, if the cluster holds the policy.
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

// keepRebuildWait keeps the time of the next try and, until then, the reason of the last try.
func (o *decided) keepRebuildWait(before *decided, now time.Time) {
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
	if said.Reason == v1alpha1.PolicyNotRebuilt && o.notRebuilt == nil {
		o.notRebuilt = before.notRebuilt
	}
}

// rebuildsOf returns the pools that need a rebuild of a node, by ID.
func rebuildsOf(pools map[cloud.PoolID]*decided) []*decided {
	var wanted []*decided
	for _, o := range pools {
		if o.rebuild {
			wanted = append(wanted, o)
		}
	}
	slices.SortFunc(wanted, func(a, b *decided) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	return wanted
}

// countHeld counts the nodes that captures and policies' rebuilds hold, and the pending replacements of donors that do not
// return. until is the first deadline of these replacements; zero if there is none.
func (d *Decider) countHeld(prototypes []v1alpha1.Prototype, now time.Time) (n int, until time.Time) {
	n = d.reserved(prototypes)
	for i := range prototypes {
		if HoldsDonor(&prototypes[i]) {
			n++
			continue
		}
		pending, unfilled := reservations.PendingReplacementOf(&prototypes[i])
		if !unfilled || !pending.Lasts(readyOf(d.Nodes.Of(cloud.PoolID(pending.Pool))), now) {
			continue
		}
		if n++; until.IsZero() || pending.Until.Before(until) {
			until = pending.Until
		}
	}
	return n, until
}

// readyOf counts the Ready nodes.
func readyOf(nodes []*corev1.Node) (n int) {
	for _, node := range nodes {
		if nodestate.Ready(node) {
			n++
		}
	}
	return n
}
