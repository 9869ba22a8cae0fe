package expression

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/selection"
)

var _ selection.Evaluator = (*Expressions)(nil)

var now = time.Date(2026, 1, 12, 12, 0, 0, 0, time.UTC)

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour)),
			Labels:      map[string]string{"topology.kubernetes.io/zone": "1", "node.kubernetes.io/instance-type": "Standard_D4s_v5"},
			Annotations: map[string]string{"example.com/weight": "2.5"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:    corev1.NodeSystemInfo{KernelVersion: "6.8.0-1021-azure", KubeletVersion: "v1.37.1"},
		},
	}
}

func TestRefuse(t *testing.T) {
	for text, want := range map[string]bool{
		`true`:                       true,
		`false`:                      false,
		`node.metadata.name == "n1"`: true,
		`node.metadata.labels["topology.kubernetes.io/zone"] != "1"`:                   false,
		`has(node.metadata.labels.spot)`:                                               false,
		`node.metadata.labels[?"spot"].orValue("no") == "yes"`:                         false,
		`has(node.spec.taints) && node.spec.taints.exists(t, t.key == "spot")`:         true,
		`now - timestamp(node.metadata.creationTimestamp) > duration("24h")`:           true,
		`now.getDayOfWeek() == 1`:                                                      true,
		`node.status.nodeInfo.kernelVersion.startsWith("5.")`:                          false,
		`node.status.nodeInfo.kubeletVersion.matches("^v1[.]3[0-9]")`:                  true,
		`int(node.status.allocatable.cpu) < 8`:                                         true,
		`node.status.conditions.exists(c, c.type == "Ready" && c.status != "True")`:    false,
		`node.metadata.name in ["n0", "n1"]`:                                           true,
		`node.metadata.name.split("n")[1] == "1" && sets.contains([1, 2], [1])`:        true,
		`dyn(node.metadata.name == "n1")`:                                              true,
		`node.metadata.labels.all(k, !k.startsWith("kubernetes.azure.com/scalesets"))`: true,
	} {
		e, err := Compile(text, "")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if refused, score, err := e.Evaluate(node(), now); err != nil || refused != want || score != 0 {
			t.Errorf("%s: %v, %v, %v; want %v", text, refused, score, err, want)
		}
	}
}

// TestZone: an expression reads the clock in UTC, in any time zone of the process.
func TestZone(t *testing.T) {
	e, err := Compile(`now.getHours() == 12 && 1 < 2.5`, "")
	if err != nil {
		t.Fatal(err)
	}
	if refused, _, err := e.Evaluate(node(), now.In(time.FixedZone("east", 7200))); err != nil || !refused {
		t.Errorf("%v, %v", refused, err)
	}
}

func TestScore(t *testing.T) {
	for text, want := range map[string]float64{
		`1`:    1,
		`-2.5`: -2.5,
		`3u`:   3,
		`node.metadata.labels["topology.kubernetes.io/zone"] == "1" ? 10 : 0`: 10,
		`double(node.metadata.annotations["example.com/weight"])`:             2.5,
		`math.greatest(1, 2, 3)`: 3,
		`(now - timestamp(node.metadata.creationTimestamp)).getHours()`: 48,
		`dyn(7)`: 7,
	} {
		e, err := Compile("", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if refused, score, err := e.Evaluate(node(), now); err != nil || refused || score != want {
			t.Errorf("%s: %v, %v, %v; want %v", text, refused, score, err, want)
		}
	}
}

// TestCompileErrors tests the errors that a condition of the policy shows.
func TestCompileErrors(t *testing.T) {
	for _, c := range []struct{ refuse, score, want string }{
		{`node.metadata.name ==`, ``, "selection.refuse is wrong at line 1, column 22: Syntax error"},
		{"true &&\n  nod.metadata", ``, "selection.refuse is wrong at line 2, column 3: undeclared reference to 'nod'"},
		{`"yes"`, ``, "selection.refuse gives string, and must give true or false"},
		{`1`, ``, "selection.refuse gives int, and must give true or false"},
		{``, `true`, "selection.score gives bool, and must give a number"},
		{``, `now`, "selection.score gives google.protobuf.Timestamp, and must give a number"},
		{``, `node.?metadata`, "selection.score gives optional_type(dyn), and must give a number"},
		{`true`, `(`, "selection.score is wrong at line 1"},
		{`now > 5`, ``, "selection.refuse is wrong at line 1, column 5: found no matching overload"},
		{`node.metadata.name.matches("(")`, ``, "selection.refuse "},
		{`timestamp("yesterday") < now`, ``, "selection.refuse "},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), ``, "selection.refuse "},
	} {
		e, err := Compile(c.refuse, c.score)
		if err == nil {
			// An error that CEL finds only at run time must be an error about the node.
			if _, _, err = e.Evaluate(node(), now); err == nil {
				t.Errorf("%s%s was taken", c.refuse, c.score)
			}
			continue
		}
		if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s%s: %q, want %q", c.refuse, c.score, err, c.want)
		}
	}
}

