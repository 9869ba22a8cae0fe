package metrics

import (
	"context"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/notify/delivery"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// described is a metric on the page or in the code.
type described struct{ Kind, Labels string }

// exported are the metrics of the code: every description, with the kind from a gathering after each metric has a sample.
func exported(t *testing.T) map[string]described {
	t.Helper()
	m := New(nil, registry.All()...)
	m.Request("azure", "read", 429, true)
	m.calls.WithLabelValues("Pool", resultOK)
	m.callTimes.WithLabelValues("Pool")
	m.observe(prototype("p", life()[1]), prototype("p", life()[1]), "pool1")
	m.PoliciesStalled(map[policy.Stall]bool{{Policy: "all", Pool: "pool1", Reason: "Other"}: true})
	m.passErrors.WithLabelValues(fromCloud, string(cloud.Denied))
	m.pools.meet("id", "pool1", prototype("p", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded}), true)
	m.InstancesListed("id", "pool1", map[string]int{"2026.03.14": 1}, 7, 10)
	m.Decided("id", "pool1", 1, map[string]int{"NotReady": 1})
	m.CapturesRefused(map[[2]string]int{{"pool1", "NotReady"}: 1})
	m.Patches([]policy.Patches{{Pool: policy.PoolRef{Name: "pool1"}, Known: true, Packages: 1, Unchecked: patch.Reasons()[0]}})
	m.Joins([]PoolJoins{{Pool: "pool1", Version: "2026.03.14", Of: joinhealth.Tally{Joined: 1}}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]described{}
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		all[family.GetName()] = described{strings.ToLower(family.GetType().String()), strings.Join(labels, " ")}
	}

	descriptions := make(chan *prometheus.Desc, 100)
	m.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		if _, found := all[name]; !found {
			t.Errorf("this test makes no sample of %s", name)
		}
	}
	return all
}

// metricRow has the name, the type, the labels, the meaning and a query of a metric.
var metricRow = regexp.MustCompile("(?m)^\\| `(kamino_\\w+)` \\| (\\w+) \\| ([^|]+) \\| (.+?) \\| `([^`]+)` \\|$")

