package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/selection"
)

// Ages up to which a decision uses a look at a pool. A look costs two or three requests. A test of the sandbox holds a quiet
// pool to less than ten requests per hour.
const (
	// lookMaxAge applies to a pool that gets a prototype as soon as its recipe is older than known: a person may have rolled
	// back the recipe.
	lookMaxAge = time.Hour
	// idleMaxAge applies to a pool without a possible capture: the look only shows the version in use.
	idleMaxAge = 6 * time.Hour
	// freshMaxAge applies to the begin of a capture.
	freshMaxAge = time.Minute
	// lookTimeout bounds one look, so that a cloud that hangs for one pool does not block the other pools for long.
	lookTimeout = time.Minute
	// reconsider is the time until Kamino decides again about a pool without a change.
	reconsider = time.Hour
)

// Reasons of decisions that only this package gives. Packages selection and schedule, the policy (v1alpha1.PolicyDryRun and
// so on) and a refused preflight give the other reasons.
const (
	// Queued: as many captures run as the policy allows.
	Queued = "Queued"
	// Capturing: a Prototype was written.
	Capturing = "Capturing"
	// RolledBack: Kamino rolled the pool back automatically, and no person has acknowledged the rollback yet.
	RolledBack = v1alpha1.PolicyRolledBack
	// RollingBack: a rollback of the pool is running, and the recipe still names the bad version.
	RollingBack = v1alpha1.PolicyRollingBack
)

// PoolOutcome is the decision about one pool, with the facts of the decision.
type PoolOutcome struct {
	Pool   PoolRef
	Policy string
	// Status is the report for the policy's status.
	Status v1alpha1.PoolStatus
	Choice selection.Choice
	Look   PoolLook
	Answer schedule.Answer
	// Settings of a capture, with the method. Method has the reason if the policy names no method.
	Settings v1alpha1.Settings
	Method   capturemethod.Answer
	// Wanted reports that a capture of Choice.Donor should begin now.
	Wanted bool

	due    time.Time
	past   schedule.PastCaptures
	queued bool
	// rebuild reports that Kamino should reserve a node of the oldest image now. replaced names the nodes that are being
	// rebuilt.
	rebuild bool
	// rebuildPace is the pause after the begin of a rebuild.
	rebuildPace time.Duration
	replaced    []string
	notRebuilt  *policyProblem // of nodes that need a rebuild and are not rebuilt
	// pioneer is the decision about a patched donor; nil without spec.pioneer, or if the pool cannot be captured.
	pioneer    *pioneer
	notPatched *policyProblem // of a pool whose patches are unknown, or failed on a pioneer
	trouble    *policyProblem
	notJoining *policyProblem // of a pool that stays on a version whose nodes do not join
	keepables  []keepable
	manyImages *policyProblem // of a pool whose nodes are near the limit of different images
	err        error          // of the cloud
}

// decidePool decides about one pool; prototypes are the pool's. judge calls the cloud only if a capture is possible, or if
// nothing is known.
func (d *Decider) decidePool(ctx context.Context, r *rules, pool PoolRef, prototypes []v1alpha1.Prototype, now time.Time) *PoolOutcome {
	o := &PoolOutcome{Pool: pool, Policy: r.policy, Settings: r.spec.Settings, Look: d.PoolCache.Last(pool.ID), due: now.Add(reconsider)}
	subject := d.subject(pool, prototypes, now)
	settings := o.Settings
	settings.Generalize.Profile = d.profileOf(ctx, o, subject.Nodes)
	o.Method = capturemethod.In(d.Cloud, settings)
	o.Settings.Donor.Method = o.Method.Method
	subject.InService = o.Settings.CopiesDonor() && r.spec.Pioneer == nil
	if r.invalid == nil {
		o.past = schedule.PastOf(prototypes)
		o.Answer = r.schedule.At(now, o.past, r.spec.Failures)
	}
	var err error
	if r.invalid == nil && !r.spec.Suspend && subject.InFlight == "" {
		o.Look, err = d.ask(ctx, r, subject, o, now)
	}
	o.Choice = selection.Choose(withLook(subject, o.Look, o.Settings.CopiesDonor(), now), r.choice, now)
	o.report(prototypes, subject)
	o.replaced = d.replaced(subject.Nodes)
	d.judgePioneer(o, r, prototypes, err != nil || subject.InFlight != "", now)
	o.decide(r, err, now)
	if back := history.RollingBack(o.Look.Pool, o.Look.Images); back != nil && o.trouble == nil {
		o.trouble = &policyProblem{reason: RollingBack, message: back.Refusal(pool.Name, o.Look.Pool.Recipe).Message}
	}
	if gone := missing(o.Look); gone != nil && o.trouble == nil {
		o.trouble = &policyProblem{reason: v1alpha1.PolicyCurrentVersionMissing, message: gone.Message}
	}
	o.count(d.Nodes.Of(pool.ID), d.Cloud.SameInstance)
	d.judgeRebuild(o, r, subject.InFlight, now)
	return o
}

