package page

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Shares of a page, in bytes. A page stays below maxPage: the pools that need a person most are on it, and each other pool has a page of
// its own.
const (
	maxPage     = 150 << 10
	maxFrame    = 4 << 10
	maxNeeds    = 32 << 10
	maxOverview = 56 << 10
	// maxSections is more than the number of sections that fit.
	maxSections = 50
)

// HTML is the whole page.
func HTML(v dashboard.View) []byte { return whole(v, content(v)) }

// Pool is the page of the pools of a name; nil without such a pool.
func Pool(v dashboard.View, name string) []byte {
	nodes := head(v)
	for i, p := range v.Pools {
		if p.Name == name {
			p.State.Folded = false
			nodes = append(nodes, section(i, p, v.At))
		}
	}
	if len(nodes) == len(head(v)) {
		return nil
	}
	return whole(v, append(nodes, el("p", el("a", attr("href", "./"), "All pools"))))
}

func whole(v dashboard.View, content []node) []byte {
	var b strings.Builder
	b.WriteString("<!doctype html>\n")
	title := "Kamino"
	if v.Cluster != "" {
		title += " · " + v.Cluster
	}
	el("html", attr("lang", "en"),
		el("head",
			el("meta", attr("charset", "utf-8")),
			el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
			el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
			el("title", title),
			el("link", attr("rel", "stylesheet"), attr("href", "assets/dashboard.css")),
			el("link", attr("rel", "icon"), attr("href", "assets/icon.svg")),
			el("script", attr("src", "assets/dashboard.js"), attr("defer", "")),
		),
		el("body",
			el("a", attr("class", "skip"), attr("href", "#main"), "Skip to the pools"),
			el("header",
				el("h1", "Kamino"),
				when(v.Cluster != "", el("p", attr("class", "cluster"), v.Cluster)),
				el("p", attr("id", "state"), attr("role", "status")),
			),
			el("main", attr("id", "main"), attr("tabindex", "-1"), content),
		),
	).write(&b)
	b.WriteByte('\n')
	return []byte(b.String())
}

// when returns the element, or nil.
func when(is bool, e *element) *element {
	if !is {
		return nil
	}
	return e
}

// fitting returns the first nodes that fit into a number of bytes, and the bytes that are left.
func fitting(nodes []node, bytes int) (fit []node, left int) {
	for i, n := range nodes {
		var b strings.Builder
		if n.write(&b); b.Len() > bytes {
			return nodes[:i], bytes
		}
		bytes -= b.Len()
	}
	return nodes, bytes
}

// rest is a sentence about what is not shown, with the command that shows all; nil if nothing is missing.
func rest(n int, thing, command string) *element {
	if n <= 0 {
		return nil
	}
	return el("p", fmt.Sprintf("%s not shown: run ", wording.Are(n, thing)), el("code", command))
}

func head(v dashboard.View) []node {
	nodes := []node{el("p", attr("class", "fresh"), "As of ", clock(v.At), ". Read-only.")}
	if len(v.Troubles) > 0 {
		nodes = append(nodes, notes("Troubles", v.Troubles))
	}
	return nodes
}

func content(v dashboard.View) []node {
	nodes := head(v)
	_, left := fitting(nodes, maxPage-maxFrame-maxNeeds-maxOverview)
	if len(v.Attention) > 0 {
		nodes = append(nodes, needs(v.Attention))
	}
	if len(v.Pools) == 0 && len(v.Troubles) == 0 {
		return append(nodes, el("p", "No node of this cluster belongs to a known pool."))
	}
	sections := []node{}
	for i, p := range v.Pools {
		if sections = append(sections, section(i, p, v.At)); len(sections) > maxSections {
			break
		}
	}
	sections, _ = fitting(sections, left)
	if len(v.Pools) > 1 || len(sections) == 0 {
		nodes = append(nodes, overview(v.Pools, len(sections)))
	}
	return append(nodes, sections...)
}

// needs lists what needs a person, most urgent first.
func needs(all []dashboard.Need) *element {
	var items []node
	for _, n := range all {
		next := "Next: " + n.Next + "."
		if n.Since != "" {
			next = "Since " + n.Since + ". " + next
		}
		items = append(items, el("li", el("b", attr("class", badge(n.Severity)), n.Severity), " ", el("b", n.Title),
			when(n.Cause != "", el("p", sentence(n.Cause+"."))), el("p", attr("class", "took"), next), el("p", "Run ", el("code", n.Command))))
	}
	fit, _ := fitting(items, maxNeeds)
	return el("section", attr("aria-labelledby", "needs"), el("h2", attr("id", "needs"), "Needs you"), el("ul", attr("class", "notes"), fit),
		rest(len(items)-len(fit), "thing", "kamino status"))
}

