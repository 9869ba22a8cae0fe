package bench

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

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
