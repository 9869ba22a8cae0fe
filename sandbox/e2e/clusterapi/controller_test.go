package clusterapi

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// policy captures as soon as a node is patched, and has each version tried. A node has joined that has been Ready for two seconds.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: %[1]s
spec:
  pools: {names: [%[1]s]}
  selection: {minReadyTime: 0s}
  rollback: {unreadyTimeout: 2s}
  settings:
    trial: {mode: Apart, soak: 1s}
`

// controller is one, and how it ended.
type controller struct {
	command *exec.Cmd
	exited  chan struct{}
	said    bytes.Buffer
}

func (g *ground) controller(env ...string) *controller {
	g.Helper()
	c := &controller{exited: make(chan struct{})}
	c.command = exec.Command(sandbox.Kamino, "controller", "--namespace", g.own, "--health-probe-bind-address", "0")
	c.command.Env, c.command.Stdout, c.command.Stderr = append(sandbox.Env(), env...), &c.said, &c.said
	g.must(c.command.Start())
	go func() {
		defer close(c.exited)
		_ = c.command.Wait()
	}()
	g.Cleanup(func() {
		c.kill()
		if g.Failed() {
			said := c.said.Bytes()
			g.Logf("a controller said:\n%s", said[max(0, len(said)-20000):])
			g.Logf("the policy says: %s", sandbox.Run(g.T, nil, "kubectl", "get", "prototypepolicies", "-o", "jsonpath={.items[*].status}").Stdout)
		}
	})
	return c
}

// kill ends it at once, and returns when it is dead.
func (c *controller) kill() {
	_ = c.command.Process.Kill()
	<-c.exited
}

// TestController is lights out: a node is patched, a policy sees it, and a controller with the documented rights captures it, and dies when
// it is about to have the pool name the version. Another one goes on, and watches the version's nodes join.
func TestController(t *testing.T) {
	on(t, pool.AWS)
	g := ownGround(t, "controlled")
	donor := g.nodes[0]
	role, _ := g.account()
	first, once := (*controller)(nil), sync.Once{}
	gates := sandbox.Gates(t, func(to sandboxtest.Server, r *http.Request) (passage sandboxtest.Passage) {
		if to == sandboxtest.Management {
			r.Header.Set("Impersonate-User", "system:serviceaccount:"+namespace+":"+role.Name)
		}
		if to == sandboxtest.Management && r.Method == http.MethodPatch && strings.Contains(sandboxtest.Said(r), "infrastructureRef") {
			once.Do(func() {
				_ = first.command.Process.Kill()
				passage.Lost = true
			})
		}
		return passage
	})
	g.must(sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}))
	first = g.controller(gates...)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	g.must(os.WriteFile(file, fmt.Appendf(nil, policy, g.pool), 0o600))
	sandbox.Must(t, "kubectl", "apply", "--server-side", "-f", file)
	g.waits("the controller has died with its write", func() bool {
		select {
		case <-first.exited:
			return true
		default:
			return false
		}
	})
	if now := g.look(); now.Image != g.before.Image {
		t.Errorf("the pool is built from %s already", now.Image)
	}
	// As half a minute would.
	if err := sandbox.Kube().CoordinationV1().Leases(g.own).Delete(t.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		g.must(err)
	}
	second := g.controller(gates...)
	g.waits("the capture is done", func() bool { return g.prototype() != nil && g.prototype().Status.Phase == v1alpha1.PhaseSucceeded })
	g.whole(2)
	if g.prototype().Spec.Donor.NodeName == donor.Node {
		g.donorGone()
		g.neighbourStays()
	} else {
		t.Errorf("the donor was %s, and %s was patched", g.prototype().Spec.Donor.NodeName, donor.Node)
	}
	clone := g.grows()
	if g.builtFrom(clone) != g.prototype().Spec.Version {
		t.Errorf("node %s was built from %s", clone.Node, clone.Image)
	}
	g.waits("the policy has seen it join", func() bool {
		return sandbox.Must(t, "kubectl", "get", "prototypepolicy", g.pool, "-o", "jsonpath={.status.pools[0].probation.joined}") == "1"
	})
	g.whole(3)
	second.kill()
	sandbox.Must(t, "kubectl", "delete", "prototypepolicy", g.pool)
}
