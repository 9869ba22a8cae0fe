package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/retention"
)

// VersionUnproven: nothing on the version says that the disk it was made from was generalized.
const VersionUnproven = "VersionUnproven"

// Promotion is the decision to point a pool at a version that no capture pointed it at.
type Promotion struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Prototype that made the version, by name.
	Prototype string `json:"prototype"`
	// Trial is what a trial of the version has come to, and when; empty if it was not tried.
	Trial string `json:"trial,omitempty"`
	// From is what the recipe names before, as the cloud writes it.
	From string `json:"from"`
	// RemovesBootstrap: the version's profile bootstraps a node once and for all, so that what does it leaves the recipe.
	RemovesBootstrap bool `json:"removesBootstrap"`
	// Done: the recipe names it already.
	Done bool `json:"done"`
}

// promotable tells whether it carries what a promotion demands: that a capture made it, and the proof of that.
func (v Version) promotable() bool { return retention.Proven(v.Proof) && v.Prototype != "" }

func (v Version) lostProof() bool { return retention.LostProof(v.Prototype, v.Proof) }

// tries tells whether a capture is trying the version, so that the recipe names it for a while at most.
func (h History) tries(version string) bool {
	return slices.ContainsFunc(h.Captures, func(c Capture) bool { return c.Tries && same(c.Version, version) })
}

// Promote decides about pointing the pool at a version that is complete and not in use: the end of a capture whose
// promotion was refused, or which was called off while its image was being made. Unlike a rollback it quarantines
// nothing, needs no version of the pool's own to start from, and does to the recipe all that the capture would have
// done. So it demands the proof that a capture demands.
func (h History) Promote(name string) (Promotion, []cloud.Refusal) {
	v := h.Find(name)
	switch {
	case v == nil || v.State == cloud.Deleting:
		return Promotion{}, h.refuseAbsent(name)
	case v.Quarantined != "":
		return Promotion{}, refuse(VersionQuarantined, fmt.Sprintf("name another one, or lift that with `kamino release %s %s`", h.Pool, v.Version),
			"version %s of pool %s is quarantined (%s)", v.Version, h.Pool, v.Quarantined)
	case v.Suspect != "" && (!same(v.Version, h.Recipe.Version) || h.begun(v.Version) != nil):
		return Promotion{}, h.refuseSuspect(v)
	case v.State != cloud.Complete:
		return Promotion{}, refuse(VersionIncomplete, "wait until it is, or name another", "version %s of pool %s is %s, and only a complete one can be used", v.Version, h.Pool, v.State)
	}
	p := Promotion{Pool: h.Pool, Version: v.Version, Prototype: v.Prototype, Trial: v.Trial, From: h.Recipe.Image}
	if same(v.Version, h.Recipe.Version) && !h.Recipe.Latest && !h.tries(v.Version) {
		p.Done = true
		return p, nil
	}
	profile, _, _ := strings.Cut(v.Proof, "/")
	if !v.promotable() {
		return Promotion{}, refuse(VersionUnproven, fmt.Sprintf("if the pool ran it before, `kamino rollback %s --to %s` goes back to it", h.Pool, v.Version),
			"version %s of pool %s carries no proof that the disk it was made from was generalized", v.Version, h.Pool)
	}
	if refusals := h.refuseInFlight(); refusals != nil {
		return Promotion{}, refusals
	}
	p.RemovesBootstrap = v1alpha1.Profile(profile).Traits().RemovesBootstrap
	return p, nil
}