// badge is the class of a severity or state.
func badge(severity string) string {
	switch severity {
	case "critical", "warning":
		return "use use-bad"
	case "info":
		return "use use-other"
	}
	return "use use-current"
}

// anchor is the ID of a pool's section. Names are no part of an ID.
func anchor(i int) string { return fmt.Sprintf("pool-%d", i+1) }

func clock(at time.Time) *element {
	return el("time", attr("datetime", at.Format(time.RFC3339)), at.Format("2006-01-02 15:04:05 UTC"))
}

// overview lists the pools. Those from shown on have a page of their own.
func overview(pools []dashboard.PoolSection, shown int) *element {
	var rows []node
	for i, p := range pools {
		link := "#" + anchor(i)
		if i >= shown {
			link = "pool?name=" + url.QueryEscape(p.Name)
		}
		rows = append(rows, el("tr",
			el("th", attr("scope", "row"), el("a", attr("href", link), p.Name)),
			el("td", el("span", attr("class", badge(p.State.Word)), p.State.Word)), el("td", ready(p)), el("td", activity(p)), el("td", orNone(p.Recipe)),
		))
	}
	fit, _ := fitting(rows, maxOverview)
	return el("nav", attr("aria-label", "Pools"), grid("All pools", []string{"Pool", "State", "Ready", "Now", "Version"}, fit),
		rest(len(rows)-len(fit), "pool", "kamino status"))
}

func ready(p dashboard.PoolSection) string { return fmt.Sprintf("%d of %d", p.Ready, p.Nodes) }

// activity is the state of the running captures, or the decision of the policy.
func activity(p dashboard.PoolSection) string {
	var words []string
	for _, c := range p.Captures {
		if c.Running {
			words = append(words, c.Phase)
		}
	}
	for _, policy := range p.Policies {
		if len(words) == 0 {
			words = append(words, policy.Reason)
		}
	}
	return orNone(strings.Join(words, ", "))
}

// grid is a table that scrolls sideways on a narrow screen, also by keyboard.
func grid(label string, heading []string, rows []node) *element {
	var heads []node
	for _, name := range heading {
		heads = append(heads, el("th", attr("scope", "col"), name))
	}
	return el("div", attr("class", "scroll"), attr("role", "region"), attr("aria-label", label), attr("tabindex", "0"),
		el("table", el("thead", el("tr", heads)), el("tbody", rows)))
}

func notes(label string, all []string) *element {
	var items []node
	for _, note := range all {
		items = append(items, el("li", sentence(note)))
	}
	return el("ul", attr("class", "notes"), attr("aria-label", label), items)
}

// sentence is a text whose commands in backquotes are code.
func sentence(s string) []node {
	var nodes []node
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			nodes = append(nodes, el("code", part))
		} else if part != "" {
			nodes = append(nodes, text(part))
		}
	}
	return nodes
}

func section(i int, p dashboard.PoolSection, now time.Time) *element {
	id := anchor(i)
	name := func(title string) string { return title + " of pool " + p.Name }
	parts := []node{
		el("h2", attr("id", id), attr("tabindex", "-1"), "Pool ", el("span", attr("class", "name"), p.Name)),
		el("dl", attr("class", "facts"),
			fact("Ready nodes", ready(p)), fact("Capacity", count(p.Capacity)), fact("Next nodes", orNone(p.Recipe)),
		),
	}
	if len(p.Notes) > 0 {
		parts = append(parts, notes(name("Notes"), p.Notes))
	}
	for _, c := range p.Captures {
		if c.Running {
			parts = append(parts, capture(c))
		}
	}
	if len(p.Bars) > 0 {
		parts = append(parts, el("h3", "Nodes by version"), bars(p), legend(p))
	}
	if len(p.Versions) > 0 {
		parts = append(parts, el("h3", "Versions and lineage"), el("div", attr("class", "beside"), lineage(p), versions(name("Versions"), p)))
	}
	if len(p.Changes) > 0 {
		parts = append(parts, notes(name("Changes"), p.Changes))
	}
	if len(p.Joins) > 0 {
		parts = append(parts, el("h3", "Joins over time"), joins(p, now))
	}
	if len(p.Figures) > 0 {
		parts = append(parts, el("h3", fmt.Sprintf("Savings, risks and costs of %d days", p.ReportDays)), figures(name("Figures"), p))
	}
	if len(p.Policies) > 0 {
		parts = append(parts, el("h3", "Policy"), policies(name("Policies"), p))
	}
	for _, c := range p.Captures {
		if !c.Running {
			parts = append(parts, el("details", attr("id", id+"-last"), el("summary", "Last capture: ", el("span", attr("class", "name"), c.Name)), capture(c)))
		}
	}
	if len(p.Timeline) > 0 {
		parts = append(parts, el("details", attr("id", id+"-events"), el("summary", "What happened, latest first"), events(name("Events"), p)))
	}
	if p.State.Folded {
		all := el("details", attr("id", id+"-all"), el("summary", "healthy, "+ready(p)+" Ready"), parts[1:])
		return el("section", attr("aria-labelledby", id), parts[0], all)
	}
	return el("section", attr("aria-labelledby", id), parts)
}

