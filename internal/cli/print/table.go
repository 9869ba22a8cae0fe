package print

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cli/output"
)

// narrow is the width of all tables that are not wide, in columns of a terminal.
const narrow = 80

// textAtLeast is the least width of a column that wraps.
const textAtLeast = 30

// Columns with a special meaning in a table that does not fit into its width.
var (
	// nodeColumns hold names of nodes. Short names have no domain, and no pool's name at the beginning. The columns move to
	// the end.
	nodeColumns = []string{"NODE", "DONOR"}
	// details are omitted first, and optional columns in blocks, in this order.
	details  = []string{"NAME", "PROOF", "LINEAGE", "OBJECT"}
	optional = []string{"READY AFTER", "WAITING", "READY FOR", "PATCHED", "POLICY", "AGE"}
	// textColumns hold free text, which wraps at the end of a row, or below the row.
	textColumns = []string{"WHY", "RELEASED BY", "PROGRESS", "MESSAGE"}
)

// layout is the form of a table. A width of zero is no limit.
type layout struct {
	width int
	// title is the column whose values become titles of blocks, in a table that does not fit; empty for none.
	title string
	// pool of all rows; empty for rows of several pools.
	pool string
}

// layoutOf is the layout of a format. Wide tables have no limit.
func layoutOf(format output.Format, title string) layout {
	if format == output.Wide {
		return layout{}
	}
	return layout{width: narrow, title: title}
}

// table writes rows under a heading in aligned columns, without trailing blanks.
func table(w io.Writer, l layout, heading []string, rows [][]string) error {
	return tables(w, l, newGrid(heading, rows))
}

