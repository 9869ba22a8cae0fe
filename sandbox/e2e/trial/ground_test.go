package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// way is where trials are made, and how the nodes join that they are made for.
type way struct {
	mode    v1alpha1.TrialMode
	profile string
}

var (
	apart  = way{v1alpha1.TrialApart, "static"}
	inPool = way{v1alpha1.TrialInPool, "bootstrap"}
)

// ground is a pool of which a node is captured, and a namespace with what Kamino needs.
type ground struct {
	*testing.T
	way
	pool, set, donor, namespace string
	before                      control.Pool
	nodes                       []machine.Status
	mark                        time.Time
	// env of commands, on top of the sandbox's.
	env []string
	// job: the trial runs one of the user's.
	job bool
}

// newGround makes the ground of a test that runs beside others.
func newGround(t *testing.T, name string, w way) *ground {
	t.Helper()
	t.Parallel()
	if w.mode == v1alpha1.TrialInPool {
		azuresAlone(t)
	}
	install(t)
	g := &ground{T: t, way: w, pool: name, namespace: "kamino-" + name}
	description := "name=" + name + ",nodes=2"
	if sandbox.Azure() != nil {
		description += ",profile=" + w.profile
	}
	g.nodes = sandbox.Pool(t, description)
	g.set, g.donor, g.before = path.Base(g.nodes[0].Pool), g.nodes[0].Node, g.cloudPool()
	sandbox.Namespace(t, g.namespace)
	g.mark = time.Now()
	return g
}

// azuresAlone skips what another cloud does not have: trials in the pool, and faults of Resource Manager's.
func azuresAlone(t *testing.T) {
	t.Helper()
	if sandbox.Azure() == nil {
		t.Skip("this is about Azure")
	}
}

func (g *ground) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *ground) cloudPool() control.Pool {
	g.Helper()
	all, err := sandbox.Pools(g.Context())
	g.must(err)
	i := slices.IndexFunc(all, func(p control.Pool) bool { return p.Name == g.pool })
	if i < 0 {
		g.Fatalf("there is no pool %s", g.pool)
	}
	return all[i]
}

// opened tells whether the recipe names a version.
func (g *ground) opened() bool { return g.version(g.cloudPool().Image) != "" }

// version of the pool's that an image is; empty if it is none.
func (g *ground) version(image string) string {
	g.Helper()
	version, err := sandbox.VersionOf(g.Context(), g.pool, image)
	g.must(err)
	return version
}

// order changes the pool's size as an autoscaler would, and waits for nothing.
func (g *ground) order(by int64) {
	g.Helper()
	_, err := sandbox.Scale(g.Context(), g.pool, control.Scale{Nodes: g.cloudPool().Capacity + by}, func(control.Event) {})
	g.must(err)
}

// built are the machines that were built from the pool's version, wherever they are.
func (g *ground) built() []machine.Status {
	g.Helper()
	versions, err := sandbox.Versions(g.Context(), g.pool)
	g.must(err)
	return slices.DeleteFunc(sandbox.Fleet().Machines(), func(m machine.Status) bool {
		return !slices.ContainsFunc(versions, func(v region.Version) bool { return strings.EqualFold(v.ID, m.Image) })
	})
}

// writes to the pool's scale set that the cloud has carried out since the ground was ready.
func (g *ground) writes() int {
	n := 0
	for _, r := range sandbox.Cloud().Requests() {
		if r.Time.After(g.mark) && r.Noun == "pool" && r.Method != http.MethodGet && r.Status > 0 && r.Status < http.StatusMultipleChoices &&
			strings.HasSuffix(strings.ToLower(r.Path), "/"+strings.ToLower(g.set)) {
			n++
		}
	}
	return n
}

func (g *ground) spoil(d disk.Defect) {
	g.Helper()
	_, err := sandbox.Spoil(g.Context(), g.pool, control.Spoil{Defect: d})
	g.must(err)
}

// capture begins one, whose version is tried within so long, and does not wait.
func (g *ground) capture(timeout time.Duration, flags ...string) *child {
	g.Helper()
	return g.start(append([]string{
		"capture", g.donor, "--max-concurrent", "100", "--trial", string(g.mode), "--soak", "6s", "--trial-timeout", timeout.String(),
	}, flags...)...)
}

const prototypesPath = "/apis/kamino.dev/v1alpha1/prototypes"

// prototype of the pool; nil if there is none.
func (g *ground) prototype() *v1alpha1.Prototype {
	g.Helper()
	var list v1alpha1.PrototypeList
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath(prototypesPath).DoRaw(g.Context())
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	g.must(err)
	for i := range list.Items {
		if list.Items[i].Spec.Pool == g.set {
			return &list.Items[i]
		}
	}
	return nil
}

// reaches waits until the Prototype is as it should be.
func (g *ground) reaches(what string, is func(*v1alpha1.Prototype) bool) *v1alpha1.Prototype {
	g.Helper()
	var p *v1alpha1.Prototype
	g.eventually(what, func() (bool, string) {
		if p = g.prototype(); p == nil {
			return false, "there is no Prototype"
		}
		return is(p), fmt.Sprintf("the Prototype is %s, with the trial %+v and the failure %+v", p.Status.Phase, p.Status.Trial, p.Status.Failure)
	})
	return p
}

// triesOn tells that the trial has an instance, and no verdict yet.
func triesOn(p *v1alpha1.Prototype) bool {
	return p.Status.Trial != nil && p.Status.Trial.Instance != "" && p.Status.Trial.Result == v1alpha1.TrialPending
}

// tags of the pool's only version.
func (g *ground) tags() map[string]string {
	g.Helper()
	all, err := sandbox.Versions(g.Context(), g.pool)
	if err != nil || len(all) != 1 {
		g.Fatalf("pool %s has %d versions: %v", g.pool, len(all), err)
	}
	return all[0].Tags
}

// dies has the child end without a word, and its Lease, as half a minute would.
func (g *ground) dies(c *child) {
	g.Helper()
	c.kill()
	err := sandbox.Kube().CoordinationV1().Leases(g.namespace).Delete(g.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		g.must(err)
	}
}

// run runs kamino to its end.
func (g *ground) run(args ...string) sandboxtest.Result {
	g.Helper()
	return sandbox.Run(g.T, nil, "kamino", append(args, "--namespace", g.namespace)...)
}
