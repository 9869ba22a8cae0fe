package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Figure is a row of the report.
type Figure struct {
	What, Measured string
	// Limit is empty for a figure without a limit. Missed means that the figure is beyond the limit.
	Limit  string
	Missed bool
}

// Report has the figures in the order of the table.
type Report []Figure

func (r *Report) add(what, measured string) { *r = append(*r, Figure{What: what, Measured: measured}) }

func (r *Report) limited(what, measured string, missed bool, limit string) {
	*r = append(*r, Figure{what, measured, limit, missed})
}

// Markdown writes the report as a table.
func (r Report) Markdown(w io.Writer) error {
	rows := "| figure | measured | limit |\n|---|---|---|\n"
	for _, f := range r {
		rows += fmt.Sprintf("| %s | %s | %s |\n", f.What, f.Measured, f.Limit)
	}
	_, err := io.WriteString(w, rows)
	return err
}

// Missed names the figures beyond their limits.
func (r Report) Missed() (missed []string) {
	for _, f := range r {
		if f.Missed {
			missed = append(missed, f.What)
		}
	}
	return missed
}

// The lines around the report on the page.
const (
	pageBegin = "<!-- begin of what make bench writes -->\n"
	pageEnd   = "<!-- end of what make bench writes -->\n"
)

// WritePage puts the report into a page of the documentation, in place of the last one.
func (r Report) WritePage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q, and was not changed", path, strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	var page bytes.Buffer
	page.WriteString(before + pageBegin + "\n")
	if err := r.Markdown(&page); err != nil {
		return err
	}
	page.WriteString("\n" + pageEnd + after)
	return os.WriteFile(path, page.Bytes(), 0o644)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func ratio(of, to time.Duration) float64 { return of.Seconds() / to.Seconds() }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func atMost(limit string) string { return "at most " + limit }
