package print

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/history/report"
)

func TestHeadline(t *testing.T) {
	other := report.Build{Nodes: 4, Measured: 4, MedianSeconds: 260, Failed: 1}
	good := report.Build{Version: "2026.03.01", Nodes: 12, Measured: 12, MedianSeconds: 52}
	unmeasured := report.Build{Version: "2026.03.09", Nodes: 2, Failed: 2}
	slow := report.Build{Version: "2026.03.09", Nodes: 1, Measured: 1, MedianSeconds: 300}
	for want, builds := range map[string][]report.Build{
		"No new node was built from a golden image yet.":                                                                      {other},
		"How soon new nodes from golden images were Ready is unknown. Of 2 nodes from golden images, 2 did not join in time.": {unmeasured, other},
		"New nodes of version 2026.03.01 are Ready 3m28s earlier: after 52s, from other images after 4m20s. Of 12 nodes from golden images, " +
			"0 did not join in time.": {good, other},
		"New nodes of version 2026.03.01 are Ready 3m28s earlier: after 52s, from other images after 4m20s. Of 14 nodes from golden images, " +
			"2 did not join in time.": {unmeasured, good, other},
		"New nodes of version 2026.03.09 are Ready 40s later: after 5m00s, from other images after 4m20s. Of 1 node from golden images, " +
			"0 did not join in time.": {slow, other},
		"New nodes of version 2026.03.01 are Ready after 52s; no node of another image shows the difference. Of 12 nodes from golden images, " +
			"0 did not join in time.": {good},
	} {
		if got := strings.Join(headline(report.Report{Builds: builds}), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var page bytes.Buffer
	if err := Reports(&page, HTML, []report.Report{{Pool: "pool1", Builds: []report.Build{good, other}}}); err != nil {
		t.Fatal(err)
	}
	if at, table := strings.Index(page.String(), "Ready 3m28s earlier"), strings.Index(page.String(), "<table"); at < 0 || table < at {
		t.Errorf("the page does not begin with its headline:\n%s", page.String())
	}
}