// TestFailing: if an expression fails on a node, the error names the failure for this node.
func TestFailing(t *testing.T) {
	nested := "[1,2,3,4,5,6,7,8,9,10]"
	for _, c := range []struct{ refuse, score, says string }{
		{`node.metadata.labels.spot == "yes"`, ``, "no such key: spot"},
		{`node.spec.unknown.field`, ``, "no such key: unknown"},
		{`int(node.metadata.name) > 1`, ``, "type conversion error"},
		{`node.metadata.name`, ``, "gives string, and must give true or false"},
		{`node.spec.taints[1].key == "x"`, ``, "index out of bounds"},
		{`duration("1h") > duration("x" + node.metadata.name)`, ``, ""},
		{``, `node.metadata.name`, "gives string, and must give a number"},
		{``, `1 / (node.spec.taints.size() - 1)`, "division by zero"},
		{``, `1.0 / 0.0`, "no number to sort by"},
		{``, `0.0 / 0.0`, "no number to sort by"},
		{`false`, `node.metadata.labels.weight`, "selection.score: no such key: weight"},
		{strings.Repeat(nested+".all(x, ", 6) + "true" + strings.Repeat(")", 6), ``, "cost limit exceeded"},
	} {
		e, err := Compile(c.refuse, c.score)
		if err != nil {
			t.Errorf("%s%s: %v", c.refuse, c.score, err)
			continue
		}
		refused, score, err := e.Evaluate(node(), now)
		if err == nil || refused || score != 0 {
			t.Errorf("%s%s: %v, %v, %v", c.refuse, c.score, refused, score, err)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "selection.") {
			t.Errorf("%s%s: %q, want %q", c.refuse, c.score, err, c.says)
		}
	}
}

func TestNone(t *testing.T) {
	e, err := Compile("", "")
	if e != nil || err != nil {
		t.Fatalf("%v, %v", e, err)
	}
	if refused, score, err := e.Evaluate(nil, now); refused || score != 0 || err != nil {
		t.Errorf("no expressions: %v, %v, %v", refused, score, err)
	}
}

// TestNodeStays: Evaluate does not change a shared node, and is safe for concurrent use.
func TestNodeStays(t *testing.T) {
	e, err := Compile(`node.metadata.labels.exists(k, k == "x")`, `node.metadata.name.size()`)
	if err != nil {
		t.Fatal(err)
	}
	n := node()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, score, err := e.Evaluate(n, now); err != nil || score != 2 {
				t.Errorf("%v, %v", score, err)
			}
		})
	}
	group.Wait()
	if n.Labels["x"] != "" || n.Name != "n1" {
		t.Error("the node was changed")
	}
}

// TestWithSelection tests packages expression and selection together, as a policy uses the packages.
func TestWithSelection(t *testing.T) {
	e, err := Compile(`node.metadata.labels.zone == "3"`, `node.metadata.labels.zone == "2" ? 1 : 0`)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*corev1.Node
	for name, zone := range map[string]string{"a": "1", "b": "2", "c": "3", "d": ""} {
		n := node()
		n.Name = name
		if zone != "" {
			n.Labels["zone"] = zone
		}
		n.Annotations["patched"] = now.Add(-3 * time.Hour).Format(time.RFC3339)
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-2 * time.Hour))
		nodes = append(nodes, n)
	}
	c := selection.Choose(selection.PoolState{Name: "p", Nodes: nodes}, selection.Rules{MostRecentPatch: "patched", Expressions: e}, now)
	if c.Donor == nil || c.Donor.Name != "b" || len(c.Candidates) != 2 {
		t.Errorf("donor %v of %v", c.Donor, c.Candidates)
	}
	for i, want := range map[int]string{2: selection.RefusedByExpression, 3: v1alpha1.PolicyExpressionInvalid} {
		if r := c.Verdicts[i].Refusals; len(r) != 1 || r[0].Reason != want || !strings.Contains(r[0].Message, c.Verdicts[i].Node) {
			t.Errorf("%s: %v", c.Verdicts[i].Node, r)
		}
	}
}

// TestNoPanic tests arbitrary texts and nodes.
func TestNoPanic(t *testing.T) {
	words := []string{"node", ".metadata", ".labels", "[\"x\"]", ".spec", " == ", "1", "\"a\"", "has(", ")", " && ", "now", ".size()", "duration(",
		"[", "]", " ? ", " : ", "!", "-", ".exists(x, ", "x", "timestamp(", ".matches(", "9223372036854775807", " + ", " / ", "0"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 12).Draw(t, "words"), "")
		e, err := Compile(text, text)
		if err != nil {
			return
		}
		if _, score, err := e.Evaluate(node(), now); err == nil && (math.IsNaN(score) || math.IsInf(score, 0)) {
			t.Fatalf("%s scores %v", text, score)
		}
	})
}

// BenchmarkEvaluate measures one node. A large cluster has 15,000 nodes.
func BenchmarkEvaluate(b *testing.B) {
	e, err := Compile(`has(node.spec.taints) && node.spec.taints.exists(t, t.key == "x")`, `node.metadata.labels["topology.kubernetes.io/zone"] == "1" ? 1 : 0`)
	if err != nil {
		b.Fatal(err)
	}
	n := node()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := e.Evaluate(n, now); err != nil {
			b.Fatal(err)
		}
	}
}
