package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
)

// FleetReport is the output of `kamino status` for several clusters.
type FleetReport struct {
	Clusters []ClusterReport `json:"clusters"`
}

// ClusterReport is the status of one cluster.
type ClusterReport struct {
	Cluster string `json:"cluster"`
	// Error is why the cluster or its cloud did not answer completely; empty if they did.
	Error string `json:"error,omitempty"`
	// Report is nil if the cluster did not answer.
	*Report `json:",omitempty"`
}

// Attention is what needs a person in all clusters, most urgent first, with the cluster in the title.
func (f FleetReport) Attention() (all []attention.Item) {
	for _, c := range f.Clusters {
		if c.Report == nil {
			continue
		}
		for _, i := range c.Attention {
			i.Title = c.Cluster + ": " + i.Title
			all = append(all, i)
		}
	}
	urgency := []attention.Severity{attention.Critical, attention.Warning, attention.Info}
	slices.SortStableFunc(all, func(a, b attention.Item) int {
		return cmp.Compare(slices.Index(urgency, a.Severity), slices.Index(urgency, b.Severity))
	})
	return all
}

// Fleet writes what needs a person, one table of the pools of all clusters, and the clusters that did not answer.
func Fleet(w io.Writer, format output.Format, fleet FleetReport, now time.Time) error {
	if format.Machine() {
		return output.Value(w, format, fleet)
	}
	for _, line := range NeedsYou(fleet.Attention(), format, now) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	whole := grid{}
	for _, c := range fleet.Clusters {
		if c.Report == nil {
			c.Report = &Report{}
		}
		pools := poolTable(c.Pools, format)
		if at := slices.Index(pools.rows[0], "IMAGE"); format != output.Wide {
			for i := range pools.rows {
				pools.rows[i] = pools.rows[i][:at] // the version says as much, and the table fits
			}
		}
		if len(whole.rows) == 0 {
			whole = newGrid(append([]string{"CLUSTER"}, pools.rows[0]...), nil)
		}
		for _, row := range pools.rows[1:] {
			whole.rows = append(whole.rows, append([]string{c.Cluster}, row...))
		}
		if len(c.Pools) == 0 {
			nothing := slices.Repeat([]string{None}, len(pools.rows[0])+1)
			nothing[0] = c.Cluster
			whole.rows = append(whole.rows, nothing)
		}
	}
	if err := tables(w, layoutOf(format, "CLUSTER"), whole); err != nil {
		return err
	}
	for _, c := range fleet.Clusters {
		if c.Error == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s\n", output.Wrap("Cluster "+c.Cluster+" did not answer completely: "+c.Error, narrow)); err != nil {
			return err
		}
	}
	return nil
}
