package week

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// within is how long anything may take before the test gives up on it. Nothing comes near it on an idle
// machine: it only ends what hangs.
const within = 5 * time.Minute

// week is the cluster's, with the hand of those who work in it.
type week struct {
	*testing.T
	ground
	// first is the midnight with which the first day begins.
	first time.Time
	dir   string
	// env is what children get on top of the sandbox's environment.
	env        []string
	troubles   *troubles
	vanish     vanishing
	controller struct {
		sync.Mutex
		child *child
	}
	// log is what all controllers said.
	log *os.File

	killed, killedInFlight int // guarded by controller
	// newest node of each pool.
	newest map[string]string
	// fit are the nodes that kured rebooted today, without those that were built from the bad version.
	fit map[string]bool
	// homes are the pools of nodes, as far as they were asked for.
	homes map[string]string
}

// keep is how many versions the policy keeps, and atOnce how many captures may hold a node.
const (
	keep   = 3
	atOnce = 2
)

// policy is the week's. It decides in the evenings, as a cluster's would whose days are busy.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: lights-out
spec:
  maxConcurrent: %d
  schedule:
    cron: "0 18 * * *"
    window: 6h
  settings:
    keep: %d
    ` + untried.Settings + `
`

func newWeek(t *testing.T, seed uint64) *week {
	t.Helper()
	w := &week{T: t, ground: played, homes: map[string]string{}, dir: t.TempDir(), troubles: &troubles{random: rand.New(rand.NewPCG(seed, 7)), calm: true}, newest: map[string]string{}}
	w.first = now().Truncate(24*time.Hour).AddDate(0, 0, 1)
	var err error
	w.log, err = os.Create(filepath.Join(w.dir, "controllers.log"))
	w.must(err)
	w.Cleanup(w.tell)
	w.gates()
	w.apply("manifests", sandbox.Must(t, "kamino", "manifests"))
	sandbox.Must(t, "kubectl", "wait", "--for=condition=Established", "crd/prototypes.kamino.dev", "crd/prototypepolicies.kamino.dev")
	w.apply("policy", fmt.Sprintf(policy, atOnce, keep))
	return w
}

func (w *week) apply(name, text string) {
	w.Helper()
	file := filepath.Join(w.dir, name+".yaml")
	w.must(os.WriteFile(file, []byte(text), 0o600))
	sandbox.Must(w.T, "kubectl", "apply", "--server-side", "-f", file)
}

func (w *week) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// tell shows, if the test has failed, what the controllers said last, and what they were at.
func (w *week) tell() {
	if !w.Failed() {
		return
	}
	w.Logf("the controllers said:\n%s", end(w.log.Name()))
	for _, p := range w.prototypes() {
		w.Logf("prototype %s is %s: %+v", p.Name, p.Status.Phase, p.Status.Failure)
	}
	raw, _ := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(policyPath).DoRaw(context.Background())
	w.Logf("the policy: %s", raw)
	for _, m := range sandbox.Fleet().Machines() {
		w.Logf("machine %s of %s is %s, hung: %t, after %d boots; its node is %q, its image %s", m.ID, m.Pool, m.Power, m.Hung, m.Boots, m.Node, m.Image)
	}
	w.Logf("the sandbox said:\n%s", end(filepath.Join(sandbox.Dir(), "sandbox.log")))
	w.hands.tell(w)
}

// end of a log.
func end(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-20000):]
}

const (
	prototypesPath = "/apis/kamino.dev/v1alpha1/prototypes"
	policyPath     = "/apis/kamino.dev/v1alpha1/prototypepolicies/lights-out"
)

// policy as it stands.
func (w *week) policy() *v1alpha1.PrototypePolicy {
	w.Helper()
	p := &v1alpha1.PrototypePolicy{}
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(policyPath).DoRaw(w.Context())
	w.must(err)
	w.must(json.Unmarshal(raw, p))
	return p
}

// forget takes away what the policy's status says of the pools, so that what stands there is what the next
// controller says. Nothing is decided by it.
func (w *week) forget() {
	w.Helper()
	w.must(sandbox.Kube().CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(policyPath, "status").
		Body([]byte(`{"status":{"pools":null}}`)).Do(w.Context()).Error())
}

// prototypes of all pools, in the order in which they were made. Their stamps are the API server's own.
func (w *week) prototypes() []v1alpha1.Prototype {
	list := v1alpha1.PrototypeList{}
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(prototypesPath).DoRaw(context.Background())
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		w.Errorf("prototypes: %v", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Prototype) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items
}

// machines of a pool that have a node, in order.
func (w *week) machines(pool string) []machine.Status {
	w.Helper()
	return slices.DeleteFunc(sandbox.MachinesOf(w.T, pool), func(m machine.Status) bool { return m.Node == "" })
}

// poolOf a node, also once its machine is gone; empty for one that was never a machine's.
func (w *week) poolOf(node string) string {
	w.Helper()
	if w.homes[node] == "" {
		for _, pool := range w.pools {
			for _, m := range w.machines(pool) {
				w.homes[m.Node] = pool
			}
		}
	}
	return w.homes[node]
}

// set is the cloud's name of a pool, which is Kamino's.
func (w *week) set(pool string) string {
	w.Helper()
	return path.Base(w.machines(pool)[0].Pool)
}

// recipes are the versions that the pools' next nodes are built from, by pool; empty for a platform image.
func (w *week) recipes() map[string]string {
	w.Helper()
	all, err := sandbox.Pools(w.Context())
	w.must(err)
	versions := map[string]string{}
	for _, p := range all {
		if version := w.versionOf(p.Name, p.Image); version != "" {
			versions[p.Name] = version
		}
	}
	return versions
}

// versionOf an image of the pool's; empty for a platform image.
func (w *week) versionOf(pool, image string) string {
	w.Helper()
	version, err := sandbox.VersionOf(w.Context(), pool, image)
	w.must(err)
	return version
}

// editNode changes a node as a person or kured would.
func (w *week) editNode(ctx context.Context, name string, edit func(*corev1.Node)) error {
	nodes := sandbox.Kube().CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(node)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// each does something to all of them at once, and demands that it goes well.
func each[T any](w *week, all []T, do func(context.Context, T) error) {
	w.Helper()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() { errs[i] = do(w.Context(), one) })
	}
	running.Wait()
	for _, err := range errs {
		w.must(err)
	}
}

// poolNow is a pool as it stands.
func poolNow(ctx context.Context, pool string) (control.Pool, error) {
	all, err := sandbox.Pools(ctx)
	if err != nil {
		return control.Pool{}, err
	}
	at := slices.IndexFunc(all, func(p control.Pool) bool { return p.Name == pool })
	if at < 0 {
		return control.Pool{}, fmt.Errorf("there is no pool %s", pool)
	}
	return all[at], nil
}

// freeLease takes the Lease from a holder that is dead, as half a minute would.
func (w *week) freeLease() {
	err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(context.Background(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Errorf("the Lease: %v", err)
	}
}

// eventually looks until what it looks for is there. Its state is told if that never happens.
func (w *week) eventually(what string, look func() (found bool, state string)) {
	w.Helper()
	for last := time.Now().Add(within); ; {
		found, state := look()
		if found {
			return
		}
		if time.Now().After(last) {
			w.Fatalf("%s: it never happens: %s", what, state)
		}
		select {
		case <-w.Context().Done():
			w.Fatalf("%s: %v", what, w.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
