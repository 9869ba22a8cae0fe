package print

import (
	"fmt"
	"io"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/history/timeline"
)

// Timeline writes the entries of a pool's timeline, oldest first.
func Timeline(w io.Writer, format output.Format, entries []timeline.Entry) error {
	if format.Machine() {
		if entries == nil {
			entries = []timeline.Entry{}
		}
		return output.Value(w, format, entries)
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is known to have happened to the pool.")
		return err
	}
	heading := []string{"TIME", "REASON", "OBJECT", "MESSAGE"}
	if format == output.Wide {
		heading = []string{"TIME", "SOURCE", "REASON", "OBJECT", "MESSAGE"}
	}
	return table(w, layoutOf(format, ""), heading, timelineRows(format, entries))
}

// MoreOfTimeline writes further entries: one line for each entry, one JSON value, or one YAML document.
func MoreOfTimeline(w io.Writer, format output.Format, entries []timeline.Entry) error {
	for i, row := range timelineRows(format, entries) {
		if format.Machine() {
			if format == output.YAML {
				if _, err := fmt.Fprintln(w, "---"); err != nil {
					return err
				}
			}
			if err := output.Value(w, format, entries[i]); err != nil {
				return err
			}
			continue
		}
		if err := output.Prose(w, fmt.Sprintf("%s  %-16s  %s: %s\n", row[0], row[len(row)-3], row[len(row)-2], row[len(row)-1])); err != nil {
			return err
		}
	}
	return nil
}

func timelineRows(format output.Format, entries []timeline.Entry) [][]string {
	rows := make([][]string, len(entries))
	for i, e := range entries {
		message := e.Message
		if e.Count > 1 {
			message = fmt.Sprintf("%s (%d times)", message, e.Count)
		}
		row := []string{e.At.UTC().Format(time.RFC3339)}
		if format == output.Wide {
			row = append(row, string(e.Source))
		}
		rows[i] = append(row, orNone(mark(e)), orNone(e.Object), orNone(message))
	}
	return rows
}

// mark is the reason, with a sign for a warning.
func mark(e timeline.Entry) string {
	if e.Warning {
		return "! " + e.Reason
	}
	return e.Reason
}
