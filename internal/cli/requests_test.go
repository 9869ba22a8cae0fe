package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
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

// TestReadsOfAVerb: the reads of a verb over all pools do not grow with the pools. Each pool has a policy, without evidence
// of a profile.
func TestReadsOfAVerb(t *testing.T) {
	const pools = 60
	longAgo := time.Now().Add(-48 * time.Hour)
	world, objects := memory.New(memory.Config{NoCopy: true}), []string{}
	for i := range pools {
		name := fmt.Sprintf("pool%02d", i)
		id := world.AddPool(memory.PoolSpec{Name: name, MaxSize: 10})
		if i%2 == 1 {
			world.AddVersion(id, memory.VersionSpec{Version: "2026.03.01"})
			world.ChangeRecipe(id, string(id)+"/versions/2026.03.01")
		}
		objects = append(objects,
			fmt.Sprintf("apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: %s}\nspec: {dryRun: true, pools: {names: [%s]}}\n",
				name, name))
		for n, created := range []time.Time{longAgo, longAgo, time.Now().Add(-time.Minute)} {
			instance := world.AddInstance(id, fmt.Sprint(n))
			objects = append(objects,
				fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s-%d, creationTimestamp: %q, labels: {kubernetes.io/os: linux}, "+
					"annotations: {%s: %q}}\n"+
					"spec: {providerID: %q}\nstatus: {conditions: [{type: Ready, status: \"True\", lastTransitionTime: %q}]}\n",
					name, n, created.Format(time.RFC3339), v1alpha1.KuredRebootNeededAnnotation, longAgo.Format(time.RFC3339), instance,
					created.Add(time.Hour).Format(time.RFC3339)))
		}
	}
	api, err := newAPIServer([]byte(strings.Join(objects, "---\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	var mu sync.Mutex
	reads := map[string]int{}
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		name := path.Base(r.URL.Path)
		if strings.HasSuffix(path.Dir(r.URL.Path), "/kube-node-lease/leases") {
			name = "kubelet leases"
		}
		reads[name]++
		mu.Unlock()
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(counting.Close)
	for verb, want := range map[string]map[string]int{
		// The second list of nodes has a selector: those of trials.
		"status": {"nodes": 2, "prototypes": 1, "nodeorders": 1, "pods": 1, "leases": 2, "kube-system": 1, "prototypepolicies": 1, "kamino-controller": 1},
		// Half of the pools have candidates without pods: the plan looks at the first candidate of each pool. The other
		// half has a version and a young node per pool: the plan reads Leases of kubelets one by one, then lists the
		// Leases.
		"plan": {"nodes": 1, "prototypes": 1, "prototypepolicies": 2, "daemonsets": 1, "kubeadm-config": 1, "pods": pools / 2, "kubelet leases": 23,
			"leases": 1, "kube-system": 1, "kamino-controller": 1},
	} {
		clear(reads)
		f := NewFactory()
		f.Out, f.Err = t.Output(), t.Output()
		f.Connect = func(o *Options) (*cluster.Connection, error) {
			return cluster.New(&rest.Config{Host: counting.URL}, "test")
		}
		f.Cloud = func(context.Context, *Options) (cloud.Provider, error) { return world.Provider, nil }
		if code := f.Run(t.Context(), []string{verb}); code != ExitDone {
			t.Fatalf("%s: exit code %d", verb, code)
		}
		if !maps.Equal(reads, want) {
			t.Errorf("%s: %v, want %v", verb, reads, want)
		}
	}
}
