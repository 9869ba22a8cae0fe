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
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons of decisions about a rebuild of nodes of earlier images. Packages schedule and history and the policy
// give the other reasons.
const (
	// NotCounted: the images of the pool's nodes are not counted yet, or the cloud has no limit of images.
	NotCounted = "NotCounted"
	// Rebuilding: Kamino rebuilds a node of the pool. Meanwhile neither a capture nor another rebuild of the pool begins.
	Rebuilding = "Rebuilding"
	// OldestImage: Kamino will rebuild the nodes of the oldest image.
	OldestImage = "OldestImage"
	// OutdatedNodes: Kamino will rebuild the nodes that are not of the current version.
	OutdatedNodes = "OutdatedNodes"
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
	// outdated are the settings of rebuilds of all nodes of earlier images; nil without such rebuilds. builtAt is the capture
	// of the current version.
	outdated     *v1alpha1.OutdatedSettings
	builtAt, now time.Time
	// held names the nodes of the pool that a replacement holds. foreign: another requester holds one of the nodes, or the
	// rebuild of one of the nodes has failed. startedAt is the begin of the latest rebuild.
	held      []string
	foreign   bool
	startedAt time.Time
	// proven: a node of the current version is Ready. notJoining: nodes of the current version do not join.
	proven, notJoining bool
	// openRollback is an automatic rollback that waits for a person; nil without such a rollback.
	openRollback *cloud.Refusal
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
	oldest := c.imageCount.Oldest(c.recipe)
	cause := c.cause(oldest)
	switch {
	case len(c.held) > 0 && !c.mayOverlap(cause):
		return decideNot(Rebuilding, "%s of pool %s is being rebuilt", strings.Join(c.held, ", "), c.pool)
	case c.suspended:
		return decideNot(v1alpha1.PolicySuspended, "policy %s is suspended", c.policy)
	case c.imageCount.Limit == 0 && (c.outdated == nil || len(c.imageCount.Images) == 0):
		return decideNot(NotCounted, "the images of the nodes of pool %s are not counted yet, or the cloud has no limit of images", c.pool)
	case c.unable:
		return decideNot(string(cloud.Unsupported),
			"the cloud of pool %s cannot rebuild nodes: remove spec.rebuild from policy %s, and replace nodes of old images yourself", c.pool, c.policy)
	case cause == "":
		return c.notDue(oldest)
	case len(c.refusals) > 0:
		return decideNot(c.refusals[0].Reason, "%s", c.refusals[0].Message)
	case cause == OutdatedNodes && c.openRollback != nil:
		return decideNot(c.openRollback.Reason, "%s", c.openRollback.Message)
	case cause == OutdatedNodes && c.notJoining:
		return decideNot(string(joinhealth.Failing), "nodes of version %s of pool %s do not join: no node is rebuilt from the version",
			c.recipe.Version, c.pool)
	}
	return c.decideNow(oldest, cause)
}

// decideNow decides about a rebuild that has a cause.
func (c rebuildCase) decideNow(oldest imagecount.Image, cause string) (wanted bool, decision v1alpha1.PoolDecision) {
	switch {
	case c.inFlight != "":
		return decideNot(selection.CaptureInFlight, "prototype %s is capturing pool %s: rebuilds begin after the capture", c.inFlight, c.pool)
	case c.capture:
		return decideNot(selection.CaptureInFlight, "a capture of pool %s is about to begin: rebuilds begin after the capture", c.pool)
	case !c.calendar.Allowed:
		return decideNot(c.calendar.Reason, "the policy's schedule allows no rebuild at this time")
	case c.holding >= c.maxAtOnce:
		return decideNot(Queued, "the limit of policy %s is reached: %d reserved nodes in the cluster (spec.maxConcurrent)", c.policy, c.maxAtOnce)
	case c.next(cause).After(c.now):
		return decideNot(Waiting, "the next node of pool %s is rebuilt later: the limit is %s per hour (spec.rebuild.outdated.perHour)",
			c.pool, wording.Count(int(c.outdated.PerHour), "rebuild"))
	}
	images := wording.Count(len(c.imageCount.Images), "different image")
	if c.dryRun {
		return decideNot(v1alpha1.PolicyDryRun,
			"the nodes and the recipe of pool %s use %s, and nodes of %s would be rebuilt, but policy %s has spec.dryRun",
			c.pool, images, called(oldest), c.policy)
	}
	if cause == OutdatedNodes {
		_, decision = decideNot(OutdatedNodes, "nodes of pool %s are not of version %s: nodes of %s, the oldest, are rebuilt, at most %d per hour",
			c.pool, c.recipe.Version, called(oldest), c.outdated.PerHour)
		return true, decision
	}
	_, decision = decideNot(OldestImage,
		"the nodes and the recipe of pool %s use %s, and nodes of %s, the oldest, are rebuilt with version %s, one at a time",
		c.pool, images, called(oldest), c.recipe.Version)
	return true, decision
}

