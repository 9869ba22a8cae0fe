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
	"github.com/kamino-dev/kamino/internal/dashboard/web"
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
	unsaid := 0
	for i, r := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		head := fmt.Sprintf("Pool %s, %s\n\n%s\n\n", r.Pool, span(r), output.Wrap(strings.Join(headline(r), " "), narrow))
		if _, err := io.WriteString(w, head); err != nil {
			return err
		}
		figures, hidden := r.Figures, []report.Figure(nil)
		if format != output.Wide {
			figures, hidden = valued(figures)
		}
		unsaid += len(hidden)
		shown := []grid{}
		if len(figures) > 0 {
			shown = append(shown, figureTable(figures, format == output.Wide))
		}
		if len(r.Builds) > 0 {
			shown = append([]grid{buildTable(r)}, shown...)
		}
		if err := tables(w, layoutOf(format, ""), shown...); err != nil {
			return err
		}
	}
	if format != output.Wide && len(all) > 0 {
		text := "Each figure has a source: `kamino report -o wide`."
		if unsaid > 0 {
			text = wording.Are(unsaid, "figure") + " zero or unknown. `kamino report -o wide` has them, and the source of each figure."
		}
		_, err := fmt.Fprintf(w, "\n%s\n", output.Wrap(text, narrow))
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

// valued divides figures into those with a value, and those that are zero or unknown.
func valued(all []report.Figure) (figures, rest []report.Figure) {
	for _, f := range all {
		if f.Value != nil && *f.Value != 0 {
			figures = append(figures, f)
		} else {
			rest = append(rest, f)
		}
	}
	return figures, rest
}

func figureTable(figures []report.Figure, wide bool) grid {
	heading := []string{"KIND", "FIGURE", "VALUE"}
	if wide {
		heading = append(heading, "SOURCE")
	}
	rows := make([][]string, len(figures))
	for i, f := range figures {
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

// reportHead is the head of the page, in the style of the dashboard: no script, and no request to another server.
var reportHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Kamino report</title>
<style>
` + web.Sheet + `.lead { font-size: 1.25rem; }
tbody th { white-space: normal; }
.source { display: block; color: var(--soft); font-weight: normal; }
section td:last-child { min-width: 4rem; }
.bar { width: 6rem; height: .5rem; }
</style>
</head>
<body>
<header><h1>Kamino report</h1></header>
<main>
`

// reportHTML writes a page. All texts of the cluster are escaped.
func reportHTML(w io.Writer, all []report.Report) error {
	var b strings.Builder
	b.WriteString(reportHead)
	for _, r := range all {
		fmt.Fprintf(&b, "<section>\n<h2>Pool %s</h2>\n<p class=\"lead\">%s</p>\n<p class=\"took\">%s</p>\n", html.EscapeString(r.Pool),
			html.EscapeString(strings.Join(headline(r), " ")), span(r))
		if len(r.Builds) > 0 {
			b.WriteString("<h3>New nodes by version</h3>\n")
			htmlTable(&b, buildHeading, htmlBuilds(r.Builds))
		}
		figures, rest := valued(r.Figures)
		heading := []string{"FIGURE", "VALUE", "KIND"}
		if len(figures) > 0 {
			b.WriteString("<h3>Savings, risks and costs</h3>\n")
			htmlTable(&b, heading, htmlFigures(figures))
		}
		if len(rest) > 0 {
			fmt.Fprintf(&b, "<details><summary>%s zero or unknown</summary>\n", wording.Are(len(rest), "figure"))
			htmlTable(&b, heading, htmlFigures(rest))
			b.WriteString("</details>\n")
		}
		b.WriteString("</section>\n")
	}
	b.WriteString("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// htmlTable writes a table that scrolls if the window is narrow. rows are HTML.
func htmlTable(b *strings.Builder, heading, rows []string) {
	b.WriteString("<div class=\"scroll\"><table><thead><tr>")
	for _, name := range heading {
		fmt.Fprintf(b, `<th scope="col">%s</th>`, html.EscapeString(name[:1]+strings.ToLower(name[1:])))
	}
	fmt.Fprintf(b, "</tr></thead><tbody>\n%s\n</tbody></table></div>\n", strings.Join(rows, "\n"))
}

// htmlBuilds are the rows of versions; a bar below the median compares them.
func htmlBuilds(builds []report.Build) (rows []string) {
	longest := int64(1)
	for _, build := range builds {
		longest = max(longest, build.MedianSeconds)
	}
	for _, build := range builds {
		cells := buildRow(build)
		for i, cell := range cells {
			cells[i] = html.EscapeString(cell)
		}
		cells[2] += fmt.Sprintf(`<svg class="bar use-current" aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none">`+
			`<rect width="%d" height="8"/></svg>`, build.MedianSeconds*100/longest)
		rows = append(rows, fmt.Sprintf(`<tr><th scope="row">%s</th><td>%s</td></tr>`, cells[0], strings.Join(cells[1:], "</td><td>")))
	}
	return rows
}

func htmlFigures(figures []report.Figure) (rows []string) {
	for _, f := range figures {
		rows = append(rows, fmt.Sprintf(`<tr><th scope="row">%s<span class="source">%s</span></th><td>%s</td><td>%s</td></tr>`,
			html.EscapeString(f.Title), html.EscapeString(f.Source), html.EscapeString(f.Text()), html.EscapeString(string(f.Kind))))
	}
	return rows
}
