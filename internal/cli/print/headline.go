package print

import (
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/wording"
)

// headline are the two sentences that a report begins with: how much sooner nodes of the newest measured version are Ready
// than nodes of other images, and how many nodes of versions did not join.
func headline(r report.Report) (sentences []string) {
	measured := slices.DeleteFunc(slices.Clone(r.Builds), func(b report.Build) bool { return b.Measured == 0 })
	is := func(version bool) func(report.Build) bool {
		return func(b report.Build) bool { return (b.Version != "") == version }
	}
	nodes, failed := 0, 0
	for _, b := range r.Builds {
		if b.Version != "" {
			nodes, failed = nodes+b.Nodes, failed+b.Failed
		}
	}
	newest, other := slices.IndexFunc(measured, is(true)), slices.IndexFunc(measured, is(false))
	switch {
	case newest < 0 && nodes > 0:
		sentences = append(sentences, "How soon new nodes from golden images were Ready is unknown.")
	case newest < 0:
		sentences = append(sentences, "No new node was built from a golden image yet.")
	case other < 0:
		sentences = append(sentences, fmt.Sprintf("New nodes of version %s are Ready after %s; no node of another image shows the difference.",
			measured[newest].Version, spoken(measured[newest])))
	default:
		what, by := "earlier", measured[other].MedianSeconds-measured[newest].MedianSeconds
		if by < 0 {
			what, by = "later", -by
		}
		sentences = append(sentences, fmt.Sprintf("New nodes of version %s are Ready %s %s: after %s, from other images after %s.", measured[newest].Version,
			wording.Duration(time.Duration(by)*time.Second), what, spoken(measured[newest]), spoken(measured[other])))
	}
	if nodes+failed > 0 {
		sentences = append(sentences, fmt.Sprintf("Of %s from golden images, %d did not join in time.", wording.Count(nodes, "node"), failed))
	}
	return sentences
}

// spoken is the median time of a build.
func spoken(b report.Build) string {
	return wording.Duration(time.Duration(b.MedianSeconds) * time.Second)
}
