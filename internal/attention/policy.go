package attention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

const (
	// OldImage is the age of an image that needs a person: metrics.rules.imageAgeDays of the chart.
	OldImage = 30 * 24 * time.Hour
	// noCandidateFor and neverCapturedFor are the ages of a policy from which a pool without candidates, or without an
	// image, needs a person, as in the alerts.
	noCandidateFor   = 24 * time.Hour
	neverCapturedFor = 3 * 24 * time.Hour
)

// waits is the next event of what waits for a person alone.
const waits = "nothing, until you act"

// finishes is the next event of a running rollback.
const finishes = "the controller finishes the rollback, even without a policy"

// frozen reports whether a decision waits for a person.
func frozen(reason string) bool {
	return slices.Contains([]string{v1alpha1.PolicyRolledBack, v1alpha1.PolicyTooManyFailures}, reason)
}

// policy says what the status of a policy holds. A True condition that no pool explains is an item of its own, so that no
// condition is silent.
func (l *list) policy(p *v1alpha1.PrototypePolicy) {
	before := len(l.items)
	if message := p.Unreadable.Of("PrototypePolicy", p.Name); message != "" {
		l.add(Item{Kind: PolicyStalled, Reason: v1alpha1.PolicyUnreadable, Subject: "policy " + p.Name, Next: waits,
			Cause:   message + "; Kamino skips the object and processes all others",
			Command: "kubectl edit prototypepolicy " + p.Name}, p.Name, "", v1alpha1.PolicyUnreadable)
	}
	for i := range p.Status.Pools {
		l.policyPool(p, &p.Status.Pools[i])
	}
	for _, c := range p.Status.Conditions {
		if c.Status != metav1.ConditionTrue || c.Type != v1alpha1.ConditionStalled && c.Type != v1alpha1.ConditionDegraded {
			continue
		}
		if !slices.ContainsFunc(l.items[min(before, len(l.items)):], func(i Item) bool { return i.Reason == c.Reason }) {
			l.condition(p, c)
		}
	}
}

// poolKinds are kinds that only a condition shows, by its reason.
var poolKinds = map[string]Kind{
	v1alpha1.PolicyCurrentVersionMissing: CurrentVersionMissing,
	v1alpha1.PolicyRollingBack:           PoolRollingBack,
	v1alpha1.PolicyRolledBack:            PoolRolledBack,
	v1alpha1.PolicyPatchesQuarantined:    PatchesQuarantined,
	string(joinhealth.Failing):           NodesDoNotJoin,
	v1alpha1.PolicyNotRebuilt:            NotRebuilt,
}

// condition says what a condition says, for the pools that its message names, or else for the policy.
func (l *list) condition(p *v1alpha1.PrototypePolicy, c metav1.Condition) {
	item := Item{Reason: c.Reason, Since: c.LastTransitionTime.Time, Cause: c.Message, Next: waits}
	item.Command = fmt.Sprintf("kubectl describe prototypepolicy %s", p.Name)
	named := false
	for _, s := range p.Status.Pools {
		if kind := poolKinds[c.Reason]; kind != "" && (strings.Contains(c.Message, "pool "+s.Name+" ") || len(p.Status.Pools) == 1) {
			named = true
			if kind == NodesDoNotJoin && !l.isCurrent(&s) {
				continue
			}
			i := item
			i.Kind, i.Subject, i.Pool, i.Command = kind, "pool "+s.Name, s.Name, l.command(kind, s.Name)
			l.add(i, s.Name)
		}
	}
	if named {
		return
	}
	item.Subject, item.Kind = "policy "+p.Name, PolicyStalled
	if c.Type == v1alpha1.ConditionDegraded {
		item.Kind = PolicyDegraded
	}
	l.add(item, p.Name, "", c.Reason)
}

// command is the command that helps a pool.
func (l *list) command(kind Kind, pool string) string {
	switch kind {
	case NodesDoNotJoin:
		switch known, is := l.pool(pool); {
		case !is:
			return "kamino plan " + pool
		case known.Prior != "":
			return "kamino rollback " + pool
		}
		return "kamino restore " + pool
	case PoolRolledBack:
		return "kamino acknowledge " + pool
	case PoolRollingBack:
		return "kamino rollback " + pool
	case CurrentVersionMissing:
		return "kamino history " + pool
	case ManyImages:
		return "kamino rebuild " + pool
	case NotAllowed:
		return "kamino doctor " + pool
	default:
		return "kamino plan " + pool
	}
}

