package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/book"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// within is how long anything may take before a test gives up on it. Nothing comes near it: it only ends what hangs.
const within = 3 * time.Minute

// What nodes are given here. They join within a second or two.
const (
	joinTimeout    = 10 * time.Second
	unreadyTimeout = 2 * time.Second
)

// policy watches one pool. It captures nothing: no node has been Ready for an hour since it was patched.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: %s
spec:
  pools: {names: [%s]}
  rollback:
    joinTimeout: %s
    unreadyTimeout: %s
    daemonSetTimeout: %s
  settings:
    ` + untried.Settings + "\n"

const policiesPath = "/apis/kamino.dev/v1alpha1/prototypepolicies/"

// ground is a pool with two versions, of which the recipe names the second.
type ground struct {
	*testing.T
	pool, set     string
	first, second string
	// before are its machines when the second version was there and no node built from it, by ID, and changes is how often the
	// pool had been changed in the cloud by then; orders is how often it was told to grow since.
	before          map[string]machine.Status
	changes, orders int
}

// newGround captures two versions of a pool, the second of which has the defect, and has a policy watch it.
func newGround(t *testing.T, name string, d disk.Defect) *ground {
	t.Helper()
	g := bareGround(t, name)
	nodes := sandbox.MachinesOf(t, name)
	g.first = time.Now().UTC().Format("2006.01.02")
	g.second = g.first + "02"
	g.captures(nodes[0].Node, g.first)
	if d.Kind != disk.NoDefect {
		g.spoil("", d)
	}
	g.captures(nodes[1].Node, g.second)
	g.before, g.changes = g.machines(), g.changed()
	g.watch()
	return g
}

// bareGround is a pool of the generic image's, which nobody watches yet.
func bareGround(t *testing.T, name string) *ground {
	t.Helper()
	description := "name=" + name + ",nodes=2,max=30"
	if sandboxtest.Told() == pool.AWS {
		description += ",profile=eks" // whose donors return, as they do on Azure
	}
	nodes := sandbox.SharedPool(t, description) // of which other tests are told, too
	return &ground{T: t, pool: name, set: path.Base(nodes[0].Pool)}
}

// watch has a policy of its own watch the pool.
func (g *ground) watch() {
	g.Helper()
	file := filepath.Join(g.TempDir(), "policy.yaml")
	text := fmt.Sprintf(policy, g.pool, g.set, joinTimeout, unreadyTimeout, joinTimeout)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
	sandbox.Must(g.T, "kubectl", "apply", "--server-side", "-f", file)
}

// donors may be captured at once. More would only take longer, each for itself.
var donors = make(chan struct{}, 3)

func (g *ground) captures(node, version string) {
	g.Helper()
	donors <- struct{}{}
	defer func() { <-donors }()
	sandbox.Must(g.T, "kamino", untried.Capture(node, "--version", version, "--max-concurrent", "100")...)
	if got := g.recipe(); got != version {
		g.Fatalf("pool %s is built from version %q, want %s", g.pool, got, version)
	}
}

func (g *ground) spoil(version string, d disk.Defect) {
	g.Helper()
	if _, err := sandbox.Spoil(g.Context(), g.pool, control.Spoil{Version: version, Defect: d}); err != nil {
		g.Fatal(err)
	}
}

func (g *ground) cloudPool() control.Pool {
	g.Helper()
	all, err := sandbox.Pools(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p control.Pool) bool { return p.Name == g.pool })
	if i < 0 {
		g.Fatalf("there is no pool %s", g.pool)
	}
	return all[i]
}

// recipe is the version that it names; empty if that is none of the pool's own.
func (g *ground) recipe() string {
	g.Helper()
	return g.version(g.cloudPool().Image)
}

// version of the pool's that an image is; empty if it is none.
func (g *ground) version(image string) string {
	g.Helper()
	version, err := sandbox.VersionOf(g.Context(), g.pool, image)
	if err != nil {
		g.Fatal(err)
	}
	return version
}

// order adds instances, and waits for nothing.
func (g *ground) order(by int64) {
	g.Helper()
	g.orders++
	if _, err := sandbox.Scale(g.Context(), g.pool, control.Scale{Nodes: g.cloudPool().Capacity + by}, func(control.Event) {}); err != nil {
		g.Fatal(err)
	}
}

// neighbour is a pool of the generic image's, whose nodes join: where none does in any other pool, no image is blamed.
type neighbour struct {
	mu sync.Mutex
	*ground
}

// order adds instances to a pool, and a node to the neighbouring one behind them.
func (n *neighbour) order(g *ground, by int64) {
	g.Helper()
	g.order(by)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ground.order(1)
}

// machines of the pool, by ID.
func (g *ground) machines() map[string]machine.Status {
	g.Helper()
	out := map[string]machine.Status{}
	for _, m := range sandbox.MachinesOf(g.T, g.pool) {
		out[m.ID] = m
	}
	return out
}

// built are the instances of a version now.
func (g *ground) built(version string) (all []machine.Status) {
	g.Helper()
	for _, m := range sandbox.MachinesOf(g.T, g.pool) {
		if g.version(m.Image) == version {
			all = append(all, m)
		}
	}
	return all
}

// tags of a version, as the cloud has them.
func (g *ground) tags(version string) map[string]string {
	g.Helper()
	all, err := sandbox.Versions(g.Context(), g.pool)
	if err != nil {
		g.Fatal(err)
	}
	for _, v := range all {
		if v.Name == version {
			return v.Tags
		}
	}
	g.Fatalf("pool %s has no version %s", g.pool, version)
	return nil
}

// changed is how often the pool was changed in the cloud.
func (g *ground) changed() (n int) {
	for _, r := range sandbox.Cloud().Requests() {
		if r.Class == book.Write && r.Status < http.StatusMultipleChoices && g.isPool(r.Noun, strings.ToLower(r.Path)) {
			n++
		}
	}
	return n
}

// isPool tells whether a request is of this pool itself.
func (g *ground) isPool(noun, path string) bool {
	set := strings.ToLower(g.set)
	return noun == "pool" && strings.HasSuffix(path, "/"+set) || noun == "group" && strings.Contains(path, set)
}

func (g *ground) policy() (p v1alpha1.PrototypePolicy) {
	g.Helper()
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(policiesPath + g.pool).DoRaw(context.Background())
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		g.Fatal(err)
	}
	return p
}

// probation of the pool, as its policy reports it.
func (g *ground) probation() v1alpha1.ProbationStatus {
	g.Helper()
	for _, s := range g.policy().Status.Pools {
		if s.Name == g.set && s.Probation != nil {
			return *s.Probation
		}
	}
	return v1alpha1.ProbationStatus{}
}

// trouble is the reason of a condition of its policy, Degraded or Stalled; empty while all is well.
func (g *ground) trouble(condition string) string {
	g.Helper()
	c := meta.FindStatusCondition(g.policy().Status.Conditions, condition)
	if c == nil || c.Status != "True" {
		return ""
	}
	return c.Reason
}

// said is what the policy says of the pool, for failures.
func (g *ground) said() string {
	g.Helper()
	p := g.policy()
	text := ""
	for _, s := range p.Status.Pools {
		if s.Decision != nil {
			text += s.Decision.Reason + ": " + s.Decision.Message + "; "
		}
		if s.Probation != nil {
			text += s.Probation.State + ": " + s.Probation.Message + "; "
		}
	}
	return text + g.trouble(v1alpha1.ConditionDegraded) + " " + g.trouble(v1alpha1.ConditionStalled) + g.stands()
}

// stands is how the pool's machines, nodes and versions are, for failures: what the policy says does not tell why it waits.
func (g *ground) stands() string {
	g.Helper()
	text := fmt.Sprintf("\nits joins: %+v\nthe time: %s\n", g.probation().Joins, time.Now().UTC().Format(time.RFC3339Nano))
	for _, version := range []string{g.first, g.second} {
		text += fmt.Sprintf("version %s: %v\n", version, g.tags(version))
	}
	for _, m := range g.machines() {
		text += fmt.Sprintf("machine %s of version %q, %s", m.ID, g.version(m.Image), m.Power)
		if node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), m.Node, metav1.GetOptions{}); err == nil {
			since, ready := nodestate.ReadySince(node)
			text += fmt.Sprintf(": node %s, made %s, Ready %t since %s, taints %v, unschedulable %t", m.Node,
				node.CreationTimestamp.UTC().Format(time.RFC3339), ready, since.Format(time.RFC3339), node.Spec.Taints, node.Spec.Unschedulable)
		}
		text += "\n"
	}
	return text
}

// eventually looks until it is so. What the policy says then is told if that never happens.
func (g *ground) eventually(what string, so func() bool) {
	g.Helper()
	for last := time.Now().Add(within); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(last) {
			g.Fatalf("pool %s: it never happens that %s: %s", g.pool, what, g.said())
		}
	}
}

// lasts lets a span go by in which the recipe must name the version at each look.
func (g *ground) lasts(while time.Duration, version string) {
	g.Helper()
	for until := time.Now().Add(while); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if now := g.recipe(); now != version {
			g.Fatalf("pool %s went to version %s: %s", g.pool, now, g.said())
		}
	}
}

// testBlameless demands that nothing speaks against a version, and nothing ever did.
func (g *ground) testBlameless(version string) {
	g.Helper()
	tags := g.tags(version)
	for _, tag := range []string{cloud.TagQuarantined, cloud.TagSuspect, cloud.TagRolledBack, cloud.TagWentBack} {
		if tags[tag] != "" {
			g.Errorf("version %s of pool %s has the tag %s=%s", version, g.pool, tag, tags[tag])
		}
	}
}

// testUnharmed demands that the nodes which were there before run as they did, and that besides the orders to grow there
// were so many changes of the pool.
func (g *ground) testUnharmed(returns int) {
	g.Helper()
	now := g.machines()
	for id, before := range g.before {
		if m := now[id]; m.BootID != before.BootID || m.Image != before.Image || m.Node != before.Node {
			g.Errorf("machine %s of pool %s was touched", before.Node, g.pool)
		}
	}
	if got := g.changed() - g.changes - g.orders; got != returns {
		g.Errorf("pool %s was changed %d times beside %d growths, want %d", g.pool, got, g.orders, returns)
	}
}
