// Package history tests, end to end, the verbs on a pool's history: after two captures the pool is rolled
// back, and the next node is built from the version before.
package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, world.Options{TimeScale: 200}, &sandbox))
}

// pool is the sandbox's name of the pool; set is the name in the cloud and in Kamino.
const pool = "past"

var set string

// historyOutput is the part of `kamino history -o json` that the test reads.
type historyOutput struct {
	Recipe   struct{ Version string }
	Prior    string
	Versions []version
}

type version struct {
	Version, Use, State, Donor, Lineage, Quarantined, RolledBackTo string
	Nodes                                                          []string
	Keep                                                           bool
}

func history(t *testing.T) historyOutput {
	t.Helper()
	var h historyOutput
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "history", set, "-o", "json")), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// refused runs a command that must change nothing.
func refused(t *testing.T, sentence string, args ...string) {
	t.Helper()
	result := sandbox.Run(t, nil, "kamino", args...)
	if result.Code != 3 || !strings.Contains(result.Stderr, sentence) {
		t.Errorf("kamino %s: exit code %d, want 3 and %q:\n%s%s", strings.Join(args, " "), result.Code, sentence, result.Stdout, result.Stderr)
	}
}

// grow adds a node to the pool, and returns its name when the node is Ready.
func grow(t *testing.T, to string) string {
	t.Helper()
	known := map[string]bool{}
	for _, m := range sandbox.MachinesOf(t, pool) {
		known[m.Node] = true
	}
	sandbox.Must(t, "kamino-sandbox", "scale", pool, to, "--wait")
	for _, m := range sandbox.MachinesOf(t, pool) {
		if !known[m.Node] {
			return m.Node
		}
	}
	t.Fatalf("the pool has no new node at size %s", to)
	return ""
}

func TestHistory(t *testing.T) {
	sandbox.Install(t)
	nodes := sandbox.Pool(t, "name="+pool+",nodes=2")
	set = path.Base(nodes[0].Pool)
	refused(t, "RecipeNotOurs", "rollback", set)

	// The sandbox uses real time. The name of the first capture is the previous day, as after a decision shortly
	// before midnight.
	now := time.Now().UTC()
	first, second := now.AddDate(0, 0, -1).Format("2006.01.02"), now.Format("2006.01.02")
	sandbox.Must(t, "kamino", unverified.Capture(nodes[0].Node, "--version", first)...)
	refused(t, "NoPrior", "rollback", set)
	child := grow(t, "3")
	sandbox.Must(t, "kamino-sandbox", "patch", child)
	sandbox.Must(t, "kamino", unverified.Capture(child, "--version", second)...)
	grandchild := grow(t, "4")

	want := []version{
		{Version: second, Use: "current", State: "Complete", Donor: child, Lineage: first, Nodes: []string{grandchild}, Keep: true},
		{Version: first, Use: "prior", State: "Complete", Donor: nodes[0].Node, Nodes: []string{child}, Keep: true},
	}
	if diff := cmp.Diff(want, history(t).Versions); diff != "" {
		t.Fatalf("after two captures (-want +got):\n%s", diff)
	}
	contentsDiffer(t, first, second)
	refused(t, "VersionNeeded", "delete-version", set, second)
	refused(t, "VersionNeeded", "delete-version", set, first)
	refused(t, "VersionNeeded", "quarantine", set, second, "--reason", "bad")

	messages := sandbox.Must(t, "kamino", "rollback", set, "--reason", "it loses its network")
	if !strings.Contains(messages, "1 node runs version "+second+" and does not change: "+grandchild) {
		t.Errorf("the rollback does not name the node that runs the bad version:\n%s", messages)
	}
	want[0].Use, want[0].Quarantined, want[0].RolledBackTo = "quarantined", "it loses its network", first
	want[1].Use = "current"
	after := history(t)
	if diff := cmp.Diff(want, after.Versions); diff != "" || after.Recipe.Version != first || after.Prior != "" {
		t.Fatalf("after the rollback the recipe names %s (-want +got):\n%s", after.Recipe.Version, diff)
	}
	if messages := sandbox.Must(t, "kamino", "rollback", set); !strings.Contains(messages, "is already rolled back") {
		t.Errorf("the same once more says:\n%s", messages)
	}

	replaceNodes(t, grandchild, first, second)
	want[1].Nodes = append(want[1].Nodes, grandchild)

	// The next node has the previous version, and only now the bad version can be deleted.
	want[1].Nodes = append(want[1].Nodes, grow(t, "5"))
	slices.Sort(want[1].Nodes)
	got := history(t).Versions
	if diff := cmp.Diff(want[1], got[1]); diff != "" {
		t.Errorf("the version after the rollback (-want +got):\n%s", diff)
	}
	refused(t, "VersionNeeded", "delete-version", set, first)
	sandbox.Must(t, "kamino", "delete-version", set, second)
	sandboxtest.Eventually(t, "version "+second+" is gone", func() (bool, string) {
		got := history(t).Versions
		return len(got) == 1 && got[0].Version == first, fmt.Sprintf("%+v", got)
	})
	refused(t, "VersionNotFound", "unquarantine", set, second)
}

