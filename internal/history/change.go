package history

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// Reasons why a change to a pool's history is refused.
const (
	RecipeNotOurs      = "RecipeNotOurs"
	CaptureInFlight    = "CaptureInFlight"
	NoPrior            = "NoPrior"
	VersionNotFound    = "VersionNotFound"
	VersionQuarantined = "VersionQuarantined"
	VersionIncomplete  = "VersionIncomplete"
	VersionCurrent     = "VersionCurrent"
	VersionPrior       = "VersionPrior"
)

// MaxReason is the longest reason of a quarantine, in characters: it is kept in a tag, and Azure takes 256
// characters in one.
const MaxReason = 256

// Rollback is the decision to point a pool at another of its versions.
type Rollback struct {
	Pool string `json:"pool"`
	// From is the version that the pool leaves, To the one that it goes to.
	From string `json:"from"`
	To   string `json:"to"`
	// Tags to write on From before anything else; empty if it is not quarantined, because it is the older
	// of the two or is gone. They come first: a crash between the two writes then leaves a quarantined
	// version that everybody sees in use and that nothing promotes again, with a note of where to go. The
	// other way round it would leave a bad version that the next capture, or rollback, takes for a good one.
	Tags map[string]string `json:"tags,omitempty"`
	// Nodes that were built from From, by name; nil if nobody could count them.
	Nodes []string `json:"nodes"`
	// Finishes is when Kamino began the rollback that this one brings to its end; zero if it began none.
	Finishes time.Time `json:"finishes,omitzero"`
	// Done: the pool was rolled back so already, and nothing is left to do.
	Done bool `json:"done"`
}

// Rollback decides where the pool goes back to. to names a version, or is empty: then it is the one that an
// unfinished rollback was on its way to, else the prior one. Running the same again after it has been done
// says Done and never goes back a second time. A newer version may be named, to take a rollback back; the
// older one that is left by that is not quarantined.
func (h History) Rollback(to, reason string) (Rollback, []cloud.Refusal) {
	current := h.Recipe.Version
	if current == "" {
		return Rollback{}, refuse(RecipeNotOurs, h.wayIn(),
			"the recipe of pool %s names %s, which is none of the pool's own versions, so there is nothing to go back from", h.Pool, orNothing(h.Recipe.Image))
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
		if imageversion.Compare(r.To, r.From) < 0 && from.State != cloud.Deleting {
			r.Tags = map[string]string{cloud.TagQuarantined: from.Quarantined, cloud.TagRolledBack: r.To}
			if from.Quarantined == "" {
				r.Tags[cloud.TagQuarantined] = reason
			}
		}
	}
	return r, nil
}

// rolledBack finds the rollback that led to what the recipe names, so that the same command again does not
// go back once more.
func (h History) rolledBack(to string) (Rollback, bool) {
	current := h.Find(h.Recipe.Version)
	if current == nil || current.Quarantined != "" || to != "" && !same(to, current.Version) {
		return Rollback{}, false
	}
	for _, v := range h.Versions {
		if v.Quarantined != "" && same(v.RolledBack, current.Version) && imageversion.Compare(v.Version, current.Version) > 0 {
			return Rollback{Pool: h.Pool, From: v.Version, To: current.Version, Nodes: v.Nodes, Done: true}, true
		}
	}
	return Rollback{}, false
}

// target is the version to go to.
func (h History) target(to string) (*Version, []cloud.Refusal) {
	if to == "" {
		to = h.fallback()
	}
	if to == "" {
		return nil, refuse(NoPrior, fmt.Sprintf("`kamino restore %s` gives the recipe back what it lost with its first version", h.Pool),
			"pool %s has no version to go back to: %s, and none that is older than %s is complete and not quarantined", h.Pool, h.names(), h.Recipe.Version)
	}
	v := h.Find(to)
	switch {
	case v == nil:
		return nil, h.refuseAbsent(to)
	case same(v.Version, h.Recipe.Version):
		return nil, refuse(VersionCurrent, "name another one", "the recipe of pool %s names version %s already", h.Pool, v.Version)
	case v.Quarantined != "":
		return nil, refuse(VersionQuarantined, fmt.Sprintf("name another one, or lift that with `kamino release %s %s`", h.Pool, v.Version),
			"version %s of pool %s is quarantined (%s)", v.Version, h.Pool, v.Quarantined)
	case v.Suspect != "":
		return nil, h.refuseSuspect(v)
	case v.State != cloud.Complete:
		return nil, refuse(VersionIncomplete, "wait until it is, or name another", "version %s of pool %s is %s, and only a complete one can be used", v.Version, h.Pool, v.State)
	case v.lostProof():
		return nil, refuse(VersionUnproven, fmt.Sprintf("name another one, or retire it with `kamino retire %s %s`", h.Pool, v.Version),
			"version %s of pool %s is of prototype %s and carries no proof that the disk it was made from was generalized, as each version of a capture does", v.Version, h.Pool, v.Prototype)
	}
	return v, nil
}

