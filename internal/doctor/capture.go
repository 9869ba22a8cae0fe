package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/selection"
)

// judged is a capture of a node, and the verdict of the engine's preflight.
type judged struct {
	admission.Verdict
	node string
	mode v1alpha1.TrialMode
	// copies: the node would stay in service.
	copies bool
}

// preflight runs the engine's preflight for the most likely donor of the pool, or for the next node if a refusal is about one
// node.
func preflight(ctx context.Context, p *poolView) []Finding {
	var first *judged
	var bootstrap bootstrapkind.Answer
	for i, candidate := range p.likely() {
		if i > 0 && !isListed(ctx, p, candidate) {
			continue
		}
		preview := p.preview(candidate)
		how, err := p.join(ctx, preview)
		var found *admission.Case
		if err == nil {
			found, err = p.Case(ctx, preview, p.seen)
		}
		if err != nil {
			p.fine = false
			return []Finding{p.unknown(candidate.name, err)}
		}
		v := found.Judge()
		isPool := !admission.AnotherMayDo(v.Refusals) // about the pool, or no refusal
		if first == nil || isPool {
			first, bootstrap = &judged{v, candidate.name, preview.Spec.Settings.Trial.Mode, found.CopiesDonor()}, how
		}
		if isPool {
			break
		}
	}
	if first == nil {
		return nil
	}
	p.bootstrap = bootstrap
	return p.findings(*first)
}

// isListed reports whether the cloud lists the instance of the node, or does not answer. One list costs less than the questions about an
// instance that is not there.
func isListed(ctx context.Context, p *poolView, of donor) bool {
	all, err := p.Cloud.Instances(ctx, p.id)
	return err != nil || slices.ContainsFunc(all, func(i cloud.Instance) bool { return strings.EqualFold(string(i.ID), of.providerID) })
}

// profile reports how the pool's nodes join. An unknown profile is no failure: a user names the profile.
func profile(_ context.Context, p *poolView) []Finding {
	switch how := p.bootstrap; {
	case how.Profile != "":
		return []Finding{ok("profile of the disks: %s; %s", how.Profile, how.Why)}
	case how.Why == "": // no capture was judged
		return nil
	default:
		f := p.refused(how.Refusals()[0])
		f.Level = Warn
		return []Finding{f}
	}
}

// preview is the Prototype for a capture of a node, in the form of the command without flags. The first policy for the pool
// decides the trial mode and the method.
func (p *poolView) preview(of donor) *v1alpha1.Prototype {
	c := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{
		Pool: p.name, PoolID: string(p.id), Version: imageversion.Of(p.Now()), Donor: v1alpha1.Donor{NodeName: of.name, ProviderID: of.providerID},
		Settings: v1alpha1.Settings{}.Defaulted(),
	}}
	c.Name = v1alpha1.PrototypeName(p.name, c.Spec.Version, 1) + "-preview" // no running capture is this one
	mode := &c.Spec.Settings.Trial.Mode
	if by := p.policy(p.policies, p.id, anySettings); by != nil {
		*mode = by.Spec.Settings.Trial.Mode
		c.Spec.Settings.Donor.Method = by.Spec.Settings.Donor.Method
	}
	*mode = cmp.Or(*mode, v1alpha1.DefaultTrialMode)
	return c
}

// join detects how a node's pool joins, as a command without a profile does, and sets the profile and the method.
func (p *poolView) join(ctx context.Context, of *v1alpha1.Prototype) (bootstrapkind.Answer, error) {
	answer, err := p.joiner.Joins(ctx, membership.FactsOf(ctx, p.Cloud, p.seen.Node(of.Spec.Donor.NodeName), p.id))
	of.Spec.Settings.Generalize.Profile = answer.Profile
	of.Spec.Settings.Donor.Method = capturemethod.In(p.Cloud, of.Spec.Settings).Method
	return answer, err
}

// findings turns a verdict into findings. A running capture, or a capture of today, is no problem of the pool.
func (p *poolView) findings(v judged) (found []Finding) {
	atWork := slices.ContainsFunc(v.Refusals, func(r cloud.Refusal) bool { return r.Reason == admission.CaptureInFlight })
	today := ""
	for _, r := range v.Refusals {
		switch {
		case p.ofToday(r.Reason), atWork && passing(r.Reason):
			today = cmp.Or(today, r.What())
		case r.Reason == imagecount.TooManyImages: // a check of its own reports these images
			p.fine = false
		case r.Reason == admission.NotInstalled && p.lacking: // reported before
		case r.Reason == admission.NotInstalled, r.Reason == admission.NoImage: // the installation adds these parts, so this is no failure
			found = append(found, Finding{Level: Warn, Check: CheckInstallation, Reason: r.Reason, Message: r.What(), Remedy: r.Remedy})
		default:
			found = append(found, p.refuse(r)...)
		}
	}
	for _, err := range v.Unread {
		if p.lacking && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
			continue
		}
		p.fine = false
		found = append(found, p.unknown(v.node, err))
	}
	if p.fine {
		found = append(found, capturable(v, today))
	}
	return found
}

// capturable is the finding for a pool without a problem. today is the obstacle that ends with the day.
func capturable(v judged, today string) Finding {
	now := "now"
	if v.copies {
		now = "now, while the node stays in service"
	}
	switch {
	case today != "":
		return ok("the only obstacle to a capture of node %s: %s", v.node, today)
	case v.mode == v1alpha1.TrialApart:
		return ok("node %s can be captured %s, with a trial node outside the pool", v.node, now)
	}
	return ok("node %s can be captured %s, with no trial", v.node, now)
}

// ofToday reports a reason that a running capture or a capture of today causes.
func (p *poolView) ofToday(reason string) bool {
	if reason == admission.VersionOutOfOrder {
		return imageversion.SameDay(p.pool.Recipe.Version, imageversion.Of(p.Now()))
	}
	return slices.Contains([]string{admission.CaptureInFlight, admission.CapturedToday, "VersionExists"}, reason)
}

// passing reports a reason that a running capture causes for the pool's other nodes.
func passing(reason string) bool {
	return reason == selection.TooManyUnavailable || reason == selection.OnlyReadyNode || reason == selection.Reserved
}

// unknown is the finding for a failed look at a capture.
func (p *poolView) unknown(node string, err error) Finding {
	if cloudError := (*cloud.Error)(nil); errors.As(err, &cloudError) {
		return p.refusedByCloud(err)
	}
	return warn("", "unknown whether node %s can be captured: %s", node, err)
}
