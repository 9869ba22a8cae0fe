package page

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/testing/example"
)

// hostile breaks out of text, attributes, scripts and styles, and hides the text behind.
const hostile = "evil\"'`><script src=//x>alert(1)</script><img src=x onerror=alert(1)></title></textarea>javascript:alert(1)\x00\x1b[8m\u202e{{.}}&amp;\xff"

// elements and attributes of the page. Nothing of the cluster adds one.
var (
	elements = strings.Fields(
		"html head meta title link script body a header h1 h2 h3 p main nav section article div dl dt dd ul ol li table thead tbody tr th td " +
			"time code b span details summary figure figcaption svg rect circle path text tspan")
	attributes = strings.Fields("lang charset name content rel href src defer class id role tabindex scope datetime viewbox x y width height rx cx cy r d " +
		"text-anchor aria-label aria-labelledby aria-hidden")
	links = regexp.MustCompile(`^(#main|#pool-\d+|\./|pool\?name=[\w.%+-]+|assets/(dashboard\.css|dashboard\.js|icon\.svg))$`)
)

// fill sets every string of a value to the text, and every slice to two elements.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// tokens calls see for every tag of a page.
func tokens(t *testing.T, body []byte, see func(html.Token)) {
	t.Helper()
	for z := html.NewTokenizer(bytes.NewReader(body)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			see(z.Token())
		}
	}
}

// shape are the tags of a page with the names of their attributes.
func shape(t *testing.T, body []byte) (all []string) {
	tokens(t, body, func(token html.Token) {
		line := token.Type.String() + " " + token.Data
		for _, a := range token.Attr {
			line += " " + a.Key
		}
		all = append(all, line)
	})
	return all
}

// TestHostileNames: a view whose every text is hostile has the same tags as a view whose every text is harmless.
func TestHostileNames(t *testing.T) {
	for _, isRunning := range []bool{true, false} {
		view := func(text string) []byte {
			var v dashboard.View
			fill(reflect.ValueOf(&v).Elem(), text)
			for i := range v.Pools {
				for j := range v.Pools[i].Captures {
					v.Pools[i].Captures[j].Running = isRunning
				}
			}
			return HTML(v)
		}
		// A sentence makes the parts between backquotes code, so both texts have one backquote.
		harmless, evil := view("harmless`name"), view(hostile)
		if !slices.Equal(shape(t, harmless), shape(t, evil)) {
			t.Error("a name changes the tags of the page")
		}
		for _, r := range string(evil) {
			if r < 0x20 && r != '\n' && r != '\t' || r == 0x202e {
				t.Errorf("the page has character %U", r)
			}
		}
		if !bytes.Contains(evil, []byte("evil")) {
			t.Error("nothing hostile is shown")
		}
	}
}

// TestOnlyKnownMarkup: no inline script or style, no event handler, and no link to another host.
func TestOnlyKnownMarkup(t *testing.T) {
	ids := map[string]bool{}
	tokens(t, HTML(example.View()), func(token html.Token) {
		if !slices.Contains(elements, token.Data) {
			t.Errorf("unknown element %s", token.Data)
		}
		for _, a := range token.Attr {
			if !slices.Contains(attributes, a.Key) {
				t.Errorf("unknown attribute %s of %s", a.Key, token.Data)
			}
			if (a.Key == "href" || a.Key == "src") && !links.MatchString(a.Val) {
				t.Errorf("%s links to %s", token.Data, a.Val)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					t.Errorf("two elements have the ID %s", a.Val)
				}
				ids[a.Val] = true
			}
		}
	})
}

// TestEveryTagIsClosed: an open element would swallow the rest of the page.
func TestEveryTagIsClosed(t *testing.T) {
	var open []string
	tokens(t, HTML(example.View()), func(token html.Token) {
		switch {
		case void[token.Data]:
		case token.Type == html.StartTagToken:
			open = append(open, token.Data)
		case len(open) == 0 || open[len(open)-1] != token.Data:
			t.Errorf("</%s> closes %v", token.Data, open)
		default:
			open = open[:len(open)-1]
		}
	})
	if len(open) > 0 {
		t.Errorf("open elements: %v", open)
	}
}

