package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/page"
	"github.com/kamino-dev/kamino/internal/wording"
)

func (d *Doctor) credential() bool {
	if d.Cloud != nil {
		return true
	}
	d.add(Finding{Level: Fail, Check: CheckCredential, Message: fmt.Sprintf("no credential for the cloud: %s", d.CloudError), Remedy: d.About.Remedies.Credential})
	return false
}

// pool runs the checks of one pool. Checks share the answers of the cloud.
func (d *Doctor) pool(ctx context.Context, id cloud.PoolID, m *members) {
	ctx = cloud.WithReadCache(ctx)
	seen, err := d.Cloud.Pool(ctx, id)
	if err != nil {
		d.add(d.refusedByCloud(m.name, err))
		d.patching(m)
		return
	}
	d.ok(CheckCredential, m.name, "the credential can read the pool")
	leaves := d.leaves(ctx, id, m)
	known, missing := d.permissions(ctx, id, m, leaves != "")
	if leaves != "" {
		d.add(mayRemove(ctx, d, m.name, leaves))
	}
	t := &trial{doctor: d, pool: m.name, reported: map[string]bool{cloud.PermissionMissing: known}, fine: missing == 0, current: seen.Recipe.Version}
	if seen.Owner != "" {
		d.ok(CheckPool, m.name, "%s owns the pool's recipe: Kamino creates and tests a version, then hands the version over", seen.Owner)
	}
	for _, c := range seen.Cautions {
		d.add(Finding{Level: Warn, Check: CheckPool, Subject: m.name, Message: c.What(), Remedy: c.Remedy})
	}
	for _, r := range seen.Refusals {
		t.refuse(r)
	}
	if len(m.donors) == 0 {
		t.refuse(cloud.Refuse("OnlyReadyNode", fmt.Sprintf("%d of the pool's %d nodes are Ready; evicted pods need another node", m.ready, m.nodes), "grow the pool to two nodes"))
	} else {
		d.capture(ctx, id, m, t)
	}
	d.versions(ctx, id, m.name, seen)
	d.spread(ctx, seen, m)
	d.patching(m)
}

// spread checks the number of images of the pool's nodes, if the cloud has a limit.
func (d *Doctor) spread(ctx context.Context, seen cloud.Pool, m *members) {
	if !imagecount.Possible(seen.Capacity, d.Cloud.MaxImages(seen.ID)) {
		return // nothing to report
	}
	instances, err := d.Cloud.Instances(ctx, seen.ID)
	if err != nil {
		d.add(d.refusedByCloud(m.name, err))
		return
	}
	counted := imagecount.Of(seen.Recipe, instances, d.Cloud.MaxImages(seen.ID))
	if !counted.IsNearLimit() {
		d.ok(CheckImages, m.name, "nodes and recipe of the pool use %d images of at most %d", len(counted.Images), counted.Limit)
		return
	}
	f := d.found(counted.Warning(m.name, seen.Recipe, func(id cloud.InstanceID) string { return cmp.Or(m.names[strings.ToLower(string(id))], string(id)) }), CheckImages, m.name)
	if !counted.IsAtLimit() {
		f.Level, f.Reason = Warn, ""
	}
	d.add(f)
}

// found turns a refusal into a finding of a pool.
func (d *Doctor) found(r cloud.Refusal, check, pool string) Finding {
	return Finding{Level: Fail, Check: check, Subject: pool, Reason: r.Reason, Message: r.What(), Remedy: cmp.Or(r.Remedy, "see "+d.About.Docs)}
}

// refusedByCloud is the finding about the credential after a failed call.
func (d *Doctor) refusedByCloud(pool string, err error) Finding {
	f := Finding{Level: Fail, Check: CheckCredential, Subject: pool, Reason: string(cloud.KindOf(err)), Message: sentence(err), Remedy: d.About.Remedies.Credential}
	switch cloud.KindOf(err) {
	case cloud.Denied:
		f.Check, f.Remedy = CheckPermissions, d.About.Remedies.Permissions
	case cloud.Throttled, cloud.Unavailable:
		f.Remedy = "try again later; if the error persists, check the network path to the cloud"
	case cloud.NotFound:
		f.Remedy = d.About.Remedies.Pool
	default:
	}
	return f
}

