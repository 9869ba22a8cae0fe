package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history/retention"
)

// Reasons why a change to a pool's history is refused.
const (
	RecipeNotOurs      = "RecipeNotOurs"
	CaptureInFlight    = "CaptureInFlight"
	NoPrior            = "NoPrior"
	VersionNotFound    = "VersionNotFound"
	VersionQuarantined = "VersionQuarantined"
	// VersionNeeded: the recipe names the version, or a rollback goes to it.
	VersionNeeded = "VersionNeeded"
	// VersionUnusable: the version is not complete, or has no proof that its disk was generalized.
	VersionUnusable = "VersionUnusable"
	// VersionOfOtherCluster: another cluster in the account made the version.
	VersionOfOtherCluster = "VersionOfOtherCluster"
)

// MaxReason is the longest quarantine reason, in characters. The reason is in a tag, and Azure allows 256 characters.
const MaxReason = 256

// Rollback is the decision to change a pool's recipe to another version of the pool.
type Rollback struct {
	Pool string `json:"pool"`
	// From is the version that the pool leaves. To is the version that the pool changes to.
	From string `json:"from"`
	To   string `json:"to"`
	// Tags are written on From first: a crash before the second write then leaves a quarantined version in use, and no bad
	// version as usable. Empty if From does not exist, is of another cluster, or is older than To.
	Tags map[string]string `json:"tags,omitempty"`
	// Nodes are the nodes built from From, by name; nil if unknown.
	Nodes []string `json:"nodes"`
	// Finishes is when Kamino began the unfinished rollback that this decision completes; zero without one.
	Finishes time.Time `json:"finishes,omitzero"`
	// Done is true if the pool was already rolled back in this way.
	Done bool `json:"done"`
}

// Rollback decides about a rollback to the version, or without a version to the goal of an unfinished rollback, else to the
// prior version. A repeated rollback returns Done. A newer goal undoes a rollback, without a quarantine.
func (h History) Rollback(to, reason string) (Rollback, []cloud.Refusal) {
	current := h.Recipe.Version
	if current == "" {
		return Rollback{}, refuse(RecipeNotOurs, h.wayIn(),
			"the recipe of pool %s names %s, not a version of the pool, so a rollback is impossible", h.Pool, orNothing(h.Recipe.Image))
	}
	if refusals := h.refuseInFlight(); refusals != nil {
		return Rollback{}, refusals
	}
	if done, found := h.rolledBack(to); found {
		return done, nil
	}
	target, refusals := h.target(to)
	if refusals != nil {
		return Rollback{}, refusals
	}
	r := Rollback{Pool: h.Pool, From: current, To: target.Version}
	if begun := h.begun(current); begun != nil && same(begun.To, target.Version) {
		r.Finishes = begun.At
	}
	if from := h.Find(current); from != nil {
		r.From, r.Nodes = from.Version, from.Nodes
		if imageversion.Compare(r.To, r.From) < 0 && from.State != cloud.Deleting && !from.OtherCluster {
			r.Tags = map[string]string{cloud.TagQuarantined: from.Quarantined, cloud.TagRolledBackTo: r.To}
			if from.Quarantined == "" {
				r.Tags[cloud.TagQuarantined] = reason
			}
		}
	}
	return r, nil
}

// rolledBack finds the finished rollback to the recipe's version, so that a repeated command does nothing.
func (h History) rolledBack(to string) (Rollback, bool) {
	current := h.Find(h.Recipe.Version)
	if current == nil || current.Quarantined != "" || to != "" && !same(to, current.Version) {
		return Rollback{}, false
	}
	for _, v := range h.Versions {
		if v.Quarantined != "" && same(v.RolledBackTo, current.Version) && imageversion.Compare(v.Version, current.Version) > 0 {
			return Rollback{Pool: h.Pool, From: v.Version, To: current.Version, Nodes: v.Nodes, Done: true}, true
		}
	}
	return Rollback{}, false
}

