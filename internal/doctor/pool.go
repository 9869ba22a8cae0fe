package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// poolView is a pool that the checks judge. A check may use the results of the checks before it.
type poolView struct {
	*observed
	*members
	id   cloud.PoolID
	pool cloud.Pool
	// reported are reasons with a finding, here or elsewhere.
	reported map[string]bool
	// fine: there is no obstacle to a capture.
	fine bool
	// joins is the profile of a likely donor; empty if unknown.
	joins v1alpha1.Profile
	// bootstrap is the way in which the captured node joined; the zero Answer if no capture was judged.
	bootstrap bootstrapkind.Answer
}

// view reads a pool. After an error, only the members are known.
func (c *observed) view(ctx context.Context, id cloud.PoolID) (*poolView, error) {
	p := &poolView{observed: c, members: c.pools[id], id: id, reported: map[string]bool{}, fine: true}
	var err error
	if p.pool, err = c.Cloud.Pool(ctx, id); err != nil {
		return p, err
	}
	for _, of := range p.likely()[:min(len(p.donors), 1)] {
		if how, err := p.join(ctx, p.preview(of)); err == nil { // the check of a capture reports errors
			p.joins = how.Profile
		}
	}
	return p, nil
}

// refuse returns the finding for a reason without a finding.
func (p *poolView) refuse(r cloud.Refusal) []Finding {
	p.fine = false
	if p.reported[r.Reason] {
		return nil
	}
	p.reported[r.Reason] = true
	return []Finding{p.refused(r)}
}

// permissions lists missing permissions of the credential. Permissions for trials, and for one of the methods, count only if the pool's
// policies need them.
func permissions(ctx context.Context, p *poolView) (found []Finding) {
	list, err := p.Cloud.Permissions(ctx, p.id)
	if err != nil {
		return []Finding{warn(p.About.Remedies.Audit,
			"the credential may not list its own permissions, so that missing permissions are found only during a capture: %s", sentence(err))}
	}
	p.reported[cloud.PermissionMissing] = true
	unused := p.unusedPowers()
	list = slices.DeleteFunc(list, func(of cloud.Permission) bool { return unused[of.For] })
	scope := ""
	for _, of := range list {
		scope = of.Scope
		if of.Allowed {
			continue
		}
		remedy, lacks := cmp.Or(of.Remedy, p.About.Remedies.Action), fmt.Sprintf("the credential lacks %s on %s", of.Action, of.Scope)
		switch of.For {
		case "":
			p.fine = false
		case cloud.ForTrialApart, cloud.ForCopy, cloud.ForInPlace, cloud.ForRebuild:
			p.fine = false
			lacks += fmt.Sprintf(", needed for %s", of.For)
		default:
			found = append(found, warn(remedy+", if you use the feature", "%s, needed for %s, but not for captures", lacks, of.For))
			continue
		}
		found = append(found, fail(cloud.PermissionMissing, remedy, "%s", lacks))
	}
	if p.fine {
		found = append(found, ok("the credential has the permissions of a capture on %s", scope))
	}
	return found
}

// unusedPowers are the uses of permissions that a pool does not have. A credential should not have permissions without a use.
func (p *poolView) unusedPowers() map[string]bool {
	tries := p.any(func(s v1alpha1.Settings) bool { return s.Trial.Mode != v1alpha1.TrialOff }, true)
	reboots := p.any(func(s v1alpha1.Settings) bool {
		return s.Trial.Mode != v1alpha1.TrialOff && (s.Trial.Reboot == nil || *s.Trial.Reboot)
	}, true)
	rebuilding := slices.DeleteFunc(slices.Clone(p.policies), func(o v1alpha1.PrototypePolicy) bool { return o.Spec.Rebuild == nil })
	return map[string]bool{
		cloud.ForTrialApart: !tries, cloud.ForConsole: !tries, cloud.ForReboot: !reboots, cloud.ForCopy: !p.uses(v1alpha1.MethodCopy),
		cloud.ForInPlace: !p.uses(v1alpha1.MethodInPlace), cloud.ForRebuild: p.policy(rebuilding, p.id, anySettings) == nil,
		cloud.ForWarmPool: p.pool.Warm == nil,
	}
}

