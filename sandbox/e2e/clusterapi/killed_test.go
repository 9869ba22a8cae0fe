package clusterapi

import (
	"net/http"
	"os/exec"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// death is when a command is killed: with its first write to the management cluster that is such a one, which has all of the texts, before
// the write has its effect or behind it.
type death struct {
	texts []string
	after bool
}

// dies runs kamino until its death, and demands that it comes.
func (g *ground) dies(d death, args ...string) {
	g.Helper()
	command, dead := exec.CommandContext(g.Context(), sandbox.Kamino, args...), false
	var mu sync.Mutex
	kill := func() { _ = command.Process.Kill() }
	command.Env = append(sandbox.Env(), sandbox.Gates(g.T, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		if to != sandboxtest.Management || sandboxtest.Write(r) == "" {
			return sandboxtest.Passage{}
		}
		mu.Lock()
		defer mu.Unlock()
		if dead { // on its way when the one before killed it
			return sandboxtest.Passage{Lost: true}
		}
		said := r.Method + " " + sandboxtest.Said(r)
		for _, text := range d.texts {
			if !strings.Contains(said, text) {
				return sandboxtest.Passage{}
			}
		}
		dead = true
		if d.after {
			return sandboxtest.Passage{After: kill}
		}
		kill()
		return sandboxtest.Passage{Lost: true}
	})...)
	out, err := command.CombinedOutput()
	if mu.Lock(); !dead {
		g.Fatalf("kamino %s has not died with %v: %v\n%s", strings.Join(args, " "), d.texts, err, out)
	}
	mu.Unlock()
	// As half a minute would.
	err = sandbox.Kube().CoordinationV1().Leases(g.own).Delete(g.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		g.must(err)
	}
}
