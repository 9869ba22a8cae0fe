package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/retention"
)

// Promotion is the decision to change a pool's recipe to an existing version.
type Promotion struct {
	Pool    string `json:"pool"`
	Version string `json:"version"`
	// Prototype is the name of the capture that made the version.
	Prototype string `json:"prototype"`
	// Trial is the result and time of the version's trial; empty without a trial.
	Trial string `json:"trial,omitempty"`
	// From is the recipe's image before, as the cloud writes it.
	From string `json:"from"`
	// FromVersion is the pool's version that the recipe names before; empty for another image.
	FromVersion string `json:"fromVersion,omitempty"`
	// RemovesBootstrap is true if nodes of the version need no bootstrap data, so that the recipe loses the data.
	RemovesBootstrap bool `json:"removesBootstrap"`
	// Done is true if the recipe already names the version.
	Done bool `json:"done"`
}

// promotable reports whether the version has a Prototype and a proof.
func (v Version) promotable() bool { return retention.Proven(v.Proof) && v.Prototype != "" }

func (v Version) lostProof() bool { return retention.LostProof(v.Prototype, v.Proof) }

// tries reports whether a capture is trying the version. The recipe then names the version only temporarily.
func (h History) tries(version string) bool {
	return slices.ContainsFunc(h.Captures, func(c Capture) bool { return c.HasTrial && same(c.Version, version) })
}

// Promote decides about promoting a complete version that is not in use, for example after a refused promotion. Promote
// quarantines nothing. The recipe changes as by the capture, so Promote requires the proof.
func (h History) Promote(name string) (Promotion, []cloud.Refusal) {
	v := h.Find(name)
	switch {
	case v == nil || v.State == cloud.Deleting:
		return Promotion{}, h.refuseAbsent(name)
	case v.Use == OtherCluster:
		return Promotion{}, h.refuseForeign(v)
	case v.Quarantined != "":
		return Promotion{}, refuse(VersionQuarantined,
			fmt.Sprintf("name another version, or lift the quarantine with `kamino unquarantine %s %s`", h.Pool, v.Version),
			"version %s of pool %s is quarantined (%s)", v.Version, h.Pool, v.Quarantined)
	case v.Suspect != "" && (!same(v.Version, h.Recipe.Version) || h.begun(v.Version) != nil):
		return Promotion{}, h.refuseSuspect(v)
	case h.refuseHeld(v) != nil && !same(v.Version, h.Recipe.Version):
		return Promotion{}, h.refuseHeld(v)
	case v.State != cloud.Complete:
		return Promotion{}, refuse(VersionUnusable, "wait until the version is complete, or name another version",
			"version %s of pool %s is %s, not complete", v.Version, h.Pool, v.State)
	}
	p := Promotion{Pool: h.Pool, Version: v.Version, Prototype: v.Prototype, Trial: v.Trial, From: h.Recipe.Image, FromVersion: h.Recipe.Version}
	if same(v.Version, h.Recipe.Version) && !h.Recipe.Latest && !h.tries(v.Version) {
		p.Done = true
		return p, nil
	}
	profile, _, _ := strings.Cut(v.Proof, "/")
	if !v.promotable() {
		return Promotion{}, refuse(VersionUnusable, fmt.Sprintf("if the pool used the version before, run `kamino rollback %s --to %s`", h.Pool, v.Version),
			"version %s of pool %s has no proof of a generalized disk", v.Version, h.Pool)
	}
	if refusals := h.refuseInFlight(); refusals != nil {
		return Promotion{}, refusals
	}
	p.RemovesBootstrap = v1alpha1.Profile(profile).Traits().RemovesBootstrap
	return p, nil
}
