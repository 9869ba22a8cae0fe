package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/doctor"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// urgency orders findings: failures first, then warnings, then what is in order.
func urgency(f doctor.Finding) int {
	return slices.Index([]doctor.Level{doctor.Fail, doctor.Warn, doctor.OK}, f.Level)
}

// Doctor writes the findings, problems first, with the remedy below, and the counts at the end.
func Doctor(w io.Writer, format output.Format, report doctor.Report) error {
	if format == output.JSON || format == output.YAML {
		return output.Value(w, format, report)
	}
	var b strings.Builder
	found := slices.Clone(report.Findings)
	slices.SortStableFunc(found, func(a, b doctor.Finding) int { return cmp.Compare(urgency(a), urgency(b)) })
	for _, f := range found {
		message := f.Message
		if f.Subject != "" {
			message = "pool " + f.Subject + ": " + message
		}
		fmt.Fprintf(&b, "%-4s  %-12s  %s\n", f.Level, f.Check, message)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%20sto do: %s\n", "", f.Remedy)
		}
		if f.Reason != "" && f.Level == doctor.Fail {
			fmt.Fprintf(&b, "%20ssee: %s\n", "", page.Reason(f.Reason))
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d warn, %d fail\n", report.OK, report.Warnings, report.Failures)
	return output.Prose(w, b.String())
}