// contentsDiffer compares two versions with a patch between, and reads the SBOM and the report of the same facts.
func contentsDiffer(t *testing.T, first, second string) {
	t.Helper()
	var diff struct {
		From, To struct{ Kernel, ContentsDigest string }
		Packages []struct{ Change, Name, From, To string }
		Notes    []string
	}
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "diff", set, first, second, "-o", "json")), &diff); err != nil {
		t.Fatal(err)
	}
	changed := map[string]bool{}
	for _, p := range diff.Packages {
		changed[p.Name] = p.Change == "changed" && p.From != p.To
	}
	if !changed["curl"] || !changed["libssl3"] || diff.From.Kernel == diff.To.Kernel || diff.From.ContentsDigest == diff.To.ContentsDigest {
		t.Errorf("the versions differ by %+v", diff)
	}
	var bom struct{ Components []struct{ Name, PURL string } }
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "sbom", set, second)), &bom); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(bom.Components, func(c struct{ Name, PURL string }) bool {
		return c.Name == "curl" && strings.HasPrefix(c.PURL, "pkg:deb/ubuntu/curl@")
	}) {
		t.Errorf("the SBOM has no curl: %+v", bom.Components)
	}
	events := sandbox.Must(t, "kubectl", "get", "events", "-o", `jsonpath={range .items[*]}{.reason}: {.message}{.note}{"\n"}{end}`)
	if !strings.Contains(events, "compared with version "+first+": kernel ") {
		t.Errorf("no event compares the versions:\n%s", events)
	}
	var reports []struct {
		Builds []struct {
			Version string
			Nodes   int
		}
		Figures []struct {
			Name  string
			Value *float64
		}
	}
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "report", set, "-o", "json")), &reports); err != nil || len(reports) != 1 {
		t.Fatalf("%d reports, %v", len(reports), err)
	}
	nodes, captures := 0, 0.0
	for _, b := range reports[0].Builds {
		nodes += b.Nodes
	}
	for _, f := range reports[0].Figures {
		if f.Name == "captures-succeeded" && f.Value != nil {
			captures = *f.Value
		}
	}
	if machines := len(sandbox.MachinesOf(t, pool)); nodes != machines || captures != 2 {
		t.Errorf("the report has %d nodes and %g captures, and the sandbox %d machines", nodes, captures, machines)
	}
}

// replaceNodes rebuilds the node of the bad version. The Node must stay the same with a new boot, serve, and run
// the good version.
func replaceNodes(t *testing.T, node, good, bad string) {
	t.Helper()
	boot := func() string {
		return sandbox.Must(t, "kubectl", "get", "node", node, "-o", "jsonpath={.metadata.uid} {.status.nodeInfo.bootID}")
	}
	before := strings.Fields(boot())
	messages := sandbox.Must(t, "kamino", "rollback", set, "--replace-nodes")
	for _, sentence := range []string{
		"1 node runs version " + bad + " and is rebuilt now",
		"node " + node + " is cordoned", "node " + node + " runs version " + good + " and is back in service",
		"1 node was rebuilt; no node runs version " + bad + " any longer.",
	} {
		if !strings.Contains(messages, sentence) {
			t.Errorf("the command does not say %q:\n%s", sentence, messages)
		}
	}
	after := strings.Fields(boot())
	if len(before) != 2 || len(after) != 2 || before[0] != after[0] || before[1] == after[1] {
		t.Errorf("Node and boot were %v and are %v", before, after)
	}
	state := sandbox.Must(t, "kubectl", "get", "node", node, "-o",
		`jsonpath={.spec.unschedulable}|{.metadata.annotations.kamino\.dev/rebuild}|{.metadata.labels.kamino\.dev/version}`)
	if strings.TrimSpace(state) != "||"+good {
		t.Errorf("the node is %q, want it uncordoned, free and labelled with %s", state, good)
	}
	events := sandbox.Must(t, "kubectl", "get", "events", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.reason}{"\n"}{end}`)
	for _, reason := range []string{"Rebuilding", "Rebuilt"} {
		if !strings.Contains(events, node+" "+reason) {
			t.Errorf("no event %s of node %s:\n%s", reason, node, events)
		}
	}
	if messages := sandbox.Must(t, "kamino", "rollback", set, "--replace-nodes"); !strings.Contains(messages, "No node runs version "+bad) {
		t.Errorf("once more says:\n%s", messages)
	}
}