// policyPool says what a policy knows about a pool.
func (l *list) policyPool(p *v1alpha1.PrototypePolicy, s *v1alpha1.PoolStatus) {
	item := func(kind Kind, reason, cause string) Item {
		return Item{Kind: kind, Reason: reason, Subject: "pool " + s.Name, Pool: s.Name, Cause: cause, Next: waits, Command: l.command(kind, s.Name),
			Since: since(p, reason)}
	}
	if j := s.JoinHealth; j != nil && j.State == string(joinhealth.Failing) && l.isCurrent(s) {
		i := item(NodesDoNotJoin, j.State, j.Message)
		if first := firstOverdue(j); !first.IsZero() { // otherwise, nodes of a cohort call for a person, and the condition knows since when
			i.Since = first
		}
		i.Next = fmt.Sprintf("new nodes still use version %s, until you act", j.Version)
		l.add(i, s.Name)
	}
	l.decision(p, s, item)
	if c := s.Patches; c != nil && c.Reason != "" {
		i := item(PatchesNotChecked, v1alpha1.PolicyPatchesNotChecked, c.Message)
		i.Next = "Kamino checks again within an hour"
		l.add(i, s.Name, c.Reason)
	}
	if r := s.Rebuild; r != nil && r.Reason == v1alpha1.PolicyNotRebuilt {
		i := item(NotRebuilt, r.Reason, r.Message)
		i.Next = "Kamino tries other nodes"
		l.add(i, s.Name)
	}
	if s.Images > 0 && saysTrue(p, imagecount.Sentence(s.Name, int(s.Images))) {
		i := item(ManyImages, v1alpha1.PolicyManyImages, "the cloud limits the images of a pool, and Kamino refuses captures near the limit")
		l.add(i, s.Name, fmt.Sprint(s.Images))
	}
	l.image(p, s, item)
}

// isCurrent reports whether the recipe still names the version whose joins the policy tracks, as far as the recipe is known.
func (l *list) isCurrent(s *v1alpha1.PoolStatus) bool {
	known, _ := l.pool(s.Name)
	return !known.Described || s.JoinHealth == nil || known.Current == s.JoinHealth.Version
}

// decision says that a pool's decision needs a person.
func (l *list) decision(p *v1alpha1.PrototypePolicy, s *v1alpha1.PoolStatus, item func(kind Kind, reason, cause string) Item) {
	d := s.Decision
	if d == nil {
		return
	}
	i := item("", d.Reason, d.Message)
	names := []string{s.Name}
	switch d.Reason {
	case v1alpha1.PolicyRolledBack:
		i.Kind = PoolRolledBack
	case v1alpha1.PolicyRollingBack:
		i.Kind, i.Next = PoolRollingBack, finishes
	case v1alpha1.PolicyPatchesQuarantined:
		i.Kind, i.Next = PatchesQuarantined, "the pool keeps its image, and Kamino waits for other patches"
	case v1alpha1.PolicyTooManyFailures, v1alpha1.PolicyCloudUnavailable, v1alpha1.PolicyPreflightFailed:
		if !saysTrue(p, d.Message) { // a trouble that will probably end soon
			return
		}
		i.Kind, names = PolicyStalled, []string{p.Name, " for pool " + s.Name, d.Reason}
		if d.Reason != v1alpha1.PolicyTooManyFailures {
			i.Next = "Kamino tries again"
		}
	default:
		if !saysTrue(p, d.Message) {
			return
		}
		i.Kind, i.Next, names = CaptureRefused, "Kamino tries again", []string{s.Name, d.Reason}
		if s.NextRun != nil {
			i.NextAt = s.NextRun.Time
		}
	}
	i.Command = l.command(i.Kind, s.Name)
	if i.Reason == cloud.PermissionMissing {
		i.Command = l.command(NotAllowed, s.Name)
	}
	l.add(i, names...)
}

// image says that a pool has no image of Kamino, or an old image.
func (l *list) image(p *v1alpha1.PrototypePolicy, s *v1alpha1.PoolStatus, item func(kind Kind, reason, cause string) Item) {
	if p.Spec.Suspend || p.Spec.DryRun || s.Prototype != "" {
		return
	}
	kind, since := imageKind(p, s, l.facts.Now)
	if kind == "" {
		return
	}
	i := item(kind, "", "")
	if s.Decision != nil {
		i.Cause = s.Decision.Message
	}
	i.Since, i.Next = since, "Kamino captures a node as soon as one can be a donor"
	if kind == NodesFromGenericImage {
		i.Next = "new nodes use the base image, until a capture or `kamino promote` points the pool at an image of Kamino"
	}
	l.add(i, s.Name)
}