// fallback is where a rollback goes that names no version: where an unfinished one was going, else the prior.
func (h History) fallback() string {
	if current := h.Find(h.Recipe.Version); current != nil && (current.Quarantined != "" || h.begun(current.Version) != nil) {
		if v := h.Find(current.RolledBack); v != nil && v.usable() && imageversion.Compare(v.Version, current.Version) < 0 {
			return v.Version
		}
	}
	return h.Prior
}

// Retirement is the decision to delete a version.
type Retirement struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Nodes that were built from it: they keep running, and can't be built again as they are.
	Nodes []string `json:"nodes"`
	// Forgets: its quarantine goes with it, and nodes that are no donors for it are taken for good ones again.
	Forgets bool `json:"forgets,omitempty"`
	// Done: the cloud deletes it already.
	Done bool `json:"done"`
}

// Retire decides about deleting the version by hand. It is freer than retention, which keeps what is recent,
// but never takes what the recipe names, what a rollback goes to, or what a capture works on.
func (h History) Retire(name string) (Retirement, []cloud.Refusal) {
	v := h.Find(name)
	if v == nil {
		return Retirement{}, h.refuseAbsent(name)
	}
	r := Retirement{Pool: h.Pool, Version: v.Version, Nodes: v.Nodes, Done: v.State == cloud.Deleting}
	r.Forgets = v.Quarantined != "" && (len(v.Nodes) > 0 || imageversion.Compare(v.Version, h.Recipe.Version) > 0)
	for _, c := range h.Captures {
		if same(c.Version, v.Version) {
			return Retirement{}, refuse(CaptureInFlight, fmt.Sprintf("wait until it is done, or stop it with `kamino cancel %s`", c.Prototype),
				"prototype %s is making version %s of pool %s", c.Prototype, v.Version, h.Pool)
		}
	}
	switch {
	case same(v.Version, h.Recipe.Version):
		return Retirement{}, refuse(VersionCurrent, fmt.Sprintf("`kamino rollback %s` points it at another one first", h.Pool),
			"the recipe of pool %s names version %s, so its next nodes are built from it", h.Pool, v.Version)
	case r.Done:
	case h.Find(h.Recipe.Version) == nil && !h.unowned(v):
		return Retirement{}, refuse(RecipeNotOurs, h.wayIn(),
			"the recipe of pool %s names %s, which is none of the pool's versions, so that the one a rollback needs can't be told from the others", h.Pool, orNothing(h.Recipe.Image))
	case v.Version == h.Prior, v.Version == h.fallback():
		return Retirement{}, refuse(VersionPrior, "keep it, or quarantine it first if it is bad",
			"version %s is what a rollback of pool %s goes to", v.Version, h.Pool)
	case slices.ContainsFunc(h.Returns, func(back Return) bool { return back.Version == v.Version && back.Acknowledged.IsZero() }):
		return Retirement{}, refuse(WentBack, fmt.Sprintf("acknowledge that first: `kamino release %s`", h.Pool),
			"pool %s went back from version %s by itself, and what stops its captures until a person has seen to it would go with the version", h.Pool, v.Version)
	case v.State == cloud.Pending:
		return Retirement{}, refuse(VersionIncomplete, "wait until it is done",
			"the cloud is still making version %s of pool %s", v.Version, h.Pool)
	}
	return r, nil
}

// unowned tells of a version that nobody can need for going back: a capture made it, by its tags, the recipe names an
// image that is none of the pool's versions, and no node was built from it.
func (h History) unowned(v *Version) bool {
	ours := v.Prototype != "" && (v.Proof != "" || v.State == cloud.Failed)
	return ours && h.Recipe.Version == "" && !h.Recipe.Latest && h.Counted && len(v.Nodes) == 0
}

// wayIn says how a recipe that names none of the pool's versions comes to name one.
func (h History) wayIn() string {
	for _, v := range h.Versions {
		if _, refusals := h.Promote(v.Version); refusals == nil {
			return fmt.Sprintf("`kamino promote %s %s` points it at the newest one that can be used", h.Pool, v.Version)
		}
	}
	return "point it at one by hand, or capture a node"
}

// Mark is the decision to quarantine a version, or to lift that.
type Mark struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Tags to write; an empty value removes one.
	Tags map[string]string `json:"tags,omitempty"`
	// Nodes that were built from it.
	Nodes []string `json:"nodes"`
	// Prior is what a rollback goes to afterwards; empty if nothing is left.
	Prior string `json:"prior,omitempty"`
	// Done: it is so already.
	Done bool `json:"done"`
}

