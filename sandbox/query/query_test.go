package query

import (
	"encoding/xml"
	"net/url"
	"slices"
	"testing"
	"time"
)

func parse(t *testing.T, body string) *Value {
	t.Helper()
	form, err := url.ParseQuery(body)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(form)
}

func TestListOrder(t *testing.T) {
	v := parse(t, "Id.10=j&Id.2=b&Id.1=a&Names.member.2=y&Names.member.1=x&Filter.1.Name=n&Filter.1.Value.1=v")
	if got := v.Texts("Id"); !slices.Equal(got, []string{"a", "b", "j"}) {
		t.Errorf("flat list is %v", got)
	}
	if got := v.Texts("Names"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("list of members is %v", got)
	}
	filters := v.List("Filter")
	if len(filters) != 1 || filters[0].Get("Name") != "n" || !slices.Equal(filters[0].Texts("Value"), []string{"v"}) {
		t.Errorf("filters are %v", filters)
	}
	if v.IsList() || !v.At("Id").IsList() || !v.At("Names").IsList() {
		t.Error("what is a list and what is not was confused")
	}
}

func TestNilValue(t *testing.T) {
	v := parse(t, "A.B=&C=TRUE")
	var none *Value
	for name, got := range map[string]bool{
		"an empty text is there": v.Has("A.B"), "true in capitals": v.True("C"),
		"missing": !v.Has("A.X") && v.Get("A.X.Y") == "" && v.List("Q") == nil && none.Get("A") == "" && none.Copy() == nil && !none.IsList(),
	} {
		if !got {
			t.Error(name)
		}
	}
}

func TestOverCopies(t *testing.T) {
	old, change := parse(t, "Image=1&Tag.1=a&Tag.2=b"), parse(t, "Image=2&Tag.1=c")
	both := old.Over(change)
	if both.Get("Image") != "2" || !slices.Equal(both.Texts("Tag"), []string{"c"}) {
		t.Errorf("laid over: %s", both)
	}
	both.Set("Tag.1", "z")
	if old.String() != parse(t, "Tag.2=b&Tag.1=a&Image=1").String() || change.Get("Tag.1") != "c" {
		t.Errorf("a part is shared: %s, %s", old, change)
	}
	if got := old.Copy("Image"); got.Has("Image") || !old.Has("Image") {
		t.Error("a copy without a part has it, or takes it from the other")
	}
	if (&Value{}).Over(change).Get("Image") != "2" {
		t.Error("laid over nothing, nothing comes of it")
	}
}

func TestStringIsCanonical(t *testing.T) {
	a := parse(t, "A=1&B.1=x%26y")
	if a.String() != parse(t, "B.1=x%26y&A=1").String() {
		t.Error("the order of the parameters shows")
	}
	if a.String() == parse(t, "A=1&B.1=x&y=").String() {
		t.Error("a text with a separator looks like two parameters")
	}
}

func TestDocumentOmitsUnsetValues(t *testing.T) {
	e := Of("R", Text("empty", ""), Text("text", `<&">`), Bool("no", false), Int("n", 7), Date("never", time.Time{}),
		Date("then", time.Date(2026, 3, 1, 2, 3, 4, 5e6, time.UTC)), Texts("list", "item", []string{"a", "b"}), Texts("none", "item", nil))
	e.Space = "urn:x"
	var got struct {
		XMLName xml.Name
		Empty   *string  `xml:"empty"`
		Text    string   `xml:"text"`
		No      string   `xml:"no"`
		N       int      `xml:"n"`
		Never   *string  `xml:"never"`
		Then    string   `xml:"then"`
		List    []string `xml:"list>item"`
		None    *string  `xml:"none"`
	}
	if err := xml.Unmarshal(e.Document(), &got); err != nil {
		t.Fatal(err)
	}
	if got.XMLName.Space != "urn:x" || got.Empty != nil || got.Text != `<&">` || got.No != "false" || got.N != 7 || got.Never != nil ||
		got.Then != "2026-03-01T02:03:04.005Z" || !slices.Equal(got.List, []string{"a", "b"}) || got.None == nil {
		t.Errorf("document is read as %+v: %s", got, e.Document())
	}
}

// TestUnread names the parameters of a request that no caller has read.
func TestUnread(t *testing.T) {
	v := parse(t, "A=1&B.1=x&C.D=2&E=3&F=4")
	if got := v.Unread(); !slices.Equal(got, []string{"A", "B", "C", "E", "F"}) {
		t.Errorf("before any read: %v", got)
	}
	v.Track()
	_, _, _ = v.Get("A"), v.Texts("B"), v.Has("C.D")
	if _ = v.String() + v.Copy().String(); !slices.Equal(v.Unread(), []string{"E", "F"}) {
		t.Errorf("after reads of A, B and C: %v", v.Unread())
	}
	if rest := v.Rest("F"); !rest.Has("E") || rest.Has("F") || !slices.Equal(v.Unread(), []string{"F"}) {
		t.Errorf("after a read of all but F: %v", v.Unread())
	}
	if v.Track(); len(v.Unread()) != 5 || len(v.Names()) != 5 || len(v.Unread()) > 0 {
		t.Errorf("after a read of the names: %v", v.Unread())
	}
}
