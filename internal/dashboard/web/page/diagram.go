package page

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Widths of diagrams in units. A phone shows a unit as about one pixel.
const (
	width  = 320.0
	narrow = 240.0
)

// diagram is a drawing with a description for readers who cannot see it.
func diagram(class, label string, width, height float64, parts ...node) *element {
	return el("svg", attr("class", class), attr("viewBox", fmt.Sprintf("0 0 %g %g", width, height)), attr("role", "img"), attr("aria-label", label), parts)
}

// bars shows the nodes by version in one bar.
func bars(p dashboard.PoolSection) *element {
	total := 0
	var words []string
	for _, bar := range p.Bars {
		total += bar.Nodes
		words = append(words, fmt.Sprintf("%s of %s (%s)", wording.Count(bar.Nodes, "node"), bar.Version, bar.Kind))
	}
	const height, gap = 24.0, 1.5
	x := 0.0
	var parts []node
	for _, bar := range p.Bars {
		w := width * float64(bar.Nodes) / float64(total)
		parts = append(parts, el("rect", attr("class", "use-"+string(bar.Kind)), number("x", round(x)), attr("y", "0"),
			number("width", round(max(w-gap, 1))), number("height", height), attr("rx", "2"),
			el("title", fmt.Sprintf("%s: %s", bar.Version, wording.Count(bar.Nodes, "node")))))
		x += w
	}
	return diagram("bars", "Nodes by version: "+strings.Join(words, ", "), width, height, parts...)
}

func round(x float64) float64 { return float64(int(x*10+0.5)) / 10 }

// legend names the parts of the bar in their order.
func legend(p dashboard.PoolSection) *element {
	var items []node
	for _, bar := range p.Bars {
		items = append(items, el("li", el("span", attr("class", "swatch use-"+string(bar.Kind)), attr("aria-hidden", "true")),
			fmt.Sprintf("%s: %s, %s", bar.Version, wording.Count(bar.Nodes, "node"), bar.Kind)))
	}
	return el("ul", attr("class", "legend"), attr("aria-label", "Nodes by version"), items)
}

// lineage shows the versions from new to old, each with a line to the version that its donor was built from.
func lineage(p dashboard.PoolSection) *element {
	const row, rail, radius = 26.0, 36.0, 6.0
	y := func(i int) float64 { return row/2 + row*float64(i) }
	var lines, dots []node
	var words []string
	for i, v := range p.Versions {
		word := v.Version + " (" + v.Use + ")"
		if v.Parent > i {
			word += " from " + p.Versions[v.Parent].Version
			bend := rail - min(10*float64(v.Parent-i), rail-6)
			path := fmt.Sprintf("M%g %g L%g %g", rail, y(i), rail, y(v.Parent))
			if v.Parent > i+1 {
				path = fmt.Sprintf("M%g %g C%g %g %g %g %g %g", rail, y(i), bend, y(i), bend, y(v.Parent), rail, y(v.Parent))
			}
			lines = append(lines, el("path", attr("class", "line"), attr("d", path)))
		}
		words = append(words, word)
		dots = append(dots,
			el("circle", attr("class", "use-"+string(v.Kind)), number("cx", rail), number("cy", y(i)), number("r", radius), el("title", word)),
			el("text", number("x", rail+14), number("y", y(i)+4), clipped(v.Version, 18), el("tspan", attr("class", "soft"), " "+clipped(v.Use, 22))))
	}
	return diagram("lineage", "Lineage, newest first: "+strings.Join(words, "; "), narrow, row*float64(len(p.Versions)), append(lines, dots...)...)
}

// clipped shortens a text to n characters.
func clipped(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// joins shows when each node started, and how long the node took to be Ready. A node that failed is a cross at the top.
func joins(p dashboard.PoolSection, now time.Time) *element {
	const height, left, bottom, top = 150.0, 40.0, 20.0, 16.0
	first, longest, failed := p.Joins[0].At, time.Second, 0
	for _, j := range p.Joins {
		longest = max(longest, j.Took)
		if j.Failed {
			failed++
		}
	}
	span := max(now.Sub(first), time.Minute)
	x := func(at time.Time) float64 {
		return round(left + 8 + (width-left-16)*float64(at.Sub(first))/float64(span))
	}
	y := func(took time.Duration) float64 {
		return round(height - bottom - (height-bottom-top-8)*float64(took)/float64(longest))
	}
	parts := []node{
		el("path", attr("class", "axis"), attr("d", fmt.Sprintf("M%g %g V%g H%g", left, top, height-bottom, width))),
		axisText(left-4, y(longest)+4, "end", wording.Duration(longest)), axisText(left-4, height-bottom+3, "end", "0s"),
		axisText(left, height-4, "start", first.Format("01-02 15:04")), axisText(width, height-4, "end", now.Format("01-02 15:04")),
	}
	for _, j := range p.Joins {
		if j.Failed {
			cx, cy := x(j.At), top-4.0
			parts = append(parts, el("path", attr("class", "cross"), attr("d", fmt.Sprintf("M%g %g l6 6 m0 -6 l-6 6", cx-3, cy-3)),
				el("title", fmt.Sprintf("%s: failed, version %s", j.Node, orNone(j.Version)))))
			continue
		}
		class := "from-version"
		if j.Version == "" {
			class = "from-other"
		}
		parts = append(parts, el("circle", attr("class", class), number("cx", x(j.At)), number("cy", y(j.Took)), attr("r", "3.5"),
			el("title", fmt.Sprintf("%s: Ready after %s, version %s", j.Node, wording.Duration(j.Took), orNone(j.Version)))))
	}
	label := fmt.Sprintf("Time until Ready of %s since %s: at most %s, %d failed",
		wording.Count(len(p.Joins), "node"), first.Format("2006-01-02 15:04"), wording.Duration(longest), failed)
	return el("figure", diagram("joins", label, width, height, parts...),
		el("figcaption", "Time from the start of an instance until its node was Ready. Filled: built from a version. Hollow: another image. Cross: failed."))
}

func axisText(x, y float64, anchor, s string) *element {
	return el("text", attr("class", "soft"), number("x", x), number("y", y), attr("text-anchor", anchor), s)
}
