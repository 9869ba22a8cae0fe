package print

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/wording"
)

// History writes a pool's versions as a table, and important facts in sentences below.
func History(w io.Writer, format Format, h history.History, now time.Time) error {
	if format.Machine() {
		return Value(w, format, h)
	}
	wide := format == Wide
	if len(h.Versions) > 0 {
		heading := []string{"VERSION", "USE", "STATE", "DONOR", "LINEAGE", "NODES", "JOINED", "WAITING", "READY AFTER", "AGE", "PROOF", "VERDICT"}
		if wide {
			heading = append(heading, "JUDGED", "FAILED", "OS", "KERNEL", "KUBELET", "PATCHED AT", "BUILT AT", "SIZE", "WHY", "PROTOTYPE", "ID")
		}
		rows := make([][]string, 0, len(h.Versions))
		for _, v := range h.Versions {
			rows = append(rows, historyRow(v, wide, now))
		}
		if err := table(w, layout{width: layoutOf(format, "").width, pool: h.Pool}, heading, rows); err != nil {
			return err
		}
	}
	for i, line := range historyNotes(h) {
		if i == 0 && len(h.Versions) > 0 {
			line = "\n" + line
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func historyRow(v history.Version, wide bool, now time.Time) []string {
	nodes, verdict, use := "?", "retire", string(v.Use)
	if v.Nodes != nil {
		nodes = strconv.Itoa(len(v.Nodes))
	}
	if v.Keep {
		verdict = "keep"
	}
	if v.Quarantined != "" && v.Use != history.Quarantined {
		use += ",quarantined"
	}
	if v.Suspect != "" && v.Quarantined == "" {
		use += ",suspect"
	}
	row := []string{v.Version, use, versionState(v.State, v.Percent), orNone(v.Donor), orNone(v.Lineage), nodes}
	row = append(row, joinColumns(v.Joins)...)
	row = append(row, Age(v.BuiltAt, now), proof(v.Proof, wide), verdict)
	if wide {
		row = append(row, joinNumbers(v.Joins)...)
		row = append(row, orNone(v.OS), orNone(v.Kernel), orNone(v.Kubelet), moment(v.PatchedAt), moment(v.BuiltAt), size(v.SizeGB), orNone(v.Why), orNone(v.Prototype), orNone(v.ID))
	}
	return row
}

// joinColumns are the joined and judged nodes of a version, the pending nodes, and the median time until Ready.
func joinColumns(j *history.Joins) []string {
	if j == nil {
		return []string{None, None, None}
	}
	of, after := None, None
	if j.Judged > 0 {
		of = fmt.Sprintf("%d/%d", j.Joined, j.Judged)
	}
	if j.MedianSeconds > 0 {
		after = wording.Duration(time.Duration(j.MedianSeconds) * time.Second)
	}
	return []string{of, strconv.Itoa(j.Waiting), after}
}

// joinNumbers are the judged and the failed nodes of a version.
func joinNumbers(j *history.Joins) []string {
	if j == nil {
		return []string{None, None}
	}
	return []string{strconv.Itoa(j.Judged), strconv.Itoa(j.Failed)}
}

func moment(at time.Time) string {
	if at.IsZero() {
		return None
	}
	return at.UTC().Format(time.RFC3339)
}

// sentences, with one sentence per line.
type sentences []string

func (n *sentences) add(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

func historyNotes(h history.History) []string {
	var n sentences
	n.recipe(h)
	n.versions(h)
	n.trust(h)
	for _, v := range h.Versions {
		if v.SavedRecipe != "" {
			n.add("Version %s removed fields from the recipe; Secret %s keeps the fields. To restore: `kamino restore %s --version %s`.", v.Version, v.SavedRecipe, h.Pool, v.Version)
		}
	}
	n.bad(h)
	if len(h.Versions) > 0 && len(h.Others) > 0 {
		n.add("%s none of these versions.", runs(len(h.Others)))
	}
	for _, c := range h.Captures {
		if c.HandOver != "" {
			n.add("Version %s is handed over: %s.", c.Version, c.HandOver)
			continue
		}
		if c.Awaits {
			n.add("Version %s waits for approval: run `kamino promote %s %s`.", c.Version, h.Pool, c.Version)
			continue
		}
		n.add("Prototype %s is capturing node %s as version %s.", c.Prototype, c.Donor, c.Version)
	}
	return n
}

// recipe describes a recipe that names no existing version.
func (n *sentences) recipe(h history.History) {
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
func (n *sentences) versions(h history.History) {
	for _, v := range h.Versions {
		if v.Quarantined != "" {
			n.add("Version %s is quarantined: %s", v.Version, orNone(v.Quarantined))
		}
		if v.Error != "" {
			n.add("Version %s: %s", v.Version, orNone(v.Error))
		}
	}
}

// trust describes an automatic rollback of the pool.
func (n *sentences) trust(h history.History) {
	for _, r := range h.Returns {
		if r.Acknowledged.IsZero() {
			said := r.Says(h.Pool, h.Recipe).Message
			n.add("%s%s.", strings.ToUpper(said[:1]), said[1:])
		}
	}
}

// bad names quarantined versions in use.
func (n *sentences) bad(h history.History) {
	for _, v := range h.Bad() {
		if v.Use == history.Current {
			n.add("New nodes still use the quarantined version %s: run `kamino rollback %s`.", v.Version, h.Pool)
		}
		if len(v.Nodes) > 0 {
			n.add("%s the quarantined version %s: %s", runs(len(v.Nodes)), v.Version, wording.Names(v.Nodes))
		}
	}
}

func runs(n int) string {
	if n == 1 {
		return "1 node runs"
	}
	return fmt.Sprintf("%d nodes run", n)
}