// decideNot is the decision against a rebuild.
func decideNot(reason, format string, args ...any) (wanted bool, decision v1alpha1.PoolDecision) {
	return false, v1alpha1.PoolDecision{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// cause is why Kamino rebuilds nodes of the oldest image: OutdatedNodes or OldestImage; empty without a cause.
func (c rebuildCase) cause(oldest imagecount.Image) string {
	switch {
	case oldest.Name == "":
		return ""
	case c.outdated != nil && !c.dueAt().After(c.now):
		return OutdatedNodes
	case c.imageCount.Limit > 0 && len(c.imageCount.Images) >= int(c.atImages):
		return OldestImage
	}
	return ""
}

// dueAt is the time from which nodes of earlier images are rebuilt.
func (c rebuildCase) dueAt() time.Time { return c.builtAt.Add(c.outdated.After.Duration) }

// pace is the time between the begins of two rebuilds.
func (c rebuildCase) pace(cause string) time.Duration {
	if cause != OutdatedNodes {
		return rebuildAgain
	}
	return time.Hour / time.Duration(c.outdated.PerHour)
}

// next is the earliest begin of the next rebuild, by the rebuilds that are running; zero without a running rebuild.
func (c rebuildCase) next(cause string) time.Time {
	if cause != OutdatedNodes || c.startedAt.IsZero() {
		return time.Time{}
	}
	return c.startedAt.Add(c.pace(cause))
}

// mayOverlap reports whether another rebuild may begin while rebuilds of the pool are running. The first node of a version
// is rebuilt alone.
func (c rebuildCase) mayOverlap(cause string) bool {
	return cause == OutdatedNodes && c.proven && !c.foreign
}

// notDue is the decision without a cause for a rebuild.
func (c rebuildCase) notDue(oldest imagecount.Image) (wanted bool, decision v1alpha1.PoolDecision) {
	switch {
	case c.outdated != nil && oldest.Name == "":
		return decideNot(selection.UpToDate, "all nodes of pool %s have the image of the recipe", c.pool)
	case c.outdated != nil:
		return decideNot(schedule.TooSoon, "version %s of pool %s is younger than %s (spec.rebuild.outdated.after): nodes of earlier images are rebuilt later",
			c.recipe.Version, c.pool, wording.Duration(c.outdated.After.Duration))
	}
	return decideNot(selection.UpToDate, "the nodes and the recipe of pool %s use %s; rebuilds of the oldest begin at %d (spec.rebuild.atImages)",
		c.pool, wording.Count(len(c.imageCount.Images), "different image"), c.atImages)
}

// called is an image in the words of a message.
func called(image imagecount.Image) string {
	if image.Version != "" {
		return "version " + image.Version
	}
	return "image " + image.Name
}

// judgeRebuild decides whether a node of the pool needs a rebuild, if the policy allows rebuilds.
func (d *Decider) judgeRebuild(o *PoolOutcome, r *rules, inFlight string, now time.Time) {
	if r.spec.Rebuild == nil || r.invalid != nil {
		return
	}
	nodes := d.Nodes.Of(o.Pool.ID)
	calendar := r.schedule.At(now, schedule.PastCaptures{}, r.spec.Failures)
	c := rebuildCase{
		pool: o.Pool.Name, policy: o.Policy, atImages: r.spec.Rebuild.AtImages, outdated: r.spec.Rebuild.Outdated, builtAt: builtAt(o.Look), now: now,
		recipe: o.Look.Pool.Recipe, held: d.replaced(nodes), inFlight: inFlight, openRollback: o.openRollback(), notJoining: isNotJoining(d.probes, o.Pool.ID),
		capture: o.Wanted || len(o.replaced) > 0 && o.Status.Decision.Reason == Rebuilding, suspended: r.spec.Suspend,
		dryRun: r.spec.DryRun, calendar: calendar, holding: d.held.count, maxAtOnce: int(r.spec.MaxConcurrent), unable: !d.Cloud.CanRebuild(o.Pool.ID),
	}
	c.foreign, c.startedAt = running(d, nodes, o.Policy)
	c.proven = hasReady(nodes, c.recipe.Version)
	if o.Look.Known() {
		c.imageCount = o.Look.ImageCount.With(c.recipe.Image)
		c.refusals = history.Of(history.Facts{Pool: o.Look.Pool, Images: o.Look.Images}).RefuseRebuild()
	}
	wanted, decision := c.decide()
	cause := c.cause(c.imageCount.Oldest(c.recipe))
	o.rebuild, o.rebuildPace, o.Status.Rebuild = wanted, c.pace(cause), &decision
	o.sooner(calendar.Next, now)
	o.sooner(c.next(cause), now)
	if c.outdated != nil {
		o.sooner(c.dueAt(), now)
	}
	o.failedRebuilds(nodes, r)
	if d.Cloud.CanRebuild(o.Pool.ID) && o.Status.Images <= r.spec.Rebuild.AtImages {
		o.manyImages = nil // the policy rebuilds these nodes
	}
}

// isNotJoining reports whether nodes of the pool's current version do not join.
func isNotJoining(probes *joinTracker, pool cloud.PoolID) bool {
	return probes != nil && probes.watches[pool] != nil && probes.watches[pool].verdict.State == joinhealth.Failing
}

// running returns the begin of the latest rebuild of the nodes. foreign reports that another requester holds one of the
// nodes, or that the rebuild of a reserved node has failed.
func running(d *Decider, nodes []*corev1.Node, policy string) (foreign bool, startedAt time.Time) {
	for _, n := range nodes {
		r := d.reservation(n)
		if r == nil || !r.Is(v1alpha1.HolderReplacement) {
			continue
		}
		failed := v1alpha1.NotRebuiltOf(n.Annotations)
		foreign = foreign || r.Rebuild == nil || r.Rebuild.Policy != policy || failed != nil && !failed.At.Before(&r.ReservedAt)
		if r.Rebuild != nil && r.Rebuild.StartedAt.After(startedAt) {
			startedAt = r.Rebuild.StartedAt.Time
		}
	}
	return foreign, startedAt
}

// hasReady reports whether a node of the version takes pods.
func hasReady(nodes []*corev1.Node, version string) bool {
	return version != "" && slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		return n.Labels[v1alpha1.VersionLabel] == v1alpha1.VersionLabelValue(version) && nodestate.Available(n)
	})
}

