package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
)

// How old what is known of a pool may be. A look costs two requests, and a third where the recipe names the image
// definition. The sandbox counts that a quiet pool takes less than ten an hour, all who ask together.
const (
	// lookLife is for a pool that could get a prototype as soon as its recipe is found to be older than thought:
	// somebody may have rolled it back.
	lookLife = time.Hour
	// idleLookLife is for a pool for which nothing can come of a look: it only shows which version is in use.
	idleLookLife = 6 * time.Hour
	// freshLook is what a capture begins on.
	freshLook = time.Minute
	// lookTimeout bounds one look, so that a cloud that hangs for one pool does not hold up the others for long.
	lookTimeout = time.Minute
	// reconsider is after how long a pool is decided anew although nothing has happened.
	reconsider = time.Hour
)

// Reasons of decisions that are this package's own. The others are those of packages selection and schedule,
// the policy's own (v1alpha1.PolicyDryRun and so on), and those of a refused preflight.
const (
	// Queued: as many captures run as the policy allows.
	Queued = "Queued"
	// Capturing: a Prototype was written.
	Capturing = "Capturing"
	// WentBack: the pool went back from a version by itself, and no person has acknowledged it yet.
	WentBack = v1alpha1.PolicyWentBack
	// RollingBack: the pool is on its way back from a version, and its recipe still names it.
	RollingBack = v1alpha1.PolicyRollingBack
)

// Outcome is what was found out and decided about one pool.
type Outcome struct {
	Pool   Pool
	Policy string
	// Status is the report for the policy's status.
	Status v1alpha1.PoolStatus
	Choice selection.Choice
	Look   Look
	Answer schedule.Answer
	// Settings of a capture.
	Settings v1alpha1.Settings
	// Wanted tells that a capture of Choice.Donor should begin now.
	Wanted bool

	due    time.Time
	queued bool
	// rebuild tells that a node of the oldest image should be taken now, and replaced names those that are being rebuilt.
	rebuild   bool
	replaced  []string
	unrebuilt *trouble // of nodes that are wanted rebuilt and are not
	trouble   *trouble
	unjoined  *trouble // of a pool that stays on a version whose nodes do not join
	crowded   *trouble // of a pool whose nodes were built from nearly as many images as may be
	err       error    // of the cloud
}

// judge decides about one pool. prototypes are the pool's. It asks the cloud only if something can come of
// it, or nothing at all is known.
func (d *Decider) judge(ctx context.Context, r *rules, pool Pool, prototypes []v1alpha1.Prototype, now time.Time) *Outcome {
	o := &Outcome{Pool: pool, Policy: r.policy, Settings: r.spec.Settings, Look: d.Looks.Last(pool.ID), due: now.Add(reconsider)}
	subject := d.subject(pool, prototypes, now)
	leaves := d.leaves(ctx, o, subject.Nodes)
	subject.Leaves = func(*corev1.Node) bool { return leaves }
	if r.invalid == nil {
		o.Answer = r.schedule.At(now, schedule.PastOf(prototypes), r.spec.Failures)
	}
	var err error
	if r.invalid == nil && !r.spec.Suspend && subject.InFlight == "" {
		o.Look, err = d.ask(ctx, r, subject, o, now)
	}
	o.Choice = selection.Choose(withLook(subject, o.Look, now), r.choice, now)
	o.report(prototypes, subject)
	o.replaced = d.replaced(subject.Nodes)
	o.decide(r, err, now)
	if back := history.RollingBack(o.Look.Pool, o.Look.Images); back != nil && o.trouble == nil { // whatever was decided about captures
		o.trouble = &trouble{reason: RollingBack, message: back.Says(pool.Name, o.Look.Pool.Recipe).Message}
	}
	if gone := missing(o.Look); gone != nil && o.trouble == nil {
		o.trouble = &trouble{reason: v1alpha1.PolicyCurrentVersionMissing, message: gone.Message}
	}
	o.count(d.Nodes.Of(pool.ID), d.Cloud.SameInstance)
	d.judgeRebuild(o, r, subject.InFlight, now)
	return o
}

