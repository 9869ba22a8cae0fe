package print

import (
	"fmt"
	"io"
	"strings"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/doctor"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Doctor writes a line for each finding, with the remedy below, and the counts at the end.
func Doctor(w io.Writer, format output.Format, report doctor.Report) error {
	if format == output.JSON || format == output.YAML {
		return output.Value(w, format, report)
	}
	var b strings.Builder
	for _, f := range report.Findings {
		subject := ""
		if f.Subject != "" {
			subject = "pool " + f.Subject + ": "
		}
		fmt.Fprintf(&b, "%-4s  %-12s  %s%s\n", f.Level, f.Check, subject, f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%20sto do: %s\n", "", f.Remedy)
		}
		if f.Reason != "" && f.Level == doctor.Fail {
			fmt.Fprintf(&b, "%20ssee: %s\n", "", page.Reason(f.Reason))
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d warn, %d fail\n", report.OK, report.Warnings, report.Failures)
	_, err := io.WriteString(w, b.String())
	return err
}