// failedRebuilds finds the nodes with a failed rebuild.
func (o *PoolOutcome) failedRebuilds(nodes []*corev1.Node, r *rules) {
	var lines []string
	for _, n := range nodes {
		failed := v1alpha1.NotRebuiltOf(n.Annotations)
		if failed == nil || failed.To != o.Look.Pool.Recipe.Version {
			continue
		}
		remedy := "Kamino tries again automatically"
		switch {
		case n.Annotations[v1alpha1.ReservationAnnotation] != "":
			remedy = fmt.Sprintf(
				"`kubectl describe node %s` shows the cause; the rebuild continues after the repair, "+
					"and `kamino return-node %s` returns the node unchanged", n.Name, n.Name)
		case failed.Attempts >= int(r.spec.Failures.Limit):
			remedy = fmt.Sprintf("%d tries failed (failures.limit): repair the cause, then run `kamino rebuild %s`", failed.Attempts, o.Pool.Name)
		}
		lines = append(lines, cloud.Refuse(failed.Reason, fmt.Sprintf("node %s of pool %s %s", n.Name, o.Pool.Name, failed.Message), remedy).Message)
	}
	if len(lines) > 0 {
		o.notRebuilt = &policyProblem{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(lines, "; ")}
	}
}

// reservation returns the reservation of a node if a Lease confirms the reservation; else nil.
func (d *Decider) reservation(n *corev1.Node) *v1alpha1.Reservation {
	r, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil || r == nil || d.Leased == nil {
		return r
	}
	if leased, is := d.held.leased[n.UID]; is && leased.Same(r.Holder) {
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
		_, is := d.held.leased[n.UID]
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

// rebuilt counts the nodes that Kamino rebuilds for a policy.
func (d *Decider) rebuilt() (n int) {
	for _, node := range d.Nodes.Reserved() {
		if r := d.reservation(node); r != nil && r.Rebuild != nil && r.Rebuild.Policy != "" {
			n++
		}
	}
	return n
}

// beginRebuild reserves the next node if a fresh look still wants the rebuild.
func (d *Decider) beginRebuild(ctx context.Context, w *observed, o *cachedOutcome) error {
	if d.Rebuild == nil || !o.rebuild || o.Wanted || o.rebuildAt.After(w.now) {
		return nil
	}
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err := d.PoolCache.Instances(lookCtx, o.Pool.ID, 0); err != nil { // the last count may be old
		o.rebuildWaits(w.now, err.Error())
		return ctx.Err()
	}
	if err := d.refresh(ctx, w, o); err != nil || !o.rebuild || o.Wanted {
		o.sooner(w.now.Add(time.Second), w.now)
		return err
	}
	if limit := int(o.rules.spec.MaxConcurrent); d.held.count+w.took >= limit {
		o.rebuildWaits(w.now, fmt.Sprintf("policy %s allows %d at once (spec.maxConcurrent)", o.Policy, limit))
		return nil
	}
	why := "has many images"
	if o.Status.Rebuild.Reason == OutdatedNodes {
		why = "has a newer version"
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
		o.rebuild, o.rebuildAt = false, w.now.Add(o.rebuildPace)
		o.sooner(o.rebuildAt, w.now)
		o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: Rebuilding, Message: fmt.Sprintf("node %s of pool %s is being rebuilt", taken.Node, o.Pool.Name)}
		d.Log.Info("decided", "policy", o.Policy, "pool", o.Pool.Name, "rebuild", taken.Node, "from", from, "to", recipe.Version)
		d.announceRebuild(w, o, taken.Node, why)
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
func (o *cachedOutcome) rebuildWaits(now time.Time, why string) {
	o.rebuildAt = now.Add(rebuildAgain)
	o.sooner(o.rebuildAt, now)
	if why != "" {
		o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: Waiting, Message: "the next node of pool " + o.Pool.Name + " is not rebuilt yet: " + why}
	}
}

// reportSkipped reports the nodes that Kamino leaves alone, if no other node is available.
func (o *cachedOutcome) reportSkipped(alone map[string]cloud.Refusal) {
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
	o.notRebuilt = &policyProblem{reason: v1alpha1.PolicyNotRebuilt, message: strings.Join(lines, "; ")}
	o.Status.Rebuild = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyNotRebuilt, Message: o.notRebuilt.message}
}

// announceRebuild records the decision as an event of the policy, if the cluster holds the policy.
func (d *Decider) announceRebuild(w *observed, o *cachedOutcome, node, why string) {
	if d.Recorder == nil {
		return
	}
	for i := range w.policies {
		if p := &w.policies[i]; p.Name == o.Policy && p.UID != "" {
			d.Recorder.Eventf(p, nil, corev1.EventTypeNormal, "Decided", "Decide", "node %s is rebuilt: pool %s %s", node, o.Pool.Name, why)
		}
	}
}

// keepRebuildWait keeps the time of the next try and, until then, the reason of the last try.
func (o *cachedOutcome) keepRebuildWait(before *cachedOutcome, now time.Time) {
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
func rebuildsOf(pools map[cloud.PoolID]*cachedOutcome) []*cachedOutcome {
	var wanted []*cachedOutcome
	for _, o := range pools {
		if o.rebuild {
			wanted = append(wanted, o)
		}
	}
	slices.SortFunc(wanted, func(a, b *cachedOutcome) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	return wanted
}

// countHeld counts the nodes that captures and policies' rebuilds hold.
func (d *Decider) countHeld(prototypes []v1alpha1.Prototype) int {
	n := d.rebuilt()
	for i := range prototypes {
		if HoldsDonor(&prototypes[i]) {
			n++
		}
	}
	return n
}