// target returns the goal version, or refusals.
func (h History) target(to string) (*Version, []cloud.Refusal) {
	if to == "" {
		to = h.fallback()
	}
	if to == "" {
		return nil, refuse(NoPrior, fmt.Sprintf("to restore the recipe from before the first capture, run `kamino restore %s`", h.Pool),
			"pool %s has no version for a rollback: %s, and no version older than %s is complete and not quarantined", h.Pool, h.names(), h.Recipe.Version)
	}
	v := h.Find(to)
	switch {
	case v == nil:
		return nil, h.refuseAbsent(to)
	case same(v.Version, h.Recipe.Version):
		return nil, refuse(VersionNeeded, "name another version", "the recipe of pool %s already names version %s", h.Pool, v.Version)
	case v.Use == OtherCluster:
		return nil, h.refuseForeign(v)
	case v.Quarantined != "":
		return nil, refuse(VersionQuarantined, fmt.Sprintf("name another version, or lift the quarantine with `kamino unquarantine %s %s`", h.Pool, v.Version),
			"version %s of pool %s is quarantined (%s)", v.Version, h.Pool, v.Quarantined)
	case v.Suspect != "":
		return nil, h.refuseSuspect(v)
	case h.refuseHeld(v) != nil:
		return nil, h.refuseHeld(v)
	case v.State != cloud.Complete:
		return nil, refuse(VersionUnusable, "wait until the version is complete, or name another version", "version %s of pool %s is %s, not complete",
			v.Version, h.Pool, v.State)
	case v.lostProof():
		return nil, refuse(VersionUnusable, fmt.Sprintf("name another version, or delete the version with `kamino delete-version %s %s`", h.Pool, v.Version),
			"version %s of pool %s, from prototype %s, has no proof of a generalized disk", v.Version, h.Pool, v.Prototype)
	}
	return v, nil
}

// refuseHeld refuses a version that descends from a quarantined one, or that the cloud does not launch; nil otherwise.
func (h History) refuseHeld(v *Version) []cloud.Refusal {
	release := fmt.Sprintf("name another version, or release the version with `kamino unquarantine %s %s`", h.Pool, v.Version)
	switch {
	case v.Frozen != "":
		return refuse(VersionQuarantined, release, "version %s of pool %s was captured from a node of the quarantined version %s, or of a version after it",
			v.Version, h.Pool, v.Frozen)
	case v.Launches == cloud.LaunchesForbidden:
		return refuse(VersionUnusable, release, "version %s of pool %s is disabled, and the cloud does not launch it", v.Version, h.Pool)
	}
	return nil
}

// fallback returns the default goal: the goal of an unfinished rollback, else the prior version.
func (h History) fallback() string {
	if current := h.Find(h.Recipe.Version); current != nil && (current.Quarantined != "" || h.begun(current.Version) != nil) {
		if v := h.Find(current.RolledBackTo); v != nil && v.usable() && imageversion.Compare(v.Version, current.Version) < 0 {
			return v.Version
		}
	}
	return h.Prior
}

// Retirement is the decision to delete a version.
type Retirement struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Nodes were built from the version. The nodes keep running, but cannot be reimaged.
	Nodes []string `json:"nodes"`
	// Forgets is true if a quarantine is lost with the version: nodes built from it become possible donors again.
	Forgets bool `json:"forgets,omitempty"`
	// Done is true if the cloud is already deleting the version.
	Done bool `json:"done"`
}

// Retire decides about deleting a version by hand. Retire allows recent versions, unlike package retention. It refuses
// the version in the recipe, the goal of a rollback, and the version of a running capture.
func (h History) Retire(name string) (Retirement, []cloud.Refusal) {
	v := h.Find(name)
	if v == nil {
		return Retirement{}, h.refuseAbsent(name)
	}
	if v.Use == OtherCluster {
		return Retirement{}, h.refuseForeign(v)
	}
	r := Retirement{Pool: h.Pool, Version: v.Version, Nodes: v.Nodes, Done: v.State == cloud.Deleting}
	r.Forgets = v.Quarantined != "" && (len(v.Nodes) > 0 || imageversion.Compare(v.Version, h.Recipe.Version) > 0)
	for _, c := range h.Captures {
		if same(c.Version, v.Version) {
			return Retirement{}, refuse(CaptureInFlight,
				fmt.Sprintf("wait for the end of the capture, or stop the capture with `kamino cancel %s`", c.Prototype),
				"prototype %s is creating version %s of pool %s", c.Prototype, v.Version, h.Pool)
		}
	}
	switch {
	case same(v.Version, h.Recipe.Version):
		return Retirement{}, refuse(VersionNeeded, fmt.Sprintf("roll back first: `kamino rollback %s`", h.Pool),
			"the recipe of pool %s names version %s, and new nodes use the version", h.Pool, v.Version)
	case r.Done:
	case h.refuseAside(v) != nil:
		return Retirement{}, h.refuseAside(v)
	case v.Version == h.Prior, v.Version == h.fallback():
		return Retirement{}, refuse(VersionNeeded, "keep the version; if the version is bad, quarantine the version first",
			"version %s is the rollback target of pool %s", v.Version, h.Pool)
	case slices.ContainsFunc(h.AutoRollbacks, func(back AutoRollback) bool { return back.Version == v.Version && back.Acknowledged.IsZero() }):
		return Retirement{}, refuse(RolledBack, fmt.Sprintf("acknowledge the rollback first: `kamino acknowledge %s`", h.Pool),
			"pool %s rolled back automatically from version %s; deleting the version would end the stop of captures before anyone reviewed the rollback",
			h.Pool, v.Version)
	case v.State == cloud.Pending:
		return Retirement{}, refuse(VersionUnusable, "wait for the cloud",
			"the cloud is still creating version %s of pool %s", v.Version, h.Pool)
	}
	return r, nil
}

