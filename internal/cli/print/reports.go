package print

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Formats of reports.
const (
	CSV  output.Format = "csv"
	HTML output.Format = "html"
)

// Reports writes the reports of pools.
func Reports(w io.Writer, format output.Format, all []report.Report) error {
	switch {
	case format.Machine():
		return output.Value(w, format, all)
	case format == CSV:
		return reportCSV(w, all)
	case format == HTML:
		return reportHTML(w, all)
	}
	for i, r := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "Pool %s, %s\n\n", r.Pool, span(r)); err != nil {
			return err
		}
		shown := []grid{figureTable(r, format == output.Wide)}
		if len(r.Builds) > 0 {
			shown = append([]grid{buildTable(r)}, shown...)
		}
		if err := tables(w, layoutOf(format, ""), shown...); err != nil {
			return err
		}
	}
	if format != output.Wide && len(all) > 0 {
		_, err := fmt.Fprintln(w, "\nEach figure has a source: `kamino report -o wide`.")
		return err
	}
	return nil
}

func span(r report.Report) string {
	return r.Since.UTC().Format(time.DateOnly) + " to " + r.Until.UTC().Format(time.DateOnly)
}

// otherImages is the name of all images that are no version of the pool.
const otherImages = "other images"

func buildRow(b report.Build) []string {
	name, median, p95 := b.Version, None, None
	if name == "" {
		name = otherImages
	}
	if b.Measured > 0 {
		median, p95 = wording.Duration(time.Duration(b.MedianSeconds)*time.Second), wording.Duration(time.Duration(b.P95Seconds)*time.Second)
	}
	return []string{name, strconv.Itoa(b.Nodes), median, p95, strconv.Itoa(b.Failed)}
}

var buildHeading = []string{"VERSION", "NEW NODES", "READY AFTER (MEDIAN)", "READY AFTER (P95)", "FAILED"}

func buildTable(r report.Report) grid {
	rows := make([][]string, len(r.Builds))
	for i, b := range r.Builds {
		rows[i] = buildRow(b)
	}
	return newGrid(buildHeading, rows)
}

func figureTable(r report.Report, wide bool) grid {
	heading := []string{"KIND", "FIGURE", "VALUE"}
	if wide {
		heading = append(heading, "SOURCE")
	}
	rows := make([][]string, len(r.Figures))
	for i, f := range r.Figures {
		rows[i] = []string{string(f.Kind), f.Title, f.Text()}
		if wide {
			rows[i] = append(rows[i], f.Source)
		}
	}
	return newGrid(heading, rows)
}

// reportCSV writes one line for each figure, and one for each build. Spreadsheets calculate cells that begin with certain
// characters, so such a cell gets an apostrophe.
func reportCSV(w io.Writer, all []report.Report) error {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	write := func(cells ...string) error {
		for i, cell := range cells {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				if _, err := strconv.ParseFloat(cell, 64); err != nil {
					cells[i] = "'" + cell
				}
			}
		}
		return c.Write(cells)
	}
	if err := write("pool", "since", "until", "version", "name", "value", "unit", "kind", "source"); err != nil {
		return err
	}
	for _, r := range all {
		since, until := r.Since.UTC().Format(time.RFC3339), r.Until.UTC().Format(time.RFC3339)
		for _, b := range r.Builds {
			version := b.Version
			if version == "" {
				version = otherImages
			}
			cells := [][2]string{{"nodes", strconv.Itoa(b.Nodes)}, {"failed", strconv.Itoa(b.Failed)}}
			if b.Measured > 0 {
				cells = append(cells, [2]string{"ready-median-seconds", fmt.Sprint(b.MedianSeconds)}, [2]string{"ready-p95-seconds", fmt.Sprint(b.P95Seconds)})
			}
			for _, cell := range cells {
				if err := write(r.Pool, since, until, version, cell[0], cell[1], "", "", ""); err != nil {
					return err
				}
			}
		}
		for _, f := range r.Figures {
			value := ""
			if f.Value != nil {
				value = strconv.FormatFloat(*f.Value, 'f', -1, 64)
			}
			if err := write(r.Pool, since, until, "", f.Name, value, f.Unit, string(f.Kind), f.Source); err != nil {
				return err
			}
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// reportHead is the head of the page: no script, no request to another server, and black on white on paper.
const reportHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Kamino report</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #8886; }
td.number { text-align: right; white-space: nowrap; }
.lead { font-size: 1.25rem; }
.source { font-size: .875rem; }
svg { width: 10rem; height: .8rem; }
@media print { body { max-width: none; margin: 0; } section { break-after: page; } section:last-child { break-after: auto; } }
</style>
</head>
<body>
<h1>Kamino report</h1>
`

// reportHTML writes a page. All texts of the cluster are escaped.
func reportHTML(w io.Writer, all []report.Report) error {
	var b strings.Builder
	b.WriteString(reportHead)
	for _, r := range all {
		fmt.Fprintf(&b, "<section>\n<h2>Pool %s</h2>\n<p class=\"lead\">%s</p>\n<p>%s</p>\n", html.EscapeString(r.Pool),
			html.EscapeString(strings.Join(headline(r), " ")), span(r))
		if len(r.Builds) > 0 {
			longest := int64(1)
			for _, build := range r.Builds {
				longest = max(longest, build.MedianSeconds)
			}
			b.WriteString("<div class=\"wide\"><table>\n<caption>New nodes by version</caption>\n<tr>")
			for _, name := range append(buildHeading, "MEDIAN") {
				fmt.Fprintf(&b, `<th scope="col">%s</th>`, html.EscapeString(name[:1]+strings.ToLower(name[1:])))
			}
			b.WriteString("</tr>\n")
			for _, build := range r.Builds {
				b.WriteString("<tr>")
				for _, cell := range buildRow(build) {
					fmt.Fprintf(&b, "<td>%s</td>", html.EscapeString(cell))
				}
				fmt.Fprintf(&b, `<td><svg aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none">`+
					`<rect width="%d" height="8" fill="currentColor"/></svg></td></tr>`+"\n", build.MedianSeconds*100/longest)
			}
			b.WriteString("</table></div>\n")
		}
		b.WriteString("<div class=\"wide\"><table>\n<caption>Figures</caption>\n<tr><th scope=\"col\">Kind</th><th scope=\"col\">Figure</th>" +
			"<th scope=\"col\">Value</th><th scope=\"col\">Source</th></tr>\n")
		for _, f := range r.Figures {
			fmt.Fprintf(&b, `<tr><td>%s</td><td>%s</td><td class="number">%s</td><td class="source">%s</td></tr>`+"\n",
				html.EscapeString(string(f.Kind)), html.EscapeString(f.Title), html.EscapeString(f.Text()), html.EscapeString(f.Source))
		}
		b.WriteString("</table></div>\n</section>\n")
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