// uses reports whether captures of the pool use a method, by its policies or by default.
func (p *poolView) uses(method v1alpha1.CaptureMethod) bool {
	is := func(s v1alpha1.Settings) bool {
		s.Generalize.Profile = cmp.Or(s.Generalize.Profile, p.joins)
		return capturemethod.In(p.Cloud, s).Method == method
	}
	return p.any(is, is(v1alpha1.Settings{}))
}

// any reports whether one of the policies for the pool has matching settings. without is the answer for a pool without a policy.
func (p *poolView) any(is func(v1alpha1.Settings) bool, without bool) bool {
	return p.policy(p.policies, p.id, is) != nil || without && p.policy(p.policies, p.id, anySettings) == nil
}

// recipe reports the provider's refusals and cautions about the pool, and an owner of the recipe.
func recipe(_ context.Context, p *poolView) (found []Finding) {
	if p.pool.Owner != "" {
		found = append(found, ok("%s owns the pool's recipe: Kamino creates and tests a version, then hands the version over", p.pool.Owner))
	}
	if p.like != nil {
		if reused := bootstrapkind.NameReused(p.like); reused != "" {
			found = append(found, warn(bootstrapkind.NameReusedRemedy, "%s", reused))
		}
	}
	for _, c := range p.pool.Cautions {
		found = append(found, warn(c.Remedy, "%s", c.What()))
	}
	for _, r := range cloud.RefusalsFor(p.uses(v1alpha1.MethodCopy), p.pool.Refusals) {
		found = append(found, p.refuse(r)...)
	}
	if len(p.donors) == 0 {
		found = append(found, p.refuse(cloud.Refuse(selection.OnlyReadyNode,
			fmt.Sprintf("%d of the pool's %d nodes are Ready; evicted pods need another node", p.ready, p.members.nodes), "grow the pool to two nodes"))...)
	}
	return found
}

// images checks the number of images of the pool's nodes, if the cloud has a limit.
func images(ctx context.Context, p *poolView) []Finding {
	most := p.Cloud.MaxImages(p.id)
	if !imagecount.Possible(p.pool.Capacity, most) {
		return nil
	}
	instances, err := p.Cloud.Instances(ctx, p.id)
	if err != nil {
		return []Finding{p.refusedByCloud(err)}
	}
	counted := imagecount.Of(p.pool.Recipe, instances, most)
	if !counted.IsNearLimit() {
		return []Finding{ok("nodes and recipe of the pool use %d images of at most %d", len(counted.Images), counted.Limit)}
	}
	f := p.refused(counted.Warning(p.name, p.pool.Recipe, func(id cloud.InstanceID) string { return cmp.Or(p.names[strings.ToLower(string(id))], string(id)) }))
	if !counted.IsAtLimit() {
		f.Level, f.Reason = Warn, ""
	}
	return []Finding{f}
}

// versions checks the versions, and the recipe's image.
func versions(ctx context.Context, p *poolView) (found []Finding) {
	recipe := p.pool.Recipe
	images, err := p.Cloud.Images(ctx, p.id)
	if err != nil {
		return []Finding{fail(string(cloud.KindOf(err)), p.About.Remedies.History, "%s", sentence(err))}
	}
	if history.Gone(p.pool, images) != nil {
		return nil // a finding of the check of attention
	}
	has := "the pool has " + wording.Count(len(images), "version")
	if len(images) == 0 {
		has = "the pool has no version yet"
	}
	if recipe.Latest {
		return append(found, warn("none, if only Kamino creates versions from now on: see "+page.Moving,
			"the recipe names an image definition with latest version %s; the first capture pins the recipe to an exact version", recipe.Version))
	}
	return append(found, ok("%s, and the recipe names %s", has, cmp.Or(recipe.Version, recipe.Image)))
}

// patching checks whether policies find the time of a patch on the pool's nodes.
func patching(m *members) []Finding {
	switch {
	case m.unreadable > 0:
		return []Finding{warn("fix the tool that writes "+v1alpha1.KuredRebootNeededAnnotation+" or "+v1alpha1.PatchedAtAnnotation,
			"%s with an invalid patch time (not RFC 3339); policies refuse these nodes", wording.Count(m.unreadable, "node"))}
	case m.patched == 0:
		return []Finding{warn("run kured with --annotate-nodes=true: see "+page.Kured,
			"no node of the pool has the time of a patch: a PrototypePolicy finds no donor; `kamino capture NODE` works")}
	}
	return []Finding{ok("%d of the pool's %d nodes have the time of a patch, and %d wait for a reboot", m.patched, m.nodes, m.pending)}
}