// refuseAside returns why the version may not be deleted while the recipe names none of the pool's versions; nil if it may,
// and if the recipe names one. With an image from elsewhere, as after a restore, each version can go that no node runs.
func (h History) refuseAside(v *Version) []cloud.Refusal {
	switch {
	case h.Find(h.Recipe.Version) != nil:
	case h.Recipe.Image == "" || h.Recipe.Latest || h.Recipe.Version != "":
		return refuse(RecipeNotOurs, h.wayIn(),
			"the recipe of pool %s names %s, not one version of the pool, so the rollback target is unknown", h.Pool, orNothing(h.Recipe.Image))
	case v.State == cloud.Pending: // refused below
	case !h.Counted:
		return refuse(RecipeNotOurs, "run the command again when the cloud lists the instances",
			"the recipe of pool %s names %s, and the nodes of version %s are unknown", h.Pool, h.Recipe.Image, v.Version)
	case len(v.Nodes) > 0:
		return refuse(RecipeNotOurs, "replace the nodes first, and then delete the version",
			"nodes of pool %s run version %s (%s), and the recipe names %s", h.Pool, v.Version, strings.Join(v.Nodes, ", "), h.Recipe.Image)
	}
	return nil
}

// wayIn returns the remedy for a recipe that names none of the pool's versions.
func (h History) wayIn() string {
	for _, v := range h.Versions {
		if _, refusals := h.Promote(v.Version); refusals == nil {
			return fmt.Sprintf("to use the newest usable version, run `kamino promote %s %s`", h.Pool, v.Version)
		}
	}
	return "capture a node, or write a version into the recipe manually"
}

// Mark is the decision to quarantine a version, or to end the quarantine.
type Mark struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Tags to write. An empty value removes a tag.
	Tags map[string]string `json:"tags,omitempty"`
	// Nodes were built from the version.
	Nodes []string `json:"nodes"`
	// Prior is the goal of a rollback afterwards; empty if there is none.
	Prior string `json:"prior,omitempty"`
	// Freezes are the versions that descend from the version, and are not used after its quarantine until a person decides.
	Freezes []string `json:"freezes,omitempty"`
	// Done is true if the version is already marked so.
	Done bool `json:"done"`
}

// Quarantine decides about a quarantine, so that the version is never used. It refuses the version in the recipe: a
// rollback changes the recipe and quarantines the version.
func (h History) Quarantine(name, reason string) (Mark, []cloud.Refusal) {
	v := h.Find(name)
	switch {
	case v == nil || v.State == cloud.Deleting:
		return Mark{}, h.refuseAbsent(name)
	case same(v.Version, h.Recipe.Version):
		return Mark{}, refuse(VersionNeeded, fmt.Sprintf("run `kamino rollback %s`, which also quarantines the version", h.Pool),
			"the recipe of pool %s names version %s", h.Pool, v.Version)
	case v.Use == OtherCluster:
		return Mark{}, h.refuseForeign(v)
	}
	return h.mark(v, map[string]string{cloud.TagQuarantined: reason}, v.Quarantined == reason), nil
}

// Unquarantine decides about ending a quarantine.
func (h History) Unquarantine(name string) (Mark, []cloud.Refusal) {
	v := h.Find(name)
	switch {
	case v == nil || v.State == cloud.Deleting:
		return Mark{}, h.refuseAbsent(name)
	case v.Use == OtherCluster:
		return Mark{}, h.refuseForeign(v)
	}
	tags := map[string]string{cloud.TagQuarantined: "", cloud.TagRolledBackTo: ""}
	if v.Suspect != "" {
		tags[cloud.TagSuspect] = "" // clears the suspicion, too
	}
	if v.Frozen != "" {
		tags[cloud.TagCleared] = strings.TrimSpace(v.Cleared + " " + v.Frozen)
	}
	return h.mark(v, tags, v.Quarantined == "" && v.RolledBackTo == "" && v.Suspect == "" && v.Frozen == "" && v.Launches != cloud.LaunchesForbidden), nil
}

