package query

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"time"
)

// Element is an XML element: a text, or elements. One without a name is left out.
type Element struct {
	Name string
	Text string
	Kids []Element
	// Space is the element's namespace, which its children inherit.
	Space string
}

// Of is an element of elements.
func Of(name string, kids ...Element) Element { return Element{Name: name, Kids: kids} }

// Text is an element with a text. An empty text gives no element, because AWS omits unset values.
func Text(name, text string) Element {
	if text == "" {
		return Element{}
	}
	return Element{Name: name, Text: text}
}

// Bool is "true" or "false".
func Bool(name string, b bool) Element { return Text(name, strconv.FormatBool(b)) }

// Int is a number.
func Int[N int | int32 | int64](name string, n N) Element {
	return Text(name, strconv.FormatInt(int64(n), 10))
}

// Date is a time, in milliseconds. A zero time gives no element.
func Date(name string, t time.Time) Element {
	if t.IsZero() {
		return Element{}
	}
	return Text(name, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// List is an element with a child for each item, named "item" for EC2 and "member" elsewhere.
func List[T any](name, item string, all []T, render func(T) Element) Element {
	out := Element{Name: name}
	for _, one := range all {
		e := render(one)
		e.Name = item
		out.Kids = append(out.Kids, e)
	}
	return out
}

// Texts is a list of texts.
func Texts(name, item string, all []string) Element {
	return List(name, item, all, func(text string) Element { return Element{Text: text} })
}

// Document is the element as an XML document.
func (e Element) Document() []byte {
	var out bytes.Buffer
	out.WriteString(xml.Header)
	e.write(&out)
	return out.Bytes()
}

func (e Element) write(out *bytes.Buffer) {
	if e.Name == "" {
		return
	}
	out.WriteString("<" + e.Name)
	if e.Space != "" {
		out.WriteString(` xmlns="` + e.Space + `"`)
	}
	out.WriteString(">")
	if len(e.Kids) == 0 {
		_ = xml.EscapeText(out, []byte(e.Text)) // a buffer takes everything
	}
	for _, kid := range e.Kids {
		kid.write(out)
	}
	out.WriteString("</" + e.Name + ">")
}
