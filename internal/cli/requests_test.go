package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// verbWorld is a cluster with its cloud, and counts what verbs read of both.
type verbWorld struct {
	handler http.Handler
	cloud   *memory.Faulty
	// throttles, if set, reports whether the cloud throttles the next call.
	throttles func() bool
	built     time.Time
	// columns of the terminal; 0 without a terminal.
	columns int

	mu sync.Mutex
	// api and calls are requests to the API server and calls of the cloud, by resource and name. objects are those in answers.
	api, calls map[string]int
	objects    int
}

// size is the size of a cluster. Each pool has a policy, without evidence of a profile.
type size struct{ pools, nodes, prototypes int }

// newVerbWorld is a cluster whose pools with odd numbers have a version in the recipe, and a young node.
func newVerbWorld(t *testing.T, of size) *verbWorld {
	t.Helper()
	longAgo := time.Now().Add(-48 * time.Hour)
	world, objects := memory.New(memory.Config{NoCopy: true}), []string{}
	ids := make([]cloud.PoolID, of.pools)
	for i := range ids {
		name := fmt.Sprintf("pool%03d", i)
		ids[i] = world.AddPool(memory.PoolSpec{Name: name, MaxSize: 10})
		if i%2 == 1 {
			world.AddVersion(ids[i], memory.VersionSpec{Version: "2026.03.01"})
			world.ChangeRecipe(ids[i], string(ids[i])+"/versions/2026.03.01")
		}
		objects = append(objects,
			fmt.Sprintf("apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: %s}\nspec: {dryRun: true, pools: {names: [%s]}}\n",
				name, name))
	}
	for n := range of.nodes {
		pool, created := n%of.pools, longAgo
		if n/of.pools == 2 {
			created = time.Now().Add(-time.Minute)
		}
		instance := world.AddInstance(ids[pool], fmt.Sprint(n))
		objects = append(objects,
			fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: pool%03d-%d, creationTimestamp: %q, labels: {kubernetes.io/os: linux}, "+
				"annotations: {%s: %q}}\n"+
				"spec: {providerID: %q}\nstatus: {conditions: [{type: Ready, status: \"True\", lastTransitionTime: %q}]}\n",
				pool, n/of.pools, created.Format(time.RFC3339), v1alpha1.KuredRebootNeededAnnotation, longAgo.Format(time.RFC3339), instance,
				created.Add(time.Hour).Format(time.RFC3339)))
	}
	for i := range of.prototypes {
		objects = append(objects, fmt.Sprintf("apiVersion: kamino.dev/v1alpha1\nkind: Prototype\nmetadata: {name: p%d, uid: u%d, creationTimestamp: %q}\n"+
			"spec: {pool: pool%03d, poolID: %q, version: 2025.%d.1, donor: {nodeName: gone, providerID: gone}}\nstatus: {phase: Succeeded}\n",
			i, i, longAgo.Format(time.RFC3339), i%of.pools, ids[i%of.pools], i+1))
	}
	api, err := newAPIServer([]byte(strings.Join(objects, "---\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	w := &verbWorld{handler: api, built: time.Now(), api: map[string]int{}, calls: map[string]int{}}
	w.cloud = memory.NewFaulty(world, func(call memory.Call) memory.Outcome {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls[call.Op]++
		if w.throttles != nil && w.throttles() {
			return memory.Throttle(time.Second)
		}
		return memory.Pass()
	})
	return w
}

// RoundTrip implements http.RoundTripper without a network.
func (w *verbWorld) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	w.count(r, answer.Body.Bytes())
	return answer.Result(), nil
}

func (w *verbWorld) count(r *http.Request, answer []byte) {
	var list struct{ Items []json.RawMessage }
	_ = json.Unmarshal(answer, &list) // an object has no items
	name := path.Base(r.URL.Path)
	if strings.HasSuffix(path.Dir(r.URL.Path), "/kube-node-lease/leases") {
		name = "kubelet leases"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects += max(len(list.Items), 1)
	w.api[name]++
}

// run runs a verb from empty counters.
func (w *verbWorld) run(t *testing.T, verb string) {
	t.Helper()
	if code := w.try(t, verb, t.Output()); code != ExitDone {
		t.Fatalf("%s: exit code %d", verb, code)
	}
}

// try runs a verb, and returns its exit code.
func (w *verbWorld) try(t *testing.T, verb string, said io.Writer) int {
	t.Helper()
	clear(w.api)
	clear(w.calls)
	w.objects = 0
	f := NewFactory()
	f.Out, f.Err = t.Output(), said
	f.Window, f.Getenv = func() (int, int) { return w.columns, 24 }, func(string) string { return "" }
	f.Connect = func(*Options) (*cluster.Connection, error) {
		return cluster.New(&rest.Config{Host: "https://api", Transport: w}, "test")
	}
	f.Cloud = func(context.Context, *Options) (cloud.Provider, error) { return w.cloud.Provider, nil }
	return f.Run(t.Context(), append(strings.Fields(verb), "--cloud", "azure"))
}

// requests are those to the API server and the calls of the cloud.
func (w *verbWorld) requests() (n int) {
	for _, of := range []map[string]int{w.api, w.calls} {
		for _, count := range of {
			n += count
		}
	}
	return n
}

// TestReadsOfAVerb: a verb over all pools reads each list once.
func TestReadsOfAVerb(t *testing.T) {
	const pools = 60
	w := newVerbWorld(t, size{pools: pools, nodes: 3 * pools})
	for verb, want := range map[string]map[string]int{
		"status": {"nodes": 1, "prototypes": 1, "nodeorders": 1, "pods": 1, "leases": 2, "kube-system": 1, "prototypepolicies": 1, "kamino-controller": 1},
		// Half of the pools have candidates without pods: the plan looks at the first candidate of each pool. The other
		// half has a version and a young node per pool: the plan reads Leases of kubelets one by one, then lists the
		// Leases.
		"plan": {"nodes": 1, "prototypes": 1, "prototypepolicies": 2, "daemonsets": 1, "kubeadm-config": 1, "pods": pools / 2, "kubelet leases": 23,
			"leases": 1, "kube-system": 1, "kamino-controller": 1},
	} {
		w.run(t, verb)
		if !maps.Equal(w.api, want) {
			t.Errorf("%s: %v, want %v", verb, w.api, want)
		}
	}
}

// verbsOfAll read all pools.
var verbsOfAll = []string{"status", "plan", "plan -o json", "doctor", "report"}

// TestGrowthOfVerbs: what a verb reads grows as the cluster, and not as the product of two of its sizes. The exponent is that of the
// growth of requests and of objects in answers.
func TestGrowthOfVerbs(t *testing.T) {
	const limit = 1.1
	small := size{pools: 10, nodes: 100, prototypes: 10}
	for name, large := range map[string]size{
		"nodes":      {pools: small.pools, nodes: 3000, prototypes: small.prototypes},
		"pools":      {pools: 300, nodes: 3000, prototypes: small.prototypes},
		"Prototypes": {pools: small.pools, nodes: small.nodes, prototypes: 1000},
		"all":        {pools: 100, nodes: 1000, prototypes: 100},
	} {
		before, after := newVerbWorld(t, small), newVerbWorld(t, large)
		times := slices.Max([]float64{float64(large.pools) / float64(small.pools), float64(large.nodes) / float64(small.nodes),
			float64(large.prototypes) / float64(small.prototypes)})
		for _, verb := range verbsOfAll {
			before.run(t, verb)
			after.run(t, verb)
			for what, count := range map[string][2]int{"requests": {before.requests(), after.requests()}, "objects": {before.objects, after.objects}} {
				exponent := math.Log(float64(count[1])/float64(count[0])) / math.Log(times)
				t.Logf("%s, more %s: %s from %d to %d, exponent %.2f", verb, name, what, count[0], count[1], exponent)
				if exponent > limit {
					t.Errorf("%s, more %s: %s grow with exponent %.2f", verb, name, what, exponent)
				}
			}
			t.Log(verb, after.api, after.calls)
		}
	}
}
