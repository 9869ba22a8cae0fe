package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/metrics"
)

// metricName is the label with the name of a metric.
const metricName = "__name__"

// promQL is the parser without experimental functions.
var promQL = parser.NewParser(parser.Options{})

// exported has the labels of each metric by its name, including the parts of a histogram.
type exported map[string]map[string]bool

// scraped lists the labels that Prometheus or the ServiceMonitor adds to every target of a Service.
var scraped = []string{"job", "instance", "namespace", "pod", "container", "service", "endpoint", "cluster"}

// foreign lists metrics besides Kamino's own that the controller serves and the dashboard reads. The end-to-end
// test of the chart requires that they exist.
var foreign = exported{
	"leader_election_master_status": {"name": true},
	"process_resident_memory_bytes": {},
}

var describes = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// export reads names and labels from the product's registry, and types from the documentation page. A product test
// compares page and registry.
func export(t *testing.T) exported {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(Dir(), "..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		metrics.New(time.Now).Describe(descriptions)
		close(descriptions)
	}()
	all := maps.Clone(foreign)
	for description := range descriptions {
		parts := describes.FindStringSubmatch(description.String())
		if parts == nil {
			t.Fatalf("how a description reads has changed: %s", description)
		}
		names := map[string]bool{}
		for _, label := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			names[label] = true
		}
		if !strings.Contains(string(page), "\n| `"+parts[1]+"` | histogram | ") {
			all[parts[1]] = names
			continue
		}
		all[parts[1]+"_sum"], all[parts[1]+"_count"] = names, names
		buckets := maps.Clone(names)
		buckets["le"] = true
		all[parts[1]+"_bucket"] = buckets
	}
	return all
}

// check parses a query, and refuses a metric that is not exported, or a label that the metric lacks.
func (e exported) check(query string) error {
	expression, err := promQL.ParseExpr(query)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	var problem error
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names, known := e[selector.Name]
		if !known {
			problem = fmt.Errorf("nothing exports %q", selector.Name)
			return nil
		}
		maps.Copy(found, names)
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != metricName && !names[matcher.Name] && !slices.Contains(scraped, matcher.Name) {
				problem = fmt.Errorf("%s has no label %q", selector.Name, matcher.Name)
			}
		}
		return nil
	})
	if problem != nil {
		return problem
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if wrong := misread(node); wrong != nil {
			problem = wrong
		}
		for _, label := range grouping(node) {
			if !found[label] && !slices.Contains(scraped, label) {
				problem = fmt.Errorf("it groups by %q, which none of its metrics has", label)
			}
		}
		return nil
	})
	return problem
}

// counted matches the names of metrics that only grow.
var counted = regexp.MustCompile(`_(total|sum|count|bucket)$`)

// misread reports a query that reads a gauge as a counter, or a counter as a gauge. A counter treats each fall as a
// restart.
func misread(node parser.Node) error {
	call, ok := node.(*parser.Call)
	if !ok {
		return nil
	}
	for _, argument := range call.Args {
		matrix, ok := argument.(*parser.MatrixSelector)
		if !ok {
			continue
		}
		name := matrix.VectorSelector.(*parser.VectorSelector).Name
		switch call.Func.Name {
		case "rate", "irate", "increase":
			if !counted.MatchString(name) {
				return fmt.Errorf("%s is for counters, and %s is a gauge", call.Func.Name, name)
			}
		case "delta", "idelta", "deriv":
			if counted.MatchString(name) {
				return fmt.Errorf("%s is for gauges, and %s is a counter", call.Func.Name, name)
			}
		}
	}
	return nil
}

func grouping(node parser.Node) []string {
	switch n := node.(type) {
	case *parser.AggregateExpr:
		return n.Grouping
	case *parser.BinaryExpr:
		if n.VectorMatching != nil {
			return slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
		}
	}
	return nil
}

// variables replaces Grafana's variables by values.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "7d", "$pool", "pool1", "$cluster", "c1")

type dashboard struct {
	Title      string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, LegendFormat string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text := render(t, Values{"metrics": Values{"dashboard": Values{"enabled": true}}}).Find("ConfigMap", "kamino-dashboard")
	if text == nil {
		t.Fatal("there is no dashboard")
	}
	if text.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar doesn't find it by %v", text.GetLabels())
	}
	source, _, _ := unstructured.NestedString(text.Object, "data", "kamino.json")
	var d dashboard
	if err := json.Unmarshal([]byte(source), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboard(t *testing.T) {
	known := export(t)
	d := readDashboard(t)
	asked := map[string]bool{}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("panel %q uses a variable that the dashboard doesn't have: %s", p.Title, target.Expr)
			}
			if err := known.check(query); err != nil {
				t.Errorf("panel %q: %v: %s", p.Title, err, target.Expr)
			}
			if err := checkLegend(query, target.LegendFormat); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
			checkClusters(t, query, true)
			for name := range known {
				if strings.Contains(query, name) {
					asked[name] = true
				}
			}
		}
	}
	checkGrid(t, d.Panels)
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !asked[name] && !asked[base+"_bucket"] && !asked[base+"_count"] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition)
		if parts == nil || !known[parts[1]][parts[2]] && !slices.Contains(scraped, parts[2]) {
			t.Errorf("variable %s: nothing exports %s", v.Name, v.Definition)
		}
	}
}