// TestText: what a reader without a script, without colours or without eyes gets.
func TestText(t *testing.T) {
	page := string(HTML(example.View()))
	for _, want := range []string{
		"As of <time", "Pool <span class=\"name\">general</span>", "<dd>6 of 7</dd>",
		"aria-label=\"Nodes by version: 3 nodes of 2026.03.08 (current), 2 nodes of 2026.02.22 (older), 2 nodes of other images (other)\"",
		"Lineage, newest first: 2026.03.08 (current) from 2026.02.22", "<code>kamino promote gpu 2026.03.09</code>",
		"Time until Ready of ", "Version 2026.03.08, compared with version 2026.02.22: kernel 6.1.0-28 -&gt; 6.1.0-31",
		"Savings, risks and costs of 30 days", "time of nodes without the newest patch", "node-hours",
		"<span class=\"hidden\">running: </span>RunningTrial", "<b>Waits. </b>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	empty := string(HTML(dashboard.View{}))
	if !strings.Contains(empty, "No node of this cluster belongs to a known pool.") {
		t.Errorf("an empty page: %s", empty)
	}
	if troubled := string(HTML(dashboard.View{Troubles: []string{"The last look failed: no answer"}})); !strings.Contains(troubled, "no answer") ||
		strings.Contains(troubled, "No node of this cluster") {
		t.Errorf("a page without facts: %s", troubled)
	}
}

// TestSizeOfManyPools: the page stays below its limit at any size, whether the pools are healthy or not. Every pool in its list has a
// section on the page, or a page of its own.
func TestSizeOfManyPools(t *testing.T) {
	for _, pools := range []int{1, 10, 300, 2000} {
		for _, healthy := range []bool{true, false} {
			facts := example.Facts()
			var long []joinhealth.Join // of the 50 nodes of a pool
			for i := range 50 {
				long = append(long, joinhealth.Join{
					Node: fmt.Sprint("node-", i), Running: facts.Now.Add(-time.Hour), Took: time.Minute, Outcome: joinhealth.Joined,
				})
			}
			from := facts.Pools
			facts.Pools, facts.Policies = nil, nil
			for i := range pools {
				p := from[i%len(from)]
				if healthy {
					p = from[0]
				}
				p.History.Pool, p.Joins, p.Nodes, p.Ready = fmt.Sprintf("pool-%d", i), long, 50, 50
				facts.Pools = append(facts.Pools, p)
			}
			v := dashboard.Of(facts)
			body := HTML(v)
			if len(body) > maxPage {
				t.Errorf("%d pools, healthy: %t: %d bytes", pools, healthy, len(body))
			}
			ids, own := map[string]bool{}, 0
			var hrefs []string
			tokens(t, body, func(token html.Token) {
				for _, a := range token.Attr {
					switch {
					case a.Key == "id":
						ids[a.Val] = true
					case a.Key == "href" && (strings.HasPrefix(a.Val, "#pool-") || strings.HasPrefix(a.Val, "pool?")):
						hrefs = append(hrefs, a.Val)
					}
				}
			})
			for _, href := range hrefs {
				if id, on := strings.CutPrefix(href, "#"); on {
					if !ids[id] {
						t.Errorf("%d pools: no section %s", pools, id)
					}
					continue
				}
				own++
				page := Pool(v, strings.TrimPrefix(href, "pool?name="))
				if len(page) == 0 || len(page) > maxPage || !bytes.Contains(page, []byte("Joins over time")) {
					t.Errorf("%d pools: the page %s has %d bytes", pools, href, len(page))
				}
			}
			t.Logf("%d pools, healthy: %t: %d bytes, %d in the list, %d with a page of their own", pools, healthy, len(body), len(hrefs), own)
			if pools == 300 && (len(hrefs) < 200 || own == 0) || pools == 1 && !ids["pool-1"] {
				t.Errorf("%d pools in the list, %d with a page of their own", len(hrefs), own)
			}
		}
	}
	if Pool(example.View(), "none") != nil {
		t.Error("a pool that is not there has a page")
	}
}
