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
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// within limits the time until a pool is whole. The limit only ends a test that hangs.
const within = 10 * time.Minute

// week is a cluster with its users and programs.
type week struct {
	*testing.T
	setup
	// first is the midnight at the begin of the first day.
	first time.Time
	dir   string
	// environ are variables of the processes, on top of the sandbox's.
	environ    []string
	trouble    *trouble
	removal    removal
	controller struct {
		sync.Mutex
		process *sandboxtest.Process
	}
	// log is the output of all controllers.
	log *os.File

	kills, killsInProgress int // guarded by controller
	// newest node of each pool.
	newest map[string]string
	// fit has the nodes that kured rebooted today, without nodes of the bad version.
	fit map[string]bool
	// homes has the pools of known nodes.
	homes map[string]string
}

// keep is how many versions the policy keeps, and atOnce how many nodes captures may reserve.
const (
	keep   = 3
	atOnce = 2
)

// policy decides in the evenings, as in a cluster with busy days.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: lights-out
spec:
  rollback: {mode: "Off"} # a person rolls back, and the pools do not wait for each other
  maxConcurrent: %d
  schedule:
    cron: "0 18 * * *"
    window: 6h
  settings:
    keep: %d
    ` + unverified.Settings + `
`

// inPlace is the policy's setting for captures in place.
const inPlace = "    donor: {method: InPlace}\n"

// applyPolicy applies the policy of a day.
func (w *week) applyPolicy(day int) {
	text := policy
	if w.inPlaceFrom > 0 && day >= w.inPlaceFrom {
		text += inPlace
	}
	w.apply("policy", fmt.Sprintf(text, atOnce, keep))
}

func newWeek(t *testing.T, seed uint64) *week {
	t.Helper()
	w := &week{T: t, setup: played, homes: map[string]string{}, dir: t.TempDir(),
		trouble: &trouble{random: rand.New(rand.NewPCG(seed, 7)), stopped: true}, newest: map[string]string{},
		removal: removal{donors: map[string]bool{}}}
	w.first = now().Truncate(24*time.Hour).AddDate(0, 0, 1)
	var err error
	w.log, err = os.Create(filepath.Join(w.dir, "controllers.log"))
	w.must(err)
	w.Cleanup(w.show)
	sandbox.Install(t)
	w.environ = sandbox.Intercept(t, sandbox.Rights(t, v1alpha1.DefaultNamespace), w.handle)
	w.applyPolicy(1)
	sandbox.AtOnce = 1 // the policy alone allows more
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

// show logs, after a failure, the end of the controllers' output and the state of the cluster.
func (w *week) show() {
	if !w.Failed() {
		return
	}
	w.Logf("the controllers wrote:\n%s", end(w.log.Name()))
	for _, p := range w.prototypes() {
		w.Logf("prototype %s is %s: %+v", p.Name, p.Status.Phase, p.Status.Failure)
	}
	raw, _ := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(policyPath).DoRaw(context.Background())
	w.Logf("the policy: %s", raw)
	for _, m := range sandbox.Fleet().Machines() {
		w.Logf("machine %s of %s is %s, hung: %t, after %d boots; its node is %q, its image %s", m.ID, m.Pool, m.Power, m.Hung, m.Boots, m.Node, m.Image)
	}
	w.Logf("the sandbox wrote:\n%s", end(filepath.Join(sandbox.Dir(), "sandbox.log")))
	w.pooler.show(w)
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

// policy returns the current policy.
func (w *week) policy() *v1alpha1.PrototypePolicy {
	w.Helper()
	p := &v1alpha1.PrototypePolicy{}
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(policyPath).DoRaw(w.Context())
	w.must(err)
	w.must(json.Unmarshal(raw, p))
	return p
}

// forget removes the pools from the policy's status, so that only the next controller's report is read. No decision
// depends on this status.
func (w *week) forget() {
	w.Helper()
	w.must(sandbox.Kube().CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(policyPath, "status").
		Body([]byte(`{"status":{"pools":null}}`)).Do(w.Context()).Error())
}

// prototypes returns the Prototypes of all pools in the order of creation. Their time stamps are in real time.
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

// machines returns the machines of a pool with a node, in order.
func (w *week) machines(pool string) []machine.Status {
	w.Helper()
	return slices.DeleteFunc(sandbox.MachinesOf(w.T, pool), func(m machine.Status) bool { return m.Node == "" })
}

// poolOf returns the pool of a node, even without its machine; empty if the node never had a machine.
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

// group returns the name of a pool in the cloud, which Kamino uses.
func (w *week) group(pool string) string {
	w.Helper()
	return path.Base(w.machines(pool)[0].Pool)
}

// recipes returns the versions in the pools' recipes; empty for a platform image.
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

// each runs do concurrently on all elements, and requires success.
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

// poolNow reads a pool.
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

// freeLease deletes the Lease of a killed controller, which would expire after half a minute.
func (w *week) freeLease() {
	err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(context.Background(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Errorf("the Lease: %v", err)
	}
}

// eventually waits until done returns true.
func (w *week) eventually(what string, done func() (ok bool, state string)) {
	w.Helper()
	sandboxtest.Eventually(w, what, done)
}