// ask calls the cloud as seldom as the decision allows.
func (d *Decider) ask(ctx context.Context, r *rules, subject selection.PoolState, o *PoolOutcome, now time.Time) (PoolLook, error) {
	maxAge := idleMaxAge
	if o.Answer.Allowed && selection.Choose(subject, r.choice, now).Donor != nil {
		maxAge = lookMaxAge
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return d.PoolCache.At(ctx, o.Pool.ID, maxAge)
}

// subject returns the pool for package selection, without facts of the cloud: as if the recipe named no version. Then most
// nodes are candidates.
func (d *Decider) subject(pool PoolRef, prototypes []v1alpha1.Prototype, now time.Time) selection.PoolState {
	subject := selection.PoolState{Name: pool.Name, Nodes: d.Nodes.Of(pool.ID), Reserved: reserved(d), OwnNode: d.OwnNode, FailedToday: map[string]string{}}
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

// withLook adds the cloud's facts. A donor whose disk is copied is never stopped, also a pioneer.
func withLook(subject selection.PoolState, look PoolLook, copies bool, now time.Time) selection.PoolState {
	if !look.Known() {
		return subject
	}
	subject.Version, subject.BuiltAt, subject.Refusals = look.Pool.Recipe.Version, builtAt(look), cloud.RefusalsFor(copies, look.Pool.Refusals)
	if current := currentImage(look); current != nil {
		subject.Level = current.Tags[cloud.TagPatchLevel]
	}
	today := imageversion.Of(now)
	bad := map[string]cloud.Image{}
	for _, image := range look.Images {
		isForeign := image.Origin == cloud.Foreign
		if !isForeign && imageversion.SameDay(image.Version, today) && subject.CapturedToday == "" && image.State != cloud.Absent {
			subject.CapturedToday = image.Tags[cloud.TagPrototype]
			if subject.CapturedToday == "" {
				subject.CapturedToday = "unknown"
			}
		}
		if image.Tags[cloud.TagQuarantined] == "" {
			continue
		}
		bad[v1alpha1.VersionLabelValue(image.Version)] = image
		if at := history.BuiltAt(image); !isForeign && imageversion.Compare(image.Version, subject.Version) > 0 && at.After(subject.BadUntil) {
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

// builtAt is the time of capture of the version in the recipe. Zero if the recipe names no version.
func builtAt(look PoolLook) time.Time {
	version := look.Pool.Recipe.Version
	if version == "" {
		return time.Time{}
	}
	if current := currentImage(look); current != nil {
		return history.BuiltAt(*current)
	}
	return history.BuiltAt(cloud.Image{Version: version})
}

// currentImage is the version in the recipe. Nil if the recipe names no version, or if the version does not exist.
func currentImage(look PoolLook) *cloud.Image {
	version := look.Pool.Recipe.Version
	for i := range look.Images {
		if version != "" && imageversion.Compare(look.Images[i].Version, version) == 0 {
			return &look.Images[i]
		}
	}
	return nil
}

// decide names the first obstacle of a capture, or wants the capture.
func (o *PoolOutcome) decide(r *rules, lookError error, now time.Time) {
	o.sooner(o.Choice.Changes, now)
	o.sooner(o.Answer.Next, now)
	o.Status.NextRun = o.nextRun(r, now)
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
		say(v1alpha1.PolicySuspended, fmt.Sprintf("policy %s is suspended: set spec.suspend to false to let the policy decide", r.policy))
	case o.Answer.Reason == schedule.TooManyFailures:
		say(o.Answer.Reason, o.Answer.Message)
		o.trouble = &policyProblem{reason: v1alpha1.PolicyTooManyFailures, message: fmt.Sprintf("pool %s: %s", o.Pool.Name, o.Answer.Message)}
	case lookError != nil:
		o.unavailable(lookError, now)
	case o.openRollback() != nil:
		went := o.openRollback()
		o.Status.Decision = &v1alpha1.PoolDecision{Reason: went.Reason, Message: went.Message, Remedy: went.Remedy}
		o.trouble = &policyProblem{reason: went.Reason, message: went.Message}
	case o.pioneer.rests() && !choice.Waived:
		say(o.pioneer.reason, o.pioneer.message)
	case choice.Donor == nil:
		chosen()
		if choice.Reason == selection.CapturedToday {
			end := imageversionEnd(now)
			o.sooner(end, now)
			o.Status.NextRun = timestamp(r.schedule.At(end, o.past, r.spec.Failures).Next)
		}
	case !o.Answer.Allowed:
		say(o.Answer.Reason, o.Answer.Message)
	case len(o.replaced) > 0:
		say(Rebuilding, fmt.Sprintf("%s of pool %s is being rebuilt: a capture begins after the rebuild", strings.Join(o.replaced, ", "), o.Pool.Name))
	case r.spec.DryRun:
		say(v1alpha1.PolicyDryRun, o.wouldCapture(choice.Donor.Name, now))
	default:
		chosen()
		o.Wanted = true
	}
}

// nextRun returns the time before which the schedule allows no capture. Nil if the time alone does not decide: a capture is
// running, or the policy waits for a user.
func (o *PoolOutcome) nextRun(r *rules, now time.Time) *metav1.Time {
	if r.invalid != nil || r.spec.Suspend || o.Choice.Reason == selection.CaptureInFlight || o.openRollback() != nil || !o.Answer.Next.After(now) {
		return nil
	}
	return timestamp(o.Answer.Next)
}

// openRollback returns the rollback that is running, or that Kamino finished and no person has acknowledged, with the remedy.
// Nil without such a rollback.
func (o *PoolOutcome) openRollback() *cloud.Refusal { return openRollback(o.Pool.Name, o.Look) }

func openRollback(pool string, look PoolLook) *cloud.Refusal {
	went := history.Unacknowledged(look.Images)
	if went == nil {
		return nil
	}
	said := went.Refusal(pool, look.Pool.Recipe)
	return &said
}

// wouldCapture is the message of a policy with dryRun about the donor.
func (o *PoolOutcome) wouldCapture(donor string, now time.Time) string {
	return fmt.Sprintf("node %s would be captured as version %s, but policy %s has spec.dryRun", donor, imageversion.Of(now), o.Policy)
}

// count reports the number of images of the pool's nodes, by the last look.
func (o *PoolOutcome) count(nodes []*corev1.Node, same func(a, b cloud.InstanceID) bool) {
	if o.Look.ImageCount.Limit == 0 || !o.Look.Known() {
		return
	}
	recipe := o.Look.Pool.Recipe
	now := o.Look.ImageCount.With(recipe.Image)
	o.Status.Images = int32(len(now.Images))
	if !now.IsNearLimit() {
		return
	}
	o.manyImages = &policyProblem{reason: v1alpha1.PolicyManyImages, message: now.Message(o.Pool.Name, recipe, func(id cloud.InstanceID) string {
		for _, node := range nodes {
			if same(cloud.InstanceID(node.Spec.ProviderID), id) {
				return node.Name
			}
		}
		return string(id)
	})}
}

// missing returns a refusal if the recipe names a version that does not exist, by the last look. A missing version does not
// block a capture: a capture would make the pool grow again.
func missing(look PoolLook) *cloud.Refusal {
	if !look.Known() {
		return nil
	}
	return history.Gone(look.Pool, look.Images)
}

// imageversionEnd is the end of the day (UTC) that names a version.
func imageversionEnd(now time.Time) time.Time {
	return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}

// unavailable reports that the cloud did not answer. Kamino then captures no node, because the known facts may be wrong.
func (o *PoolOutcome) unavailable(err error, now time.Time) {
	fresh, brief := now.Add(max(errorTTL, cloud.RetryAfter(err))), false
	if o.Look.Err != nil && o.Look.RetryAt.After(now) {
		fresh, brief = o.Look.RetryAt, cloud.Is(o.Look.Err, cloud.Throttled) && o.Look.TransientErrors < manyThrottled
	}
	message := fmt.Sprintf("Kamino cannot read pool %s from the cloud: %s. %s", o.Pool.Name, err, remedy(err))
	o.Status.Decision = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyCloudUnavailable, Message: message}
	o.trouble, o.err = &policyProblem{reason: v1alpha1.PolicyCloudUnavailable, message: message, brief: brief}, err
	o.Status.Donor = "" // the donor depends on the cloud's answer
	o.sooner(fresh, now)
}

// remedy returns what a person can do about an error of the cloud.
func remedy(err error) string {
	switch cloud.KindOf(err) {
	case cloud.Unauthenticated:
		return "Renew the credential that Kamino runs with (the cloud configuration, the Secret or the workload identity)"
	case cloud.Denied:
		return "Grant this permission to the credential; `kamino doctor` lists all missing permissions"
	case cloud.NotFound:
		return "If you deleted the pool on purpose, this message ends when the pool's nodes are gone"
	case cloud.Throttled, cloud.Unavailable:
		return "Kamino tries again automatically"
	case cloud.Conflict, cloud.Invalid, cloud.QuotaExceeded, cloud.Unsupported, cloud.Refused:
	}
	return "Run `kamino doctor` to check the cloud"
}

// sooner moves the next decision forward. A zero or past time changes nothing.
func (o *PoolOutcome) sooner(at, now time.Time) {
	if at.After(now) && at.Before(o.due) {
		o.due = at
	}
}

// trim drops the verdicts on single nodes: the caller reads the verdicts once, and most of the memory would be verdicts.
func (o *PoolOutcome) trim() {
	o.keepables, o.Choice.Verdicts = keepablesOf(o.Choice), nil
	o.Choice.Candidates = slices.Clone(o.Choice.Candidates[:min(len(o.Choice.Candidates), maxDonors)])
}
