// Package page writes the view of package dashboard as one HTML page with SVG diagrams. The page needs no script for
// reading, and loads nothing from other hosts.
//
// The package does not use html/template: templates call methods by name, so the linker would keep every method of every
// package, and the binary would be half as big again. Instead, all text passes through one function that escapes.
package page

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/wording"
)

// node is a part of the page.
type node interface{ write(b *strings.Builder) }

// text is any text. Names from the cluster are hostile: text is the only way for names into the page, besides attribute
// values, which escape in the same way.
type text string

func (t text) write(b *strings.Builder) { b.WriteString(escaped(string(t))) }

// escaped is a text without markup, control characters and characters that change the direction of text.
func escaped(s string) string {
	s = strings.Map(func(r rune) rune {
		if wording.Controls(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	return html.EscapeString(s)
}

// attribute has a constant name. The value is always quoted and escaped.
type attribute struct{ name, value string }

func attr(name, value string) attribute { return attribute{name, value} }

func number(name string, value float64) attribute {
	return attribute{name, strconv.FormatFloat(value, 'f', -1, 64)}
}

// element has a constant name.
type element struct {
	name       string
	attributes []attribute
	children   []node
}

// el returns an element. Parts are attributes, nodes, lists of nodes and strings; el ignores nil.
func el(name string, parts ...any) *element {
	e := &element{name: name}
	for _, part := range parts {
		switch part := part.(type) {
		case attribute:
			e.attributes = append(e.attributes, part)
		case string:
			e.children = append(e.children, text(part))
		case []node:
			e.children = append(e.children, part...)
		case *element:
			if part != nil {
				e.children = append(e.children, part)
			}
		case node:
			e.children = append(e.children, part)
		}
	}
	return e
}

// void elements of HTML have no end tag.
var void = map[string]bool{"meta": true, "link": true, "br": true}

func (e *element) write(b *strings.Builder) {
	b.WriteString("<" + e.name)
	for _, a := range e.attributes {
		b.WriteString(" " + a.name + `="` + escaped(a.value) + `"`)
	}
	b.WriteByte('>')
	if void[e.name] {
		return
	}
	for _, child := range e.children {
		child.write(b)
	}
	b.WriteString("</" + e.name + ">")
}