// checkClusters refuses a query that adds up pools of different clusters with one name, or, with select, reads all clusters.
func checkClusters(t *testing.T, query string, selects bool) {
	t.Helper()
	expression, err := promQL.ParseExpr(query)
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch of := node.(type) {
		case *parser.AggregateExpr:
			if slices.Contains(of.Grouping, "pool") && !slices.Contains(of.Grouping, "cluster") {
				t.Errorf("%s adds up pools of different clusters", query)
			}
		case *parser.VectorSelector:
			if selects && !slices.ContainsFunc(of.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "cluster" }) {
				t.Errorf("%s does not select the cluster", query)
			}
		}
		return nil
	})
}

// checkLegend refuses a legend with labels that the query removes.
func checkLegend(query, legend string) error {
	expression, err := promQL.ParseExpr(query)
	if err != nil {
		return err
	}
	left := map[string]bool{}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				left[label] = true
			}
		}
		return nil
	})
	for _, match := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
		if !left[match[1]] {
			return fmt.Errorf("the legend %q names %s, which %s does not leave over", legend, match[1], query)
		}
	}
	return nil
}

// checkGrid refuses panels that overlap or share a number.
func checkGrid(t *testing.T, panels []panel) {
	t.Helper()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range panels {
		if ids[p.ID] {
			t.Errorf("two panels have ID %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q is where %q is, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func TestAlerts(t *testing.T) {
	known := export(t)
	rule := render(t,
		Values{"metrics": Values{"rules": Values{"enabled": true, "imageAgeDays": 14, "disabled": []any{"KaminoThrottled"}}}}).Find("PrometheusRule", "kamino")
	if rule == nil {
		t.Fatal("there is no PrometheusRule")
	}
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	if err != nil || len(groups) != 1 {
		t.Fatalf("groups = %v, %v", groups, err)
	}
	text, err := yaml.Marshal(groups[0].(map[string]any)["rules"])
	if err != nil {
		t.Fatal(err)
	}
	var alerts []alert
	if err := yaml.UnmarshalStrict(text, &alerts); err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		if strings.Contains(a.Expr, "$") {
			t.Errorf("%s: something was not filled in: %s", a.Alert, a.Expr)
		}
		if err := known.check(a.Expr); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
		checkClusters(t, a.Expr, false)
		for _, annotation := range a.Annotations {
			legend := strings.NewReplacer("{{ $labels.", "{{", " }}", "}}", "| humanizeDuration", "").Replace(annotation)
			if err := checkLegend(a.Expr, legend); err != nil {
				t.Errorf("%s: %v", a.Alert, err)
			}
		}
		if want := "/docs/troubleshooting/alerts.md#" + strings.ToLower(a.Alert); !strings.HasSuffix(a.Annotations["runbook_url"], want) {
			t.Errorf("%s leads to %q, not to ...%s", a.Alert, a.Annotations["runbook_url"], want)
		}
		for name, labels := range known {
			if labels["pool"] && strings.Contains(a.Expr, name) && !strings.Contains(a.Annotations["summary"], "$labels.pool") {
				t.Errorf("the summary of %s names no pool", a.Alert)
			}
		}
		if strings.Contains(a.Annotations["description"], "docs/") {
			t.Errorf("%s names a path of the repository", a.Alert)
		}
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks severity, summary or description", a.Alert)
		}
		if a.Alert == "KaminoThrottled" {
			t.Error("an alert is there that is disabled")
		}
	}
	if old := "> 1209600"; !strings.Contains(string(text), old) {
		t.Errorf("no alert asks for %s seconds", old)
	}
}

// TestQueryCheck proves that check finds a missing metric or label.
func TestQueryCheck(t *testing.T) {
	known := export(t)
	for query, says := range map[string]string{
		`sum(kamino_passes_total`:                                   "parse error",
		`kamino_passes`:                                             "nothing exports",
		`sum(increase(kamino_pool_nodes[1h]))`:                      "is a gauge",
		`delta(kamino_passes_total[1h])`:                            "is a counter",
		`kamino_captures_total{node="p"}`:                           `no label "node"`,
		`sum by (node) (kamino_captures_total)`:                     `groups by "node"`,
		`rate(kamino_donor_out_of_service_seconds[5m])`:             "nothing exports",
		`kamino_pool_image_info * on (node) kamino_pool_candidates`: `groups by "node"`,
	} {
		if err := known.check(query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", query, err, says)
		}
	}
}