// ask asks the cloud, as seldom as the decision allows.
func (d *Decider) ask(ctx context.Context, r *rules, subject selection.Pool, o *Outcome, now time.Time) (Look, error) {
	maxAge := idleLookLife
	if o.Answer.Allowed && selection.Choose(subject, r.choice, now).Donor != nil {
		maxAge = lookLife
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return d.Looks.At(ctx, o.Pool.ID, maxAge)
}

// subject is the pool as package selection judges it, without what the cloud knows: as if its recipe named no
// version, which is when most nodes are candidates.
func (d *Decider) subject(pool Pool, prototypes []v1alpha1.Prototype, now time.Time) selection.Pool {
	subject := selection.Pool{Name: pool.Name, Nodes: d.Nodes.Of(pool.ID), Reserved: reserved(d), OwnNode: d.OwnNode, FailedToday: map[string]string{}}
	today := imageversion.Of(now)
	for i := range prototypes {
		p := &prototypes[i]
		switch {
		case !p.Status.Terminal():
			subject.InFlight = p.Name
		case !imageversion.SameDay(p.Spec.Version, today):
		case p.Status.Phase == v1alpha1.PhaseSucceeded:
			subject.CapturedToday = p.Name
		default:
			subject.FailedToday[p.Spec.Donor.NodeName] = p.Name
		}
	}
	return subject
}

// withLook adds what the cloud said.
func withLook(subject selection.Pool, look Look, now time.Time) selection.Pool {
	if !look.Known() {
		return subject
	}
	subject.Version, subject.BuiltAt, subject.Refusals = look.Pool.Recipe.Version, builtAt(look), look.Pool.Refusals
	today := imageversion.Of(now)
	bad := map[string]cloud.Image{}
	for _, image := range look.Images {
		if imageversion.SameDay(image.Version, today) && subject.CapturedToday == "" && image.State != cloud.Absent {
			subject.CapturedToday = image.Tags[cloud.TagPrototype]
			if subject.CapturedToday == "" {
				subject.CapturedToday = "unknown"
			}
		}
		if image.Tags[cloud.TagQuarantined] == "" {
			continue
		}
		bad[v1alpha1.VersionLabelValue(image.Version)] = image
		if at := history.BuiltAt(image); imageversion.Compare(image.Version, subject.Version) > 0 && at.After(subject.BadUntil) {
			subject.BadUntil = at
		}
	}
	if len(bad) == 0 {
		return subject
	}
	subject.NodeRefusals = map[string][]cloud.Refusal{}
	for _, node := range subject.Nodes {
		if image, found := bad[node.Labels[v1alpha1.VersionLabel]]; found {
			subject.NodeRefusals[node.Name] = history.RefuseDonor(node.Name, subject.Name, image)
		}
	}
	return subject
}

// builtAt is when the version that the recipe names was captured. Zero if it names none.
func builtAt(look Look) time.Time {
	version := look.Pool.Recipe.Version
	if version == "" {
		return time.Time{}
	}
	for _, image := range look.Images {
		if imageversion.Compare(image.Version, version) == 0 {
			return history.BuiltAt(image)
		}
	}
	return history.BuiltAt(cloud.Image{Version: version})
}

// decide names the first thing that is in the way of a capture, or wants one.
func (o *Outcome) decide(r *rules, lookError error, now time.Time) {
	o.sooner(o.Choice.Changes, now)
	o.sooner(o.Answer.Next, now)
	if o.Answer.Next.After(now) {
		o.Status.NextRun = stamp(o.Answer.Next)
	}
	say := func(reason, message string) {
		o.Status.Decision = &v1alpha1.PoolDecision{Reason: reason, Message: message}
	}
	choice := o.Choice
	chosen := func() {
		say(choice.Reason, choice.Message)
		o.Status.Decision.Remedy = choice.Remedy
	}
	switch {
	case r.invalid != nil:
		say(r.invalid.reason, r.invalid.message)
	case choice.Reason == selection.CaptureInFlight:
		chosen()
	case r.spec.Suspend:
		say(v1alpha1.PolicySuspended, fmt.Sprintf("policy %s is suspended: set spec.suspend to false to have it decide", r.policy))
		o.Status.NextRun = nil
	case o.Answer.Reason == schedule.TooManyFailures:
		say(o.Answer.Reason, o.Answer.Message)
		o.trouble = &trouble{reason: v1alpha1.PolicyTooManyFailures, message: fmt.Sprintf("pool %s: %s", o.Pool.Name, o.Answer.Message)}
	case lookError != nil:
		o.unavailable(lookError, now)
	case o.wentBack() != nil:
		went := o.wentBack()
		o.Status.Decision = &v1alpha1.PoolDecision{Reason: went.Reason, Message: went.Message, Remedy: went.Remedy}
		o.trouble = &trouble{reason: went.Reason, message: went.Message}
	case choice.Donor == nil:
		chosen()
		if choice.Reason == selection.CapturedToday {
			o.sooner(imageversionEnd(now), now)
		}
	case !o.Answer.Allowed:
		say(o.Answer.Reason, o.Answer.Message)
	case len(o.replaced) > 0:
		say(Rebuilding, fmt.Sprintf("%s of pool %s is being rebuilt: a capture begins once it is back", strings.Join(o.replaced, ", "), o.Pool.Name))
	case r.spec.DryRun:
		say(v1alpha1.PolicyDryRun, o.wouldCapture(choice.Donor.Name, now))
	default:
		chosen()
		o.Wanted = true
	}
}

// wentBack says, with the remedy, that the pool went back by itself, or is on its way, and no person has acknowledged it; nil if that is
// not so.
func (o *Outcome) wentBack() *cloud.Refusal { return wentBack(o.Pool.Name, o.Look) }

func wentBack(pool string, look Look) *cloud.Refusal {
	went := history.Unacknowledged(look.Images)
	if went == nil {
		return nil
	}
	said := went.Says(pool, look.Pool.Recipe)
	return &said
}

// wouldCapture is what a policy in a dry run says of the donor.
func (o *Outcome) wouldCapture(donor string, now time.Time) string {
	return fmt.Sprintf("node %s would be captured as version %s; spec.dryRun keeps policy %s from it", donor, imageversion.Of(now), o.Policy)
}

// count reports from how many images the pool's nodes were built, by what was last seen of them.
func (o *Outcome) count(nodes []*corev1.Node, same func(a, b cloud.InstanceID) bool) {
	if o.Look.Spread.Limit == 0 || !o.Look.Known() {
		return
	}
	recipe := o.Look.Pool.Recipe
	now := o.Look.Spread.With(recipe.Image)
	o.Status.Images = int32(len(now.Images))
	if !now.IsNearLimit() {
		return
	}
	o.crowded = &trouble{reason: v1alpha1.PolicyManyImages, message: now.Says(o.Pool.Name, recipe, func(id cloud.InstanceID) string {
		for _, node := range nodes {
			if same(cloud.InstanceID(node.Spec.ProviderID), id) {
				return node.Name
			}
		}
		return string(id)
	})}
}

// missing tells that the recipe names a version that is not there, by what was last seen of the pool. It keeps no
// capture from beginning: one would make the pool grow again.
func missing(look Look) *cloud.Refusal {
	if !look.Known() {
		return nil
	}
	return history.Gone(look.Pool, look.Images)
}

// imageversionEnd is when the day ends that names versions.
func imageversionEnd(now time.Time) time.Time {
	return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}

// unavailable reports that the cloud could not be asked. Nothing is captured then: what was known may be wrong.
func (o *Outcome) unavailable(err error, now time.Time) {
	again, brief := now.Add(max(errorLife, cloud.RetryAfter(err))), false
	if o.Look.Err != nil && o.Look.Again.After(now) {
		again, brief = o.Look.Again, cloud.Is(o.Look.Err, cloud.Throttled) && o.Look.Passing < manyThrottled
	}
	message := fmt.Sprintf("the cloud can't be asked about pool %s: %s. %s", o.Pool.Name, err, remedy(err))
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyCloudUnavailable, Message: message}
	o.trouble, o.err = &trouble{v1alpha1.PolicyCloudUnavailable, message, brief}, err
	o.Status.Donor = "" // which one it would be depends on what the cloud says
	o.sooner(again, now)
}

// remedy says what a person can do about an error of the cloud's.
func remedy(err error) string {
	switch cloud.KindOf(err) {
	case cloud.Unauthenticated:
		return "Renew the credential that Kamino runs with (the cloud configuration, the Secret or the workload identity)"
	case cloud.Denied:
		return "Give the credential this permission; `kamino doctor` names all that are missing"
	case cloud.NotFound:
		return "If the pool was deleted on purpose, its nodes will go too and this ends by itself"
	case cloud.Throttled, cloud.Unavailable:
		return "It is asked again by itself"
	case cloud.Conflict, cloud.Invalid, cloud.QuotaExceeded, cloud.Unsupported, cloud.Refused:
	}
	return "`kamino doctor` checks what Kamino needs of the cloud"
}

// sooner moves the next decision forward. A moment that is over, or zero, changes nothing.
func (o *Outcome) sooner(at, now time.Time) {
	if at.After(now) && at.Before(o.due) {
		o.due = at
	}
}

// trim drops the verdicts on single nodes, which are looked at once and would be most of what is kept.
func (o *Outcome) trim() {
	o.Choice.Verdicts = nil
	o.Choice.Candidates = slices.Clone(o.Choice.Candidates[:min(len(o.Choice.Candidates), maxDonors)])
}
