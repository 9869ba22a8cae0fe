package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// Limits of the policies here. On an idle computer nodes join within two seconds.
const (
	joinTimeout    = 15 * time.Second
	unreadyTimeout = joinTimeout / 3 // as in Kamino
)

// policy watches one pool. The policy captures nothing, because no node has been Ready for an hour since the patch.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: %s
spec:
  pools: {names: [%s]}
  rollback:
    joinTimeout: %s
  settings:
    ` + unverified.Settings + "\n"

// env is a pool with two versions. The recipe names the second version.
type env struct {
	*sandboxtest.Env
	first, second string
	// before has the pool's machines by ID, and changes is the number of changes of the pool in the cloud, both
	// after the second capture. resizes counts later changes of the size.
	before           map[string]machine.Status
	changes, resizes int
}

// newPool creates a pool of nodes of the platform's image, whose donors return.
func newPool(t *testing.T, name string) *env {
	t.Helper()
	description := "name=" + name + ",nodes=2,max=30"
	if sandboxtest.CurrentCloud() == pool.AWS {
		description += ",profile=eks"
	}
	// The pool is shared: nodes of one pool are evidence for other pools, even after the end of the first test.
	return &env{Env: sandbox.NewEnvWith(t, sandboxtest.EnvOptions{Pool: description, Namespace: v1alpha1.DefaultNamespace, Shared: true})}
}

// newEnv captures two versions of a pool, the second with the defect, and applies a policy to the pool.
func newEnv(t *testing.T, name string, d disk.Defect) *env {
	t.Helper()
	e := newPool(t, name)
	e.first = time.Now().UTC().Format("2006.01.02")
	e.second = e.first + "02"
	e.capture(e.Nodes[0], e.first)
	if d.Kind != disk.NoDefect {
		e.Spoil("", d)
	}
	e.capture(e.Nodes[1], e.second)
	e.before, e.changes = e.machinesByID(), e.countChanges()
	t.Cleanup(e.show)
	e.applyPolicy()
	return e
}

func (e *env) applyPolicy() {
	e.Helper()
	file := filepath.Join(e.TempDir(), "policy.yaml")
	e.Must(os.WriteFile(file, fmt.Appendf(nil, policy, e.Pool, e.Group, joinTimeout), 0o600))
	sandbox.Must(e.T, "kubectl", "apply", "--server-side", "-f", file)
}

func (e *env) capture(node, version string) {
	e.Helper()
	sandbox.Must(e.T, "kamino", sandboxtest.CaptureArgs(e.T, node, "--version", version)...)
	if next := e.NextVersion(); next != version {
		e.Fatalf("pool %s is built from version %q, want %s", e.Pool, next, version)
	}
}

// addNodes orders nodes without waiting.
func (e *env) addNodes(n int64) {
	e.Helper()
	e.resizes++
	e.Resize(e.CloudPool().Capacity + n)
}

// control is a pool of the platform's image, whose nodes join. Without nodes that join elsewhere no image is
// blamed.
type control struct {
	mu sync.Mutex
	*env
}

// addNodes orders nodes in a pool, and then one in the control pool.
func (c *control) addNodes(e *env, n int64) {
	e.Helper()
	e.addNodes(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env.addNodes(1)
}

func (e *env) machinesByID() map[string]machine.Status {
	e.Helper()
	machines := map[string]machine.Status{}
	for _, m := range e.MachinesNow() {
		machines[m.ID] = m
	}
	return machines
}

// countBuilt counts the machines of a version.
func (e *env) countBuilt(version string) (n int) {
	e.Helper()
	for _, m := range e.MachinesNow() {
		if e.VersionOf(m.Image) == version {
			n++
		}
	}
	return n
}

// countChanges counts the changes of the pool in the cloud.
func (e *env) countChanges() (n int) {
	e.Helper()
	group := strings.ToLower(e.Group)
	for _, r := range sandbox.Cloud().Requests() {
		path := strings.ToLower(r.Path)
		ofPool := r.Noun == "pool" && strings.HasSuffix(path, "/"+group) || r.Noun == "group" && strings.Contains(path, group)
		if ofPool && r.Class == requestlog.Write && r.Status < http.StatusMultipleChoices {
			n++
		}
	}
	return n
}

func (e *env) policy() (p v1alpha1.PrototypePolicy) {
	e.Helper()
	raw, err := e.Kube().CoreV1().RESTClient().Get().AbsPath("/apis/kamino.dev/v1alpha1/prototypepolicies/" + e.Pool).DoRaw(context.Background())
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	e.Must(err)
	return p
}

// joinHealth returns the join status of the pool from its policy.
func (e *env) joinHealth() v1alpha1.JoinHealthStatus {
	e.Helper()
	for _, s := range e.policy().Status.Pools {
		if s.Name == e.Group && s.JoinHealth != nil {
			return *s.JoinHealth
		}
	}
	return v1alpha1.JoinHealthStatus{}
}

// stalledFor returns the reason of the policy's condition Stalled, or an empty string.
func (e *env) stalledFor() string {
	e.Helper()
	c := meta.FindStatusCondition(e.policy().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// pollInterval is the time between two reads of a pool. Each read sends several requests to the cloud.
const pollInterval = 200 * time.Millisecond

// eventually waits until done returns true.
func (e *env) eventually(what string, done func() bool) {
	e.Helper()
	e.Eventually(what, func() (bool, string) {
		if done() {
			return true, ""
		}
		time.Sleep(pollInterval)
		return false, "it is not"
	})
}

// show logs the policy's report, and the pool's machines and versions, after a failure.
func (e *env) show() {
	if !e.Failed() {
		return
	}
	ctx := context.Background()
	raw, err := e.Kube().CoreV1().RESTClient().Get().AbsPath("/apis/kamino.dev/v1alpha1/prototypepolicies/" + e.Pool).DoRaw(ctx)
	versions, _ := sandbox.Versions(ctx, e.Pool)
	e.Logf("pool %s: policy %s (%v)\nversions %+v\nmachines %+v", e.Pool, raw, err, versions, sandbox.MachinesOf(e.T, e.Pool))
}

// assertBlameless asserts that a version was never suspected or quarantined.
func (e *env) assertBlameless(version string) {
	e.Helper()
	tags := e.Tags(version)
	for _, tag := range []string{cloud.TagQuarantined, cloud.TagSuspect, cloud.TagRolledBackTo, cloud.TagRolledBackAt} {
		if tags[tag] != "" {
			e.Errorf("version %s of pool %s has the tag %s=%s", version, e.Pool, tag, tags[tag])
		}
	}
}

// assertUntouched asserts that the first machines run as before, and that the recipe had this number of changes.
func (e *env) assertUntouched(recipeChanges int) {
	e.Helper()
	now := e.machinesByID()
	for id, before := range e.before {
		if m := now[id]; m.BootID != before.BootID || m.Image != before.Image || m.Node != before.Node {
			e.Errorf("machine %s of pool %s was touched", before.Node, e.Pool)
		}
	}
	if changes := e.countChanges() - e.changes - e.resizes; changes != recipeChanges {
		e.Errorf("the recipe of pool %s was changed %d times, want %d", e.Pool, changes, recipeChanges)
	}
}
