package print

import (
	"fmt"
	"io"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
)

// Results of a pool in a run of `kamino auto`.
const (
	AutoCaptured = "captured"
	AutoFailed   = "failed"
	AutoRefused  = "refused"
	AutoWaiting  = "waiting"
	AutoNothing  = "nothing to do"
	AutoWould    = "would be captured"
)

// AutoReport is the result of a run.
type AutoReport struct {
	Pools []AutoResult `json:"pools"`
	// Troubles are messages about pools that policies name: an unknown pool, or a pool with two policies.
	Troubles []string `json:"errors,omitempty"`
}

// AutoResult is the result of one pool.
type AutoResult struct {
	Pool   string `json:"pool"`
	Policy string `json:"policy"`
	// Result is one of the constants that begin with Auto.
	Result string `json:"result"`
	// Code is the exit code for this pool alone.
	Code      int                 `json:"code"`
	Prototype string              `json:"prototype,omitempty"`
	Version   string              `json:"version,omitempty"`
	Donor     string              `json:"donor,omitempty"`
	Took      string              `json:"duration,omitempty"`
	Reason    string              `json:"reason,omitempty"`
	Message   string              `json:"message,omitempty"`
	Status    v1alpha1.PoolStatus `json:"status"`
}

// AutoResults writes the results of the pools.
func AutoResults(w io.Writer, format output.Format, report AutoReport) error {
	if format == output.JSON || format == output.YAML {
		return output.Value(w, format, report)
	}
	heading := []string{"POOL", "POLICY", "RESULT", "VERSION", "DONOR", "TOOK", "WHY"}
	if format == output.Wide {
		heading = append(heading, "CANDIDATES", "PROTOTYPE")
	}
	if len(report.Pools) > 0 || len(report.Troubles) == 0 {
		if err := table(w, layoutOf(format, "POOL"), heading, autoRows(report.Pools, format == output.Wide)); err != nil {
			return err
		}
	}
	for i, sentence := range report.Troubles {
		if i == 0 && len(report.Pools) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := output.Prose(w, "Refused: "+sentence+".\n"); err != nil {
			return err
		}
	}
	return nil
}

func autoRows(pools []AutoResult, wide bool) [][]string {
	rows := make([][]string, 0, len(pools))
	for _, r := range pools {
		version := r.Version
		if version == "" {
			version = r.Status.CurrentVersion
		}
		why := r.Reason
		if r.Code != 0 || wide {
			why = orNone(r.Message)
		}
		row := []string{r.Pool, r.Policy, r.Result, orNone(version), orNone(r.Donor), orNone(r.Took), orNone(why)}
		if wide {
			row = append(row, fmt.Sprintf("%d/%d", r.Status.Candidates, r.Status.Nodes), orNone(r.Prototype))
		}
		rows = append(rows, row)
	}
	return rows
}