func (h History) mark(v *Version, tags map[string]string, done bool) Mark {
	m := Mark{Pool: h.Pool, Version: v.Version, Nodes: v.Nodes, Tags: tags, Done: done}
	after, images := History{Recipe: h.Recipe}, []cloud.Image(nil)
	for _, other := range h.Versions {
		if other.Version == v.Version {
			other.Quarantined, other.Cleared = tags[cloud.TagQuarantined], cmp.Or(tags[cloud.TagCleared], other.Cleared)
			other.Launches = ""
		}
		after.Versions = append(after.Versions, other)
		images = append(images, cloud.Image{Version: other.Version, Tags: map[string]string{cloud.TagQuarantined: other.Quarantined,
			cloud.TagLineage: other.Lineage, cloud.TagCleared: other.Cleared}})
	}
	frozen := retention.Descended(images)
	for i := range after.Versions {
		other := &after.Versions[i]
		if other.Frozen = frozen[other.Version]; other.Frozen == v.Version {
			m.Freezes = append(m.Freezes, other.Version)
		}
	}
	m.Prior = after.prior()
	return m
}

// CheckReason returns the fault of a reason's text; empty if valid.
func CheckReason(reason string) string {
	switch {
	case reason == "":
		return "a reason is required"
	case utf8.RuneCountInString(reason) > MaxReason:
		return fmt.Sprintf("the reason has %d characters; the maximum is %d", utf8.RuneCountInString(reason), MaxReason)
	}
	return ""
}

// RefuseRebuild returns why no node may be rebuilt from the recipe; nil if nodes may be rebuilt.
func (h History) RefuseRebuild() []cloud.Refusal {
	current := h.Find(h.Recipe.Version)
	switch {
	case h.Recipe.Version == "":
		return refuse(RecipeNotOurs, "capture a node first",
			"the recipe of pool %s names %s, not a version of the pool", h.Pool, orNothing(h.Recipe.Image))
	case h.Gone != nil:
		return []cloud.Refusal{*h.Gone}
	case h.begun(h.Recipe.Version) != nil:
		return []cloud.Refusal{h.begun(h.Recipe.Version).Refusal(h.Pool, h.Recipe)}
	case current != nil && current.Quarantined != "":
		return refuse(VersionQuarantined, fmt.Sprintf("roll back first: `kamino rollback %s`", h.Pool),
			"the recipe of pool %s names the quarantined version %s (%s)", h.Pool, current.Version, current.Quarantined)
	}
	return h.refuseInFlight()
}

// RefuseRestore returns why the recipe may not be restored; nil if it may.
func (h History) RefuseRestore() []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, c := range h.Captures {
		refusals = append(refusals, refuse(CaptureInFlight, fmt.Sprintf("stop the capture with `kamino cancel %s`", c.Prototype),
			"prototype %s is capturing node %s and would remove the restored fields again", c.Prototype, c.Donor)...)
	}
	return refusals
}

func (h History) refuseInFlight() []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, c := range h.Captures {
		if c.AwaitsPromotion {
			continue
		}
		refusals = append(refusals,
			refuse(CaptureInFlight, fmt.Sprintf("stop the capture with `kamino cancel %s`; then the pool can be rolled back at once", c.Prototype),
				"prototype %s is capturing node %s and would point pool %s at version %s afterwards", c.Prototype, c.Donor, h.Pool, c.Version)...)
	}
	return refusals
}

// Named returns the version of the name, or why there is none.
func (h History) Named(name string) (*Version, []cloud.Refusal) {
	if v := h.Find(name); v != nil {
		return v, nil
	}
	return nil, h.refuseAbsent(name)
}

func (h History) refuseAbsent(name string) []cloud.Refusal {
	return refuse(VersionNotFound, h.names(),
		"pool %s has no version %s", h.Pool, name)
}

func (h History) refuseForeign(v *Version) []cloud.Refusal {
	return refuse(VersionOfOtherCluster,
		fmt.Sprintf("name another version; if that cluster is gone and the pool is yours, remove tag %s from the version in the cloud", cloud.TagCluster),
		"another cluster made version %s of pool %s, and Kamino leaves the version alone", v.Version, h.Pool)
}

// refuse returns a refusal with the obstacle and the remedy. The remedy comes first in the parameters.
func refuse(reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	return []cloud.Refusal{cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)}
}

func orNothing(image string) string {
	if image == "" {
		return "no image"
	}
	return image
}