// tables writes tables with blank lines between them. If one table is too wide, each title has a block with its rows of all
// tables.
func tables(w io.Writer, l layout, all ...grid) error {
	var lines []string
	add := func(more []string, indent string) {
		for _, line := range more {
			lines = append(lines, indent+line)
		}
	}
	fits := func(g grid) bool { _, fits := g.brief(l); return fits || slices.Index(g.rows[0], l.title) < 0 }
	inBlocks := slices.ContainsFunc(all, func(g grid) bool { return !fits(g) })
	for _, name := range titles(l, all) {
		if !inBlocks {
			break
		}
		if lines != nil {
			lines = append(lines, "")
		}
		lines = append(lines, l.title+" "+name)
		within := layout{width: l.width - 2, pool: l.pool}
		if l.title == "POOL" {
			within.pool = name
		}
		title := len(lines)
		for _, g := range all {
			if block := g.rowsWith(l.title, name); len(block.rows) > 1 {
				if len(lines) > title {
					lines = append(lines, "")
				}
				add(block.shortNodes(within).squeezed(within.width).aligned(), "  ")
			}
		}
	}
	for i, g := range all {
		if inBlocks {
			break
		}
		if i > 0 {
			lines = append(lines, "")
		}
		g, fits := g.brief(l)
		if !fits {
			g = g.squeezed(l.width)
		}
		add(g.aligned(), "")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// titles are the values of the title's column in all tables, in order.
func titles(l layout, all []grid) (names []string) {
	for _, g := range all {
		at := slices.Index(g.rows[0], l.title)
		for _, row := range g.rows[1:] {
			if at >= 0 && !slices.Contains(names, row[at]) {
				names = append(names, row[at])
			}
		}
	}
	return names
}

// grid holds the cells of a table; the first row is the heading. A row with a single cell is text below the row before. gap is
// the space between two columns.
type grid struct {
	rows [][]string
	gap  int
}

func newGrid(heading []string, rows [][]string) grid {
	return grid{rows: append([][]string{heading}, rows...), gap: 3}
}

// brief returns the table as it is if it fits, or else with short names of nodes, narrow gaps and without details; and
// whether that fits.
func (g grid) brief(l layout) (grid, bool) {
	if l.width == 0 || g.width() <= l.width {
		return g, true
	}
	g = g.shortNodes(l)
	g.gap = 2
	for _, name := range details {
		if g.width() > l.width {
			g = g.without(name)
		}
	}
	return g, g.width() <= l.width
}

// rowsWith returns the rows with a value in a column, without the column.
func (g grid) rowsWith(column, value string) grid {
	at := slices.Index(g.rows[0], column)
	rows := [][]string{g.rows[0]}
	for _, row := range g.rows[1:] {
		if row[at] == value {
			rows = append(rows, row)
		}
	}
	return grid{rows, g.gap}.without(column)
}

// without returns the table without a column.
func (g grid) without(name string) grid {
	at := slices.Index(g.rows[0], name)
	if at < 0 {
		return g
	}
	rows := make([][]string, len(g.rows))
	for i, row := range g.rows {
		rows[i] = slices.Delete(slices.Clone(row), at, at+1)
	}
	return grid{rows, g.gap}
}

// last returns the table with a column at the end.
func (g grid) last(name string) grid {
	at := slices.Index(g.rows[0], name)
	out := g.without(name)
	for i, row := range g.rows {
		out.rows[i] = append(out.rows[i], row[at])
	}
	return out
}

// mapped returns the table with other cells in a column; the heading stays.
func (g grid) mapped(at int, change func(string) string) grid {
	rows := slices.Clone(g.rows)
	for i := range rows[1:] {
		if len(rows[i+1]) > 1 {
			rows[i+1] = slices.Clone(rows[i+1])
			rows[i+1][at] = change(rows[i+1][at])
		}
	}
	return grid{rows, g.gap}
}

// shortNodes returns the table with short names of nodes. Names that are titles stay whole.
func (g grid) shortNodes(l layout) grid {
	for at, name := range g.rows[0] {
		if slices.Contains(nodeColumns, name) && name != l.title {
			g = g.mapped(at, func(node string) string { return shortNode(node, l.pool) })
		}
	}
	return g
}

// shortNode is a node's name without the domain of the cloud, and without the name of the pool at its beginning.
func shortNode(node, pool string) string {
	node, _, _ = strings.Cut(node, ".")
	if rest, is := strings.CutPrefix(node, pool); is && pool != "" && rest != "" {
		return "…" + rest
	}
	return node
}

// squeezed narrows the gaps, omits columns, wraps free text, and then shortens the widest cells, until the table fits.
func (g grid) squeezed(width int) grid {
	if g.width() <= width {
		return g
	}
	g.gap = 2
	for _, name := range nodeColumns {
		if slices.Index(g.rows[0], name) > 0 {
			g = g.last(name)
		}
	}
	for _, name := range slices.Concat(details, optional) {
		if wrapped, fits := g.wrapped(width); fits {
			return wrapped
		}
		if name != "AGE" || !g.hasText() {
			g = g.without(name)
		}
	}
	if wrapped, fits := g.wrapped(width); fits {
		return wrapped
	}
	g = g.below(width)
	for g.width() > width {
		widths := g.widths()
		at := slices.Index(widths, slices.Max(widths))
		most, isNode := widths[at]-1, slices.Contains(nodeColumns, g.rows[0][at])
		g = g.mapped(at, func(cell string) string {
			if over := utf8.RuneCountInString(cell) - most; isNode && over > 0 {
				return "…" + string([]rune(cell)[over+1:])
			}
			return shortened(cell, most)
		})
		g.rows[0] = slices.Clone(g.rows[0])
		g.rows[0][at] = shortened(g.rows[0][at], most)
	}
	return g
}

// hasText reports whether the table has a column of free text.
func (g grid) hasText() bool {
	return slices.ContainsFunc(g.rows[0], func(name string) bool { return slices.Contains(textColumns, name) })
}

// wrapped wraps the free text in the last column within the width, and reports whether the table then fits.
func (g grid) wrapped(width int) (grid, bool) {
	if g.width() <= width {
		return g, true
	}
	last := len(g.rows[0]) - 1
	if !slices.Contains(textColumns, g.rows[0][last]) {
		return g, false
	}
	left := width - g.without(g.rows[0][last]).width() - g.gap
	if left < textAtLeast {
		return g, false
	}
	out := grid{gap: g.gap}
	for _, row := range g.rows {
		for i, line := range linesOf(row[last], left) {
			next := make([]string, len(row))
			if i == 0 {
				next = slices.Clone(row)
			}
			next[last] = line
			out.rows = append(out.rows, next)
		}
	}
	return out, out.width() <= width
}

// below moves free text from its columns to lines below the rows.
func (g grid) below(width int) grid {
	for _, name := range textColumns {
		at := slices.Index(g.rows[0], name)
		if at < 0 {
			continue
		}
		bare := g.without(name)
		out := grid{gap: g.gap}
		for i, row := range bare.rows {
			out.rows = append(out.rows, row)
			if text := g.rows[i][at]; i > 0 && text != "" && text != None {
				for _, line := range linesOf(strings.ToLower(name)+": "+text, width-2) {
					out.rows = append(out.rows, []string{"  " + line})
				}
			}
		}
		return out
	}
	return g
}

// linesOf wraps free text at words. A word that is wider than the line is broken, if possible at a part of its name, because
// free text loses its meaning with a part left out.
func linesOf(text string, width int) (lines []string) {
	for _, line := range strings.Split(output.Wrap(text, width), "\n") {
		for utf8.RuneCountInString(line) > width {
			head := string([]rune(line)[:width])
			if at := strings.LastIndexAny(head, "/-."); at > width/2 {
				head = head[:at+1]
			}
			lines, line = append(lines, head), line[len(head):]
		}
		lines = append(lines, line)
	}
	return lines
}

// shortened is a text of at most the width, with "…" at the end of a longer text.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

// widths are the widths of the columns.
func (g grid) widths() []int {
	widths := make([]int, len(g.rows[0]))
	for _, row := range g.rows {
		for at, cell := range row {
			if len(row) == len(widths) {
				widths[at] = max(widths[at], utf8.RuneCountInString(cell))
			}
		}
	}
	return widths
}

// width is the length of the longest line.
func (g grid) width() (longest int) {
	for _, line := range g.aligned() {
		longest = max(longest, utf8.RuneCountInString(line))
	}
	return longest
}

// aligned returns the lines of the table.
func (g grid) aligned() []string {
	widths := g.widths()
	lines := make([]string, len(g.rows))
	for i, row := range g.rows {
		if len(row) < len(widths) {
			lines[i] = row[0]
			continue
		}
		var b strings.Builder
		for at, cell := range row {
			b.WriteString(cell + strings.Repeat(" ", widths[at]-utf8.RuneCountInString(cell)+g.gap))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// orNone is the text, or None for an empty text. orNone removes line breaks, which would break the table.
func orNone(text string) string {
	if text == "" {
		return None
	}
	return strings.Join(strings.Fields(text), " ")
}