// imageKind is what is wrong with the image of a pool, and since when; empty if nothing is wrong.
func imageKind(p *v1alpha1.PrototypePolicy, s *v1alpha1.PoolStatus, now time.Time) (kind Kind, since time.Time) {
	has, age, lives := s.CurrentVersion != "", time.Duration(0), time.Duration(0)
	if s.ImageBuiltAt != nil {
		age, since = now.Sub(s.ImageBuiltAt.Time), s.ImageBuiltAt.Time
	}
	if !p.CreationTimestamp.IsZero() {
		lives = now.Sub(p.CreationTimestamp.Time)
	}
	isOld := age > OldImage
	switch {
	case !has && s.LastResult != nil && s.LastResult.Result == v1alpha1.PhaseSucceeded:
		return NodesFromGenericImage, time.Time{}
	case isOld:
		return ImageOld, since
	case s.Candidates == 0 && s.Nodes > 0 && lives > noCandidateFor && (!has || age > OldImage/2):
		return NoCandidates, time.Time{}
	case !has && lives > neverCapturedFor:
		return NeverCaptured, p.CreationTimestamp.Time
	}
	return "", time.Time{}
}

// saysTrue reports whether a True condition of the policy has the text.
func saysTrue(p *v1alpha1.PrototypePolicy, text string) bool {
	return text != "" && slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && (c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionDegraded) &&
			strings.Contains(c.Message, text)
	})
}

// since is the begin of the True condition with the reason; zero if unknown.
func since(p *v1alpha1.PrototypePolicy, reason string) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Status == metav1.ConditionTrue && c.Reason == reason && (c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionDegraded) {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// firstOverdue is when the first of the failed nodes was overdue; zero if unknown.
func firstOverdue(j *v1alpha1.JoinHealthStatus) (first time.Time) {
	for _, join := range j.Joins {
		if join.Outcome == string(joinhealth.Failed) && join.OverdueSince != nil && (first.IsZero() || join.OverdueSince.Time.Before(first)) {
			first = join.OverdueSince.Time
		}
	}
	return first
}

// cloudSays says what the cloud says about a pool.
func (l *list) cloudSays(p Pool) {
	item := func(kind Kind, r cloud.Refusal) Item {
		return Item{Kind: kind, Reason: r.Reason, Subject: "pool " + p.Name, Pool: p.Name, Cause: r.What(), Next: waits, Command: l.command(kind, p.Name)}
	}
	if p.Gone != nil {
		i := item(CurrentVersionMissing, *p.Gone)
		i.Command = cmp.Or(backquoted(p.Gone.Remedy), i.Command)
		l.replace(i, p.Name)
	}
	if p.Quarantined != "" {
		l.add(Item{Kind: VersionQuarantined, Reason: string(VersionQuarantined), Subject: "pool " + p.Name, Pool: p.Name, Cause: p.Quarantined,
			Next: "new nodes still use the version, until you act", Command: l.command(NodesDoNotJoin, p.Name)}, p.Name)
	}
	if r := p.Rollback; r != nil {
		i := item(PoolRolledBack, *r)
		if r.Reason == v1alpha1.PolicyRollingBack {
			i = item(PoolRollingBack, *r)
			i.Next = finishes
		}
		i.Command = cmp.Or(backquoted(r.Remedy), i.Command)
		l.replace(i, p.Name)
	}
	if p.Fault == "" {
		return
	}
	i := Item{Kind: CloudUnavailable, Reason: string(p.FaultKind), Subject: "pool " + p.Name, Pool: p.Name, Cause: p.Fault,
		Next: "Kamino tries again automatically", Command: l.command(NotAllowed, p.Name)}
	names := []string{p.Name}
	switch p.FaultKind {
	case cloud.Unauthenticated: // one credential for all pools, said once
		i.Kind, i.Next, i.Subject, i.Pool, names = NotAllowed, waits, "credential", "", []string{string(p.FaultKind)}
	case cloud.Denied:
		i.Kind, i.Next, names = NotAllowed, waits, []string{string(p.FaultKind)}
	case cloud.Throttled:
		i.Kind, names = Throttled, nil
	default:
	}
	l.add(i, names...)
}

// replace adds an item in place of what a policy said earlier about it: the cloud's answer is newer.
func (l *list) replace(i Item, names ...string) {
	l.items = slices.DeleteFunc(l.items, func(other Item) bool {
		if other.Kind == i.Kind && other.Pool == i.Pool {
			i.Since = other.Since // only the policy knows since when
		}
		return other.Kind == i.Kind && other.Pool == i.Pool
	})
	l.add(i, names...)
}

// backquoted is the first command of a text; empty without a command.
func backquoted(text string) string {
	if parts := strings.Split(text, "`"); len(parts) > 2 {
		return parts[1]
	}
	return ""
}
