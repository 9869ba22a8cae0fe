package cloudtest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var memberCases = []testCase{
	{"a node names its pool", poolOfNode},
	{"a node of no known pool belongs to none, with a sentence", poolOfStrangers},
	{"nodes come in their order, strangers between them and each as often as it is asked", poolsInOrder},
	{"no nodes have no pools, and that is no error", poolsWithoutNodes},
	{"telling pools changes nothing, the values included", poolsChangeNothing},
}

// node returns the values of an instance's Node.
func (s suite) node(t *testing.T, id cloud.InstanceID) cloud.NodeValues {
	t.Helper()
	if s.Node == nil {
		return cloud.NodeValues{ProviderID: id}
	}
	return s.Node(t, id)
}

// poolOf returns the pool of a node with a pool.
func (s suite) poolOf(t *testing.T, id cloud.InstanceID) cloud.PoolID {
	t.Helper()
	found := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{s.node(t, id)}))(t)
	if len(found) != 1 {
		t.Fatalf("%d memberships of one node", len(found))
	}
	if (found[0].Pool == "") == (found[0].Why == "") {
		t.Errorf("%s: a membership %+v has either a pool or a reason", id, found[0])
	}
	return found[0].Pool
}

func poolOfNode(t *testing.T, s suite) {
	for _, id := range s.Instances {
		if pool := s.poolOf(t, id); pool != s.Pool {
			t.Errorf("%s is of pool %q, want %q", id, pool, s.Pool)
		}
	}
	if !s.FoldsCase {
		return
	}
	// The lock per pool requires one spelling of the pool for all spellings of an instance.
	for _, id := range []cloud.InstanceID{upper(s.a), cloud.InstanceID(strings.ToLower(string(s.a)))} {
		node := s.node(t, s.a)
		node.ProviderID = id
		found := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{node}))(t)
		if len(found) != 1 || found[0].Pool != s.Pool {
			t.Errorf("%s is of %+v, want %q", id, found, s.Pool)
		}
	}
}

// strangers are provider IDs of no pool's node.
func (s suite) strangers() []cloud.InstanceID {
	return []cloud.InstanceID{"", "nonsense", "kind://docker/kind/worker", s.a + "/and/more", cloud.InstanceID(s.Pool)}
}

func poolOfStrangers(t *testing.T, s suite) {
	for _, id := range s.strangers() {
		found := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{{ProviderID: id}}))(t)
		switch {
		case len(found) != 1:
			t.Errorf("%q: %d memberships of one node", id, len(found))
		case found[0].Pool != "":
			t.Errorf("%q is of pool %q, want none", id, found[0].Pool)
		case len(strings.Fields(found[0].Why)) < 6:
			t.Errorf("%q: %q is not the sentence that a person needs", id, found[0].Why)
		}
	}
}

func poolsInOrder(t *testing.T, s suite) {
	var nodes []cloud.NodeValues
	var want []cloud.PoolID
	add := func(node cloud.NodeValues, pool cloud.PoolID) {
		nodes, want = append(nodes, node), append(want, pool)
	}
	for round := range 20 { // more than one request of any cloud
		for _, stranger := range s.strangers() {
			add(s.node(t, s.Instances[round%len(s.Instances)]), s.Pool)
			add(cloud.NodeValues{ProviderID: stranger}, "")
		}
	}
	found := got(s.p.PoolsOf(t.Context(), nodes))(t)
	if len(found) != len(nodes) {
		t.Fatalf("%d memberships of %d nodes", len(found), len(nodes))
	}
	for i := range nodes {
		if found[i].Pool != want[i] {
			t.Errorf("node %d (%q) is of pool %q, want %q", i, nodes[i].ProviderID, found[i].Pool, want[i])
		}
		if alone := got(s.p.PoolsOf(t.Context(), nodes[i:i+1]))(t); !cmp.Equal(alone[0], found[i]) {
			t.Errorf("node %d (%q) is %+v alone and %+v among others", i, nodes[i].ProviderID, alone[0], found[i])
		}
	}
}

func poolsWithoutNodes(t *testing.T, s suite) {
	for _, none := range [][]cloud.NodeValues{nil, {}} {
		if found := got(s.p.PoolsOf(t.Context(), none))(t); len(found) != 0 {
			t.Errorf("no node is of %+v", found)
		}
	}
}

func poolsChangeNothing(t *testing.T, s suite) {
	before := s.readAll(t)
	node := s.node(t, s.a)
	labels, annotations := maps.Clone(node.Labels), maps.Clone(node.Annotations)
	nodes := []cloud.NodeValues{node, {ProviderID: "nonsense"}}
	same := slices.Clone(nodes)
	got(s.p.PoolsOf(t.Context(), nodes))(t)
	if diff := cmp.Diff(same, nodes); diff != "" || !maps.Equal(labels, node.Labels) || !maps.Equal(annotations, node.Annotations) {
		t.Errorf("the values were changed: %s", diff)
	}
	wantSame(t, "telling pools changed the world (-before +after)", before, s.readAll(t))
}

var poolFinderCases = []testCase{
	{"the pool list shows each pool once, with the ID from the instances", poolFinderShowsPools},
	{"listing pools changes nothing", poolFinderChangesNothing},
	{"a pool's ID is read in any case, and no other text is an ID", poolFinderReadsIDs},
}

func poolFinderShowsPools(t *testing.T, s suite) {
	all := got(s.p.PoolsInScope(t.Context(), s.Pool, s.Pool))(t)
	if n := len(slices.DeleteFunc(slices.Clone(all), func(id cloud.PoolID) bool { return id != s.Pool })); n != 1 {
		t.Errorf("pool %s is shown %d times among %v", s.Pool, n, all)
	}
}

func poolFinderChangesNothing(t *testing.T, s suite) {
	before := s.readAll(t)
	got(s.p.PoolsInScope(t.Context(), s.Pool))(t)
	wantSame(t, "listing changed the world (-before +after)", before, s.readAll(t))
}

func poolFinderReadsIDs(t *testing.T, s suite) {
	texts := []string{string(s.Pool)}
	if s.FoldsCase {
		texts = append(texts, strings.ToUpper(string(s.Pool)))
	}
	for _, text := range texts {
		if id, ok := s.p.ReadPool(text); !ok || id != s.Pool {
			t.Errorf("%s is read as %q (%t), not as %s", text, id, ok, s.Pool)
		}
	}
	for _, text := range []string{"", s.p.PoolName(s.Pool), string(s.a), "more/" + string(s.Pool)} {
		if id, ok := s.p.ReadPool(text); ok {
			t.Errorf("%q is read as pool %s", text, id)
		}
	}
	// A longer text is no ID, or the ID of another pool if names may be longer.
	longer := s.Pool + "/more"
	if id, ok := s.p.ReadPool(string(longer)); ok && id != longer {
		t.Errorf("%q is read as pool %s", longer, id)
	}
}
