package print

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/wording"
)

// causeLines limits the lines of a cause in a table; -o wide has all.
const causeLines = 4

// NeedsYou are the lines about what needs a person, most urgent first; empty without an item.
func NeedsYou(items []attention.Item, format output.Format, now time.Time) (lines []string) {
	if len(items) == 0 {
		return nil
	}
	count := map[attention.Severity]int{}
	for _, i := range items {
		count[i.Severity]++
	}
	var counts []string
	for _, s := range []attention.Severity{attention.Critical, attention.Warning, attention.Info} {
		if count[s] > 0 {
			text := fmt.Sprintf("%d %s", count[s], s)
			if s == attention.Warning {
				text = wording.Count(count[s], string(s))
			}
			counts = append(counts, text)
		}
	}
	lines = append(lines, "NEEDS YOU: "+strings.Join(counts, ", "))
	for _, i := range items {
		lines = append(lines, itemLines(i, format, now)...)
	}
	return append(lines, "")
}

// Meanwhile are the items and the running captures, as the cluster alone knows them, for a reader who waits for the cloud.
func Meanwhile(items []attention.Item, captures []v1alpha1.Prototype, now time.Time) string {
	lines := []string{"Meanwhile, the cluster knows:"}
	if len(items) == 0 {
		lines = append(lines, "Nothing needs you, as far as the cluster knows.")
	}
	lines = append(lines, NeedsYou(items, output.Table, now)...)
	for i := range captures {
		p := &captures[i]
		if p.Status.Terminal() {
			continue
		}
		doing := cmp.Or(string(p.Status.Phase), string(v1alpha1.PhasePending))
		if said := attention.Progress(p, items); said != "" {
			doing += ", " + said
		}
		lines = append(lines, output.Wrap(fmt.Sprintf("Capture %s of node %s: %s", p.Name, p.Spec.Donor.NodeName, doing), narrow))
	}
	return strings.TrimSuffix(strings.Join(lines, "\n"), "\n")
}

// itemLines are the title of an item, and below it cause, time, next event and command.
func itemLines(i attention.Item, format output.Format, now time.Time) []string {
	indent := strings.Repeat(" ", len(attention.Critical)+2)
	wrap := func(text string) []string {
		return strings.Split(output.Wrap(text, narrow-len(indent)), "\n")
	}
	lines := wrap(i.Title)
	if i.Cause != "" {
		cause := wrap(i.Cause + ".")
		if format != output.Wide && len(cause) > causeLines {
			cause = append(cause[:causeLines-1], shortened(cause[causeLines-1]+" …", narrow-len(indent)))
		}
		lines = append(lines, cause...)
	}
	next := "Next: " + i.NextBy(now)
	if !i.Since.IsZero() {
		next = fmt.Sprintf("Since %s, %s ago. %s", attention.Clock(i.Since, now), wording.Duration(now.Sub(i.Since)), next)
	}
	lines = append(lines, wrap(next+".")...)
	lines = append(lines, "Run: "+i.Command)
	lines[0] = fmt.Sprintf("%-*s%s", len(indent), i.Severity, lines[0])
	for at := range lines[1:] {
		lines[at+1] = indent + lines[at+1]
	}
	return lines
}