func sentence(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// permissions lists missing permissions of the credential. known reports a complete answer, and missing counts the missing
// permissions of a capture. Permissions for removals and trials count only if the pool's policies need removals or trials.
func (d *Doctor) permissions(ctx context.Context, id cloud.PoolID, m *members, leaves bool) (known bool, missing int) {
	pool := m.name
	list, err := d.Cloud.Permissions(ctx, id)
	if err != nil {
		d.add(Finding{Level: Warn, Check: CheckPermissions, Subject: pool, Message: "the credential may not list its own permissions, so that missing permissions are found only during a capture: " + sentence(err),
			Remedy: d.About.Remedies.Audit})
		return false, 0
	}
	tries := tries(d, id, m)
	list = slices.DeleteFunc(list, func(p cloud.Permission) bool { // a credential should not have permissions without a use
		return p.For == cloud.ForRemoval && !leaves || (p.For == cloud.ForTrialApart || p.For == cloud.ForConsole) && !tries
	})
	allowed, scope := 0, ""
	for _, p := range list {
		scope = p.Scope
		switch {
		case p.Allowed:
			allowed++
		case p.For == cloud.ForRemoval, p.For == cloud.ForTrialApart:
			missing++
			d.add(Finding{Level: Fail, Check: CheckPermissions, Subject: pool, Reason: cloud.PermissionMissing, Message: fmt.Sprintf("the credential lacks %s on %s, needed for %s", p.Action, p.Scope, p.For),
				Remedy: cmp.Or(p.Remedy, d.About.Remedies.Action)})
		case p.For != "":
			d.add(Finding{Level: Warn, Check: CheckPermissions, Subject: pool, Message: fmt.Sprintf("the credential lacks %s on %s, needed for %s, but not for captures", p.Action, p.Scope, p.For),
				Remedy: cmp.Or(p.Remedy, d.About.Remedies.Action) + ", if you use the feature"})
		default:
			missing++
			d.add(Finding{Level: Fail, Check: CheckPermissions, Subject: pool, Reason: "PermissionMissing", Message: fmt.Sprintf("the credential lacks %s on %s", p.Action, p.Scope),
				Remedy: cmp.Or(p.Remedy, d.About.Remedies.Action)})
		}
	}
	if missing == 0 {
		d.ok(CheckPermissions, pool, "the credential has %d of %d permissions on %s", allowed, len(list), scope)
	}
	return true, missing
}

// versions checks the versions, and the recipe's image.
func (d *Doctor) versions(ctx context.Context, id cloud.PoolID, pool string, seen cloud.Pool) {
	recipe := seen.Recipe
	images, err := d.Cloud.Images(ctx, id)
	if err != nil {
		d.add(Finding{Level: Fail, Check: CheckVersions, Subject: pool, Reason: string(cloud.KindOf(err)), Message: sentence(err), Remedy: d.About.Remedies.History})
		return
	}
	if gone := history.Gone(seen, images); gone != nil {
		d.add(d.found(*gone, CheckVersions, pool))
		return
	}
	if went := history.Unacknowledged(images); went != nil {
		d.add(d.found(went.Says(pool, recipe), CheckVersions, pool))
	}
	for _, image := range images {
		if image.Version != recipe.Version {
			continue
		}
		if why := image.Tags[cloud.TagQuarantined]; why != "" {
			d.add(Finding{Level: Fail, Check: CheckVersions, Subject: pool, Reason: "VersionQuarantined", Message: fmt.Sprintf("the recipe names the quarantined version %s (%s)", image.Version, why), Remedy: "kamino rollback " + pool})
			return
		}
	}
	versions := "the pool has " + wording.Count(len(images), "version")
	if len(images) == 0 {
		versions = "the pool has no version yet"
	}
	switch {
	case recipe.Latest:
		d.add(Finding{Level: Warn, Check: CheckVersions, Subject: pool, Message: fmt.Sprintf("the recipe names an image definition with latest version %s; the first capture pins the recipe to an exact version", recipe.Version),
			Remedy: "none, if only Kamino creates versions from now on: see " + page.Moving})
	case recipe.Version != "":
		d.ok(CheckVersions, pool, "%s, and the recipe names %s", versions, recipe.Version)
	default:
		d.ok(CheckVersions, pool, "%s, and the recipe names %s", versions, recipe.Image)
	}
}

// readPatching reads the annotations with the time of a node's patch.
func (m *members) readPatching(n *corev1.Node) {
	for _, key := range []string{v1alpha1.KuredRebootNeededAnnotation, v1alpha1.PatchedAtAnnotation} {
		value, found := n.Annotations[key]
		if !found {
			continue
		}
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			m.patched++
			break
		}
		m.unreadable++
	}
	if pending := n.Annotations[v1alpha1.RebootPendingAnnotation]; n.Annotations[v1alpha1.KuredRebootInProgressAnnotation] != "" || pending != "" && pending != "false" {
		m.pending++
	}
}

func (d *Doctor) patching(m *members) {
	f := Finding{Level: OK, Check: CheckPatching, Subject: m.name,
		Message: fmt.Sprintf("%d of the pool's %d nodes have the time of a patch, and %d wait for a reboot", m.patched, m.nodes, m.pending)}
	switch {
	case m.unreadable > 0:
		f.Level, f.Message = Warn, fmt.Sprintf("%s with an invalid patch time (not RFC 3339); policies refuse these nodes", wording.Count(m.unreadable, "node"))
		f.Remedy = "fix the tool that writes " + v1alpha1.KuredRebootNeededAnnotation + " or " + v1alpha1.PatchedAtAnnotation
	case m.patched == 0:
		f.Level, f.Message = Warn, "no node of the pool has the time of a patch: a PrototypePolicy finds no donor; `kamino capture NODE` works"
		f.Remedy = "run kured with --annotate-nodes=true: see " + page.Kured
	}
	d.add(f)
}
