package print

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/wording"
)

// History writes what needs a person, a pool's versions as a table, and important facts in sentences below.
func History(w io.Writer, format output.Format, h history.History, items []attention.Item, now time.Time) error {
	if format.Machine() {
		return output.Value(w, format, h)
	}
	for _, line := range NeedsYou(items, format, now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(items, func(i attention.Item) bool { return i.Kind == attention.ControllerAbsent }) {
		h.Captures = slices.Clone(h.Captures)
		for i := range h.Captures {
			h.Captures[i].Progress = "no process works on the capture"
		}
	}
	wide := format == output.Wide
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
	for i, line := range h.Notes() {
		if i == 0 && len(h.Versions) > 0 {
			line = "\n" + line
		}
		if err := output.Prose(w, line+"\n"); err != nil {
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
	if v.Frozen != "" {
		use += ",frozen"
	}
	if v.Suspect != "" && v.Quarantined == "" {
		use += ",suspect"
	}
	row := []string{v.Version, use, versionState(v.State, v.Percent), orNone(v.Donor), orNone(v.Lineage), nodes}
	row = append(row, joinColumns(v.Joins)...)
	row = append(row, Age(v.BuiltAt, now), proof(v.Proof, wide), verdict)
	if wide {
		row = append(row, joinNumbers(v.Joins)...)
		row = append(row, orNone(v.OS), orNone(v.Kernel), orNone(v.Kubelet), moment(v.PatchedAt), moment(v.BuiltAt), size(v.SizeGB), orNone(v.Why),
			orNone(v.Prototype), orNone(v.ID))
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

func runs(n int) string {
	if n == 1 {
		return "1 node runs"
	}
	return fmt.Sprintf("%d nodes run", n)
}
