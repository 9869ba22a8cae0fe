package history

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording"
)

// sentences, with one sentence per line.
type sentences []string

func (n *sentences) add(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

// Notes are the facts about a pool's history that a person must know, in sentences with the remedies.
func (h History) Notes() []string {
	var n sentences
	n.recipe(h)
	n.versions(h)
	if h.Cohorts != "" {
		n.add("%s: %s.", h.Recipe.Version, h.Cohorts)
	}
	n.trust(h)
	for _, v := range h.Versions {
		if v.SavedRecipe != "" {
			n.add("Secret %s keeps the recipe as it was before version %s. To restore: `kamino restore %s --version %s`.",
				v.SavedRecipe, v.Version, h.Pool, v.Version)
		}
	}
	n.bad(h)
	if h.Warm != "" {
		n.add("%s%s.", strings.ToUpper(h.Warm[:1]), h.Warm[1:])
	}
	if len(h.Versions) > 0 && len(h.Others) > 0 {
		n.add("%s none of these versions.", runNodes(len(h.Others)))
	}
	for _, c := range h.Captures {
		if c.HandOver != "" {
			n.add("Version %s is handed over: %s.", c.Version, c.HandOver)
			continue
		}
		if c.HeldBack != "" {
			n.add("Version %s is held back: %s. To promote it now, run `kamino promote %s %s`.", c.Version, c.HeldBack, h.Pool, c.Version)
			continue
		}
		if c.AwaitsPromotion {
			n.add("Version %s waits for approval: run `kamino promote %s %s`.", c.Version, h.Pool, c.Version)
			continue
		}
		doing := ""
		if c.Progress != "" {
			doing = ": " + strings.TrimSuffix(c.Progress, ".")
		}
		n.add("Prototype %s is capturing node %s as version %s%s.", c.Prototype, c.Donor, c.Version, doing)
	}
	return n
}

// recipe describes a recipe that names no existing version.
func (n *sentences) recipe(h History) {
	switch {
	case h.Gone != nil:
		n.add("%s%s.", strings.ToUpper(h.Gone.Message[:1]), h.Gone.Message[1:])
	case len(h.Versions) == 0:
		n.add("Pool %s has no versions yet; the recipe names %s.", h.Pool, orNone(h.Recipe.Image))
	case h.Recipe.Version == "":
		n.add("The recipe of pool %s names %s, which is not a version of the pool.", h.Pool, orNone(h.Recipe.Image))
	}
}

// versions describes bad versions, and problems of other versions.
func (n *sentences) versions(h History) {
	for _, v := range h.Versions {
		if v.Quarantined != "" {
			n.add("Version %s is quarantined: %s", v.Version, orNone(v.Quarantined))
		}
		if v.Quarantined != "" && v.Use != Current && v.Launches == cloud.LaunchesAllowed {
			n.add("The cloud still launches version %s. The controller forbids that soon, if its credential may; see `kamino doctor`.", v.Version)
		}
		if v.Frozen != "" {
			n.add("Version %s descends from the quarantined version %s, and is not used until you decide: `kamino unquarantine %s %s`, or `kamino quarantine`.",
				v.Version, v.Frozen, h.Pool, v.Version)
		}
		if v.Quarantined == "" && v.Launches == cloud.LaunchesForbidden {
			n.add("Version %s is disabled, and not quarantined: to use it again, run `kamino unquarantine %s %s`.", v.Version, h.Pool, v.Version)
		}
		if v.Error != "" {
			n.add("Version %s: %s", v.Version, orNone(v.Error))
		}
	}
}

// trust describes an automatic rollback of the pool.
func (n *sentences) trust(h History) {
	for _, r := range h.AutoRollbacks {
		if r.Acknowledged.IsZero() {
			message := r.Refusal(h.Pool, h.Recipe).Message
			n.add("%s%s.", strings.ToUpper(message[:1]), message[1:])
		}
	}
}

// bad names quarantined versions in use.
func (n *sentences) bad(h History) {
	for _, v := range h.Bad() {
		if v.Use == Current {
			n.add("New nodes still use the quarantined version %s: run `kamino rollback %s`.", v.Version, h.Pool)
		}
		if len(v.Nodes) > 0 {
			n.add("%s the quarantined version %s: %s", runNodes(len(v.Nodes)), v.Version, wording.Names(v.Nodes))
		}
	}
}

// runNodes is a number of nodes with the verb.
func runNodes(n int) string {
	if n == 1 {
		return "1 node runs"
	}
	return fmt.Sprintf("%d nodes run", n)
}

// orNone is the text in one line, or a sign for an empty text.
func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Join(strings.Fields(text), " ")
}