// TestPage compares the page with the code by name: exported metrics are described with type and labels, and described
// metrics are exported.
func TestPage(t *testing.T) {
	onPage := map[string]described{}
	for _, match := range metricRow.FindAllStringSubmatch(page(t, "reference/metrics.md"), -1) {
		var labels []string
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(match[3], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		onPage[match[1]] = described{match[2], strings.Join(labels, " ")}
	}
	if rows := strings.Count(page(t, "reference/metrics.md"), "\n| `kamino_"); rows != len(onPage) {
		t.Errorf("%d rows and %d whole rows: each has a type, labels, words and a query", rows, len(onPage))
	}
	if diff := cmp.Diff(exported(t), onPage); diff != "" {
		t.Errorf("docs/reference/metrics.md (-code +page):\n%s", diff)
	}
}

// TestQueries checks that each name in a query is exported.
func TestQueries(t *testing.T) {
	known := map[string]bool{}
	for name, d := range exported(t) {
		known[name] = d.Kind != "histogram"
		if d.Kind == "histogram" {
			known[name+"_bucket"], known[name+"_sum"], known[name+"_count"] = true, true, true
		}
	}
	for _, match := range metricRow.FindAllStringSubmatch(page(t, "reference/metrics.md"), -1) {
		used := regexp.MustCompile(`kamino_\w+`).FindAllString(match[5], -1)
		for _, name := range used {
			if !known[name] {
				t.Errorf("the query of %s asks for %s, which is not exported", match[1], name)
			}
		}
		if !strings.Contains(match[5], match[1]) {
			t.Errorf("the query of %s does not use it", match[1])
		}
	}
}

// TestReasonsAreThoseOfThePages: another test checks that docs/reasons.yaml lists every reason of the code; here the closed
// sets must be equal. The clouds have further refusals.
func TestReasonsAreThoseOfThePages(t *testing.T) {
	var sections []struct {
		Heading string
		Reasons []struct{ Names []string }
	}
	if err := yaml.Unmarshal([]byte(page(t, "reasons.yaml")), &sections); err != nil {
		t.Fatal(err)
	}
	_, clouds, found := strings.Cut(page(t, "reference/refusals.md"), "\n## ")
	clouds, _, foundLast := strings.Cut(clouds, "\n## Cluster API\n")
	if !found || !foundLast {
		t.Fatal("docs/reference/refusals.md has no section Cluster API after the other clouds")
	}
	for heading, want := range map[string]set[string]{
		"when-a-capture-does-not-begin": RefusalsOf(allClouds()...).set,
		"when-a-capture-fails":          failureReasons,
	} {
		found := set[string]{}
		for _, s := range sections {
			for _, r := range s.Reasons {
				for _, name := range r.Names {
					if s.Heading == heading {
						found[name] = true
					}
				}
			}
		}
		if strings.HasSuffix(heading, "begin") {
			for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(clouds, -1) {
				found[row[1]] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(want))); diff != "" {
			t.Errorf("%s (-docs/reasons.yaml, refusals.md +closed set):\n%s", heading, diff)
		}
	}
	for reason := range RefusalsOf(allClouds()...).set {
		if failureReasons[reason] {
			t.Errorf("%s is in both sets: a refusal looks like a failure", reason)
		}
	}
}

// TestClosedSetsAreOnThePage checks every value of a label.
func TestClosedSetsAreOnThePage(t *testing.T) {
	values := []string{
		Succeeded, Failed, Refused, Cancelled, OtherReason, resultOK, "2xx", "3xx", "4xx", "5xx", "none",
		delivery.Sent, delivery.Lost, delivery.Dropped,
		"azure", "read", "write", "delete", fromGeneric, fromPrototype, fromCloud, fromKubernetes, fromElsewhere,
	}
	for phase := range inFlightPhases {
		values = append(values, string(phase))
	}
	for _, kind := range []cloud.Kind{
		cloud.NotFound, cloud.Conflict, cloud.Unauthenticated, cloud.Denied, cloud.Invalid, cloud.QuotaExceeded,
		cloud.Throttled, cloud.Refused, cloud.Unsupported, cloud.Unavailable,
	} {
		values = append(values, string(kind))
	}
	calls := reflect.TypeFor[memory.Calls]()
	for i := range calls.NumMethod() {
		if in := calls.Method(i).Type; in.NumIn() > 0 && in.In(0) == reflect.TypeFor[context.Context]() { // others do no I/O
			values = append(values, calls.Method(i).Name)
		}
	}
	text := page(t, "reference/metrics.md")
	for _, value := range values {
		if !strings.Contains(text, "`"+value+"`") {
			t.Errorf("docs/reference/metrics.md does not mention %s", value)
		}
	}
}

// TestPhasesAreThoseOfTheKind: a new phase of the kind is in flight, or an end.
func TestPhasesAreThoseOfTheKind(t *testing.T) {
	crd, err := os.ReadFile("../../api/crds/kamino.dev_prototypes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	enum := regexp.MustCompile(`(?s)enum:\n((?:\s+- [A-Z]\w+\n)+)\s+type: string`).FindAllSubmatch(crd, -1)
	found := 0
	for _, match := range enum {
		if !strings.Contains(string(match[1]), string(v1alpha1.PhaseCleaningUp)) {
			continue
		}
		for _, value := range strings.Fields(strings.ReplaceAll(string(match[1]), "- ", "")) {
			found++
			phase := v1alpha1.Phase(value)
			past := slices.Contains([]string{"Growing", "Removing", "ScalingOut"}, value) // in the history of earlier versions
			if !past && !inFlightPhases[phase] && !(&v1alpha1.PrototypeStatus{Phase: phase}).Terminal() {
				t.Errorf("no metric counts a capture in phase %s", phase)
			}
		}
	}
	if found == 0 {
		t.Error("the kind's phases were not found")
	}
}

// The conventions of Prometheus that a name can be held to.
func TestNamesFollowTheConventions(t *testing.T) {
	for name, d := range exported(t) {
		total := strings.HasSuffix(name, "_total")
		switch {
		case !strings.HasPrefix(name, namespace+"_"):
			t.Errorf("%s does not begin with %s_", name, namespace)
		case total != (d.Kind == "counter"):
			t.Errorf("%s is a %s: counters, and nothing else, end in _total", name, d.Kind)
		case d.Kind == "histogram" && !strings.HasSuffix(name, "_seconds"):
			t.Errorf("%s does not name its unit", name)
		}
		for _, label := range strings.Fields(d.Labels) {
			if label == "node" || label == "donor" || label == "prototype" || label == "instance" {
				t.Errorf("%s has label %s, whose values have no end", name, label)
			}
		}
	}
}

// allClouds are all clouds, with the reasons of Karpenter's nodes.
func allClouds() (all []cloud.Description) {
	for _, d := range registry.All() {
		all = append(all, karpenter.WithReasons(d))
	}
	return all
}
