package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/selection"
)

// donor is a node that might become a donor.
type donor struct {
	name, providerID string
	// free: the node is in service without a reservation. ready is weaker.
	free, ready bool
}

// tried limits the nodes to ask about, if refusals are about single nodes, as in policies.
const tried = 3

// likely are the nodes to ask about, by name: free nodes, or else Ready nodes, or else all nodes.
func (m *members) likely() []donor {
	best := slices.Clone(m.donors)
	for _, better := range []func(donor) bool{func(d donor) bool { return d.ready }, func(d donor) bool { return d.free }} {
		if some := slices.DeleteFunc(slices.Clone(best), func(d donor) bool { return !better(d) }); len(some) > 0 {
			best = some
		}
	}
	slices.SortFunc(best, func(a, b donor) int { return cmp.Compare(a.name, b.name) })
	return best[:min(tried, len(best))]
}

// trial holds the findings about a capture of a pool.
type trial struct {
	doctor *Doctor
	pool   string
	// reported are reasons with a finding, here or elsewhere.
	reported map[string]bool
	// fine: there is no obstacle.
	fine bool
	// current is the version that the recipe names; empty for another image.
	current string
}

func (t *trial) refuse(r cloud.Refusal) {
	t.fine = false
	if !t.reported[r.Reason] {
		t.reported[r.Reason] = true
		t.doctor.add(t.doctor.found(r, CheckPool, t.pool))
	}
}

// capture runs the engine's preflight for the most likely donor of the pool, or for the next node if a refusal is about one
// node.
func (d *Doctor) capture(ctx context.Context, id cloud.PoolID, m *members, t *trial) {
	var first *admission.Verdict
	var mode v1alpha1.TrialMode
	var how bootstrapkind.Answer
	node := ""
	for _, candidate := range m.likely() {
		thought := d.thoughtOf(id, m, candidate)
		joins, err := d.join(ctx, thought, candidate)
		var found *admission.Case
		if err == nil {
			found, err = d.Case(ctx, thought)
		}
		if err != nil {
			t.fine = false
			d.add(d.unread(m.name, candidate.name, err))
			return
		}
		v := found.Judge()
		if first == nil || !admission.AnotherMayDo(v.Refusals) {
			first, node, how, mode = &v, candidate.name, joins, thought.Spec.Settings.Trial.Mode
		}
		if !admission.AnotherMayDo(v.Refusals) {
			break
		}
	}
	d.notify(*first, node, mode, m, t)
	d.tellProfile(m.name, how)
}

// tellProfile reports how the pool's nodes join. An unknown profile is no failure: a user names the profile.
func (d *Doctor) tellProfile(pool string, how bootstrapkind.Answer) {
	for _, r := range how.Refusals() {
		f := d.found(r, CheckProfile, pool)
		f.Level = Warn
		d.add(f)
	}
	if how.Profile != "" {
		d.ok(CheckProfile, pool, "profile of the disks: %s; %s", how.Profile, how.Why)
	}
}

// thoughtOf is the Prototype for a capture of a node, in the form of the command without flags. The first policy for the
// pool decides the trial mode.
func (d *Doctor) thoughtOf(id cloud.PoolID, m *members, of donor) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{
		Pool: m.name, PoolID: string(id), Version: imageversion.Of(d.Now()), Donor: v1alpha1.Donor{NodeName: of.name, ProviderID: of.providerID},
		Settings: v1alpha1.Settings{}.Defaulted(),
	}}
	p.Name = v1alpha1.PrototypeName(m.name, p.Spec.Version, 1)
	if by := m.policy(d.policies, id, func(v1alpha1.Settings) bool { return true }); by != nil {
		p.Spec.Settings.Trial.Mode = by.Spec.Settings.Trial.Mode
	}
	p.Spec.Settings.Trial.Mode = cmp.Or(p.Spec.Settings.Trial.Mode, v1alpha1.DefaultTrialMode)
	return p
}

// join detects how a node's pool joins, as a command without a profile does, and sets the profile.
func (d *Doctor) join(ctx context.Context, p *v1alpha1.Prototype, of donor) (bootstrapkind.Answer, error) {
	n, err := d.Kube.CoreV1().Nodes().Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return bootstrapkind.Answer{}, fmt.Errorf("read node %s: %w", of.name, err)
	}
	answer, err := membership.Joins(ctx, d.Kube, membership.FactsOf(ctx, d.Cloud, n, cloud.PoolID(p.Spec.PoolID)))
	p.Spec.Settings.Generalize.Profile = answer.Profile
	return answer, err
}

// notify turns a verdict into findings. A running capture, or a capture of today, is no problem of the pool.
func (d *Doctor) notify(v admission.Verdict, node string, mode v1alpha1.TrialMode, m *members, t *trial) {
	atWork := slices.ContainsFunc(v.Refusals, func(r cloud.Refusal) bool { return r.Reason == admission.CaptureInFlight })
	today := ""
	for _, r := range v.Refusals {
		switch {
		case r.Reason == admission.CaptureInFlight, r.Reason == admission.CapturedToday, r.Reason == "VersionExists",
			r.Reason == admission.VersionNotNewer && imageversion.SameDay(t.current, imageversion.Of(d.Now())), atWork && passing(r.Reason):
			today = cmp.Or(today, r.What())
		case r.Reason == imagecount.TooManyImages: // a check of its own reports these images
			t.fine = false
		case r.Reason == admission.NotInstalled && d.lacking: // reported before
		case r.Reason == admission.NotInstalled, r.Reason == admission.NoImage:
			d.notInstalled(r)
		default:
			t.refuse(r)
		}
	}
	for _, err := range v.Unread {
		if d.lacking && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
			continue
		}
		t.fine = false
		d.add(d.unread(m.name, node, err))
	}
	switch {
	case t.fine && today != "":
		d.ok(CheckPool, m.name, "the only obstacle to a capture of node %s: %s", node, today)
	case t.fine:
		d.ok(CheckPool, m.name, "node %s can be captured now, with %s", node, triedWhere(mode))
	}
}

// triedWhere describes the place of a trial.
func triedWhere(mode v1alpha1.TrialMode) string {
	if mode == v1alpha1.TrialApart {
		return "a trial node outside the pool"
	}
	return "no trial"
}

// passing reports a reason that a running capture causes for the pool's other nodes.
func passing(reason string) bool {
	return reason == selection.TooManyUnavailable || reason == selection.OnlyReadyNode || reason == selection.Reserved
}

// notInstalled reports missing parts of the installation once. The installation adds these parts, so the finding is no
// failure.
func (d *Doctor) notInstalled(r cloud.Refusal) {
	f := Finding{Level: Warn, Check: CheckInstallation, Reason: r.Reason, Message: r.What(), Remedy: r.Remedy}
	if !slices.Contains(d.findings, f) {
		d.add(f)
	}
}

// unread is the finding for a failed look at a capture.
func (d *Doctor) unread(pool, node string, err error) Finding {
	if said := (*cloud.Error)(nil); errors.As(err, &said) {
		return d.refusedByCloud(pool, err)
	}
	return Finding{Level: Warn, Check: CheckPool, Subject: pool, Message: fmt.Sprintf("unknown whether node %s can be captured: %s", node, err)}
}