func fact(name, value string) *element { return el("div", el("dt", name), el("dd", value)) }

func count(n int64) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

func orNone(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func capture(c dashboard.Capture) *element {
	parts := []node{
		el("h3", "Capture ", el("span", attr("class", "name"), c.Name)),
		el("p", "Version ", el("b", c.Version), " from node ", el("b", attr("class", "name"), c.Donor), ", ", orNone(c.Since), ": ", el("b", c.Phase),
			when(c.Progress != "", el("span", ", "+c.Progress))),
	}
	if c.Failure != "" {
		parts = append(parts, el("p", attr("class", "alert"), el("b", "Failed. "), sentence(c.Failure)))
	}
	if c.Waits != "" {
		parts = append(parts, el("p", attr("class", "alert"), el("b", "Waits. "), sentence(c.Waits)))
	}
	if len(c.Steps) > 0 {
		var steps []node
		for _, s := range c.Steps {
			class, word := "now", "running: "
			switch {
			case s.Failed:
				class, word = "bad", "failed: "
			case s.Done:
				class, word = "done", "done: "
			}
			steps = append(steps, el("li", attr("class", class), hidden(word), s.Phase, when(s.Took != "", el("span", attr("class", "took"), " "+s.Took))))
		}
		parts = append(parts, el("ol", attr("class", "steps"), attr("aria-label", "Steps"), steps))
	}
	if len(c.Checks) > 0 {
		var checks []node
		for _, check := range c.Checks {
			class := "now"
			switch {
			case check.Failed:
				class = "bad"
			case check.Passed:
				class = "done"
			}
			checks = append(checks, el("li", attr("class", class), el("b", check.Name), " "+check.Result,
				when(check.Message != "", el("span", attr("class", "took"), ": "+check.Message))))
		}
		parts = append(parts, el("ul", attr("class", "checks"), attr("aria-label", "Checks of the trial"), checks))
	}
	return el("article", attr("class", "capture"), parts)
}

// hidden is a word for screen readers, in place of a colour.
func hidden(word string) *element { return el("span", attr("class", "hidden"), word) }

func versions(label string, p dashboard.PoolSection) *element {
	var rows []node
	for _, v := range p.Versions {
		rows = append(rows, el("tr",
			el("th", attr("scope", "row"), v.Version), el("td", el("span", attr("class", "use use-"+string(v.Kind)), v.Use)),
			el("td", v.Nodes), el("td", orNone(v.Joined)), el("td", orNone(v.Waiting)), el("td", orNone(v.Median)),
			el("td", attr("class", "name"), orNone(v.Donor)), el("td", orNone(v.Built)), el("td", sentence(orNone(v.Why))),
		))
	}
	table := grid(label, []string{"Version", "Use", "Nodes", "Joined", "Waiting", "Median until Ready", "Donor", "Built", "Kept or deleted because"}, rows)
	if p.Hidden == 0 {
		return table
	}
	return el("div", table, el("p", fmt.Sprintf("%s not shown: run ", wording.Are(p.Hidden, "older version")), el("code", "kamino history "+p.Name)))
}

func figures(label string, p dashboard.PoolSection) *element {
	var rows []node
	for _, f := range p.Figures {
		rows = append(rows, el("tr", el("th", attr("scope", "row"), f.Title), el("td", f.Value), el("td", f.Kind), el("td", f.Source)))
	}
	return grid(label, []string{"Figure", "Value", "Kind", "Source"}, rows)
}

func policies(label string, p dashboard.PoolSection) *element {
	var rows []node
	for _, policy := range p.Policies {
		rows = append(rows, el("tr",
			el("th", attr("scope", "row"), policy.Name), el("td", orNone(policy.Reason)),
			el("td", sentence(orNone(strings.TrimSpace(policy.Message+" "+policy.Remedy)))),
			el("td", orNone(policy.Next)), el("td", orNone(policy.JoinHealth)),
		))
	}
	return grid(label, []string{"Policy", "Decision", "Why", "Next run", "Joins of the current version"}, rows)
}

func events(label string, p dashboard.PoolSection) *element {
	var rows []node
	for _, e := range p.Timeline {
		reason := el("td", e.Reason)
		if e.Warning {
			reason = el("td", el("b", attr("class", "warning"), "! "+e.Reason))
		}
		rows = append(rows, el("tr", el("th", attr("scope", "row"), clock(e.At)), reason, el("td", attr("class", "name"), e.Object),
			el("td", sentence(orNone(e.Message)))))
	}
	return grid(label, []string{"Time", "Reason", "Object", "Message"}, rows)
}