// Quarantine decides about marking the version as never to be used. What the recipe names is refused: that
// needs a rollback, which does both.
func (h History) Quarantine(name, reason string) (Mark, []cloud.Refusal) {
	v := h.Find(name)
	switch {
	case v == nil || v.State == cloud.Deleting:
		return Mark{}, h.refuseAbsent(name)
	case same(v.Version, h.Recipe.Version):
		return Mark{}, refuse(VersionCurrent, fmt.Sprintf("`kamino rollback %s` quarantines it and points the pool at another one", h.Pool),
			"the recipe of pool %s names version %s", h.Pool, v.Version)
	}
	return h.mark(v, map[string]string{cloud.TagQuarantined: reason}, v.Quarantined == reason), nil
}

// Release decides about lifting the quarantine.
func (h History) Release(name string) (Mark, []cloud.Refusal) {
	v := h.Find(name)
	if v == nil || v.State == cloud.Deleting {
		return Mark{}, h.refuseAbsent(name)
	}
	tags := map[string]string{cloud.TagQuarantined: "", cloud.TagRolledBack: ""}
	if v.Suspect != "" {
		tags[cloud.TagSuspect] = "" // with the quarantine it is cleared of what led to it
	}
	return h.mark(v, tags, v.Quarantined == "" && v.RolledBack == "" && v.Suspect == ""), nil
}

func (h History) mark(v *Version, tags map[string]string, done bool) Mark {
	m := Mark{Pool: h.Pool, Version: v.Version, Nodes: v.Nodes, Tags: tags, Done: done}
	after := History{Recipe: h.Recipe}
	for _, other := range h.Versions {
		if other.Version == v.Version {
			other.Quarantined = tags[cloud.TagQuarantined]
		}
		after.Versions = append(after.Versions, other)
	}
	m.Prior = after.prior()
	return m
}

// CheckReason says what is wrong with the text of a reason; "" if nothing is.
func CheckReason(reason string) string {
	switch {
	case reason == "":
		return "a reason is needed: people who find the version quarantined will ask"
	case utf8.RuneCountInString(reason) > MaxReason:
		return fmt.Sprintf("the reason has %d characters, and the cloud keeps at most %d", utf8.RuneCountInString(reason), MaxReason)
	}
	return ""
}

// RefuseRebuild tells why no node is to be built anew from what the recipe names; nil if one may be.
func (h History) RefuseRebuild() []cloud.Refusal {
	current := h.Find(h.Recipe.Version)
	switch {
	case h.Recipe.Version == "":
		return refuse(RecipeNotOurs, "capture a node first",
			"the recipe of pool %s names %s, which is none of the pool's own versions", h.Pool, orNothing(h.Recipe.Image))
	case h.Gone != nil:
		return []cloud.Refusal{*h.Gone}
	case h.begun(h.Recipe.Version) != nil:
		return []cloud.Refusal{h.begun(h.Recipe.Version).Says(h.Pool, h.Recipe)}
	case current != nil && current.Quarantined != "":
		return refuse(VersionQuarantined, fmt.Sprintf("`kamino rollback %s` first", h.Pool),
			"the recipe of pool %s names version %s, which is quarantined (%s)", h.Pool, current.Version, current.Quarantined)
	}
	return h.refuseInFlight()
}

// RefuseRestore tells why the recipe is not to be given back what it lost; nil if it may be.
func (h History) RefuseRestore() []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, c := range h.Captures {
		refusals = append(refusals, refuse(CaptureInFlight, fmt.Sprintf("stop it with `kamino cancel %s`", c.Prototype),
			"prototype %s is capturing node %s and would take it out again afterwards", c.Prototype, c.Donor)...)
	}
	return refusals
}

func (h History) refuseInFlight() []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, c := range h.Captures {
		if c.Awaits {
			continue
		}
		refusals = append(refusals, refuse(CaptureInFlight, fmt.Sprintf("stop it with `kamino cancel %s`; as soon as it is marked for deletion the pool can be rolled back", c.Prototype),
			"prototype %s is capturing node %s and would point pool %s at version %s afterwards", c.Prototype, c.Donor, h.Pool, c.Version)...)
	}
	return refusals
}

func (h History) refuseAbsent(name string) []cloud.Refusal {
	return refuse(VersionNotFound, h.names(),
		"pool %s has no version %s", h.Pool, name)
}

// refuse says what is in the way, and before it what to do.
func refuse(reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	return []cloud.Refusal{cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)}
}

func orNothing(image string) string {
	if image == "" {
		return "no image"
	}
	return image
}
