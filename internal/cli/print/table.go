package print

import (
	"bytes"
	"io"
	"strings"
	"text/tabwriter"
)

// table writes rows under a heading in aligned columns, without trailing blanks.
func table(w io.Writer, heading []string, rows [][]string) error {
	var aligned bytes.Buffer
	tw := tabwriter.NewWriter(&aligned, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		line := strings.Join(row, "\t") + "\n"
		if _, err := io.WriteString(tw, line); err != nil {
			return err
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(aligned.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// orNone is the text, or None for an empty text. orNone removes line breaks, which would break the table.
func orNone(text string) string {
	if text == "" {
		return None
	}
	return strings.Join(strings.Fields(text), " ")
}
