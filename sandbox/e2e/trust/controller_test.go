package trust

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// deployment runs one controller at a time. A controller that loses its Lease must exit, and the next controller
// starts.
type deployment struct {
	*testing.T
	environ []string

	mu         sync.Mutex
	controller *sandboxtest.Process
	logs       []*bytes.Buffer
	// cut is true while the API server does not respond. broken is closed when that begins.
	cut    bool
	broken chan struct{}
	killed map[string]*killing // by pool
}

// killing kills the controller at each change of a pool and of its versions: before the change takes effect, and
// then after the effect but before the response.
type killing struct {
	// group is the pool's name in the cloud. versions are the pool's versions by ID.
	group    string
	versions map[string]string
	before   bool
	// writes that took effect, by changed object.
	writes []string
}

// createTemplateVersion has a client token, so a repeated request creates one version.
const createTemplateVersion = "CreateLaunchTemplateVersion"

// startControllers starts the first controller. The last controller ends with the test.
func startControllers(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{T: t, killed: map[string]*killing{}, broken: make(chan struct{})}
	d.environ = sandbox.Intercept(t, sandbox.Rights(t, v1alpha1.DefaultNamespace), d.handle)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, log := range d.logs {
			t.Logf("a controller wrote:\n%s", log.Bytes()[max(0, log.Len()-5000):])
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.start()
	return d
}

// start needs mu.
func (d *deployment) start() {
	if d.Context().Err() != nil {
		return // the test is over
	}
	log := &bytes.Buffer{}
	p := sandbox.StartWithLog(d, log, d.environ, "kamino", "controller", "--health-probe-bind-address", "0", "--image", "ghcr.io/kamino-dev/kamino-node:trust")
	d.controller, d.logs = p, append(d.logs, log)
	go func() {
		<-p.Exited()
		d.exited(p, log)
	}()
}

// exited starts the next controller if the last controller was not killed. Without an API server, no controller can
// run.
func (d *deployment) exited(p *sandboxtest.Process, log *bytes.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.controller != p || d.Context().Err() != nil {
		return
	}
	d.controller = nil
	if !bytes.Contains(log.Bytes(), []byte("leader election lost")) {
		d.Errorf("a controller exited with %d", p.ExitCode())
	}
	if !d.cut {
		d.start()
	}
}

// replace kills the controller and starts another one. Its Lease would expire after half a minute. replace needs
// mu.
func (d *deployment) replace() {
	if p := d.controller; p != nil {
		d.controller = nil
		p.Kill()
	}
	err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(context.Background(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		d.Errorf("the Lease: %v", err)
	}
	d.start()
}

// cutAPIServer breaks the controller's connections to the API server, and drops its requests until
// restoreAPIServer.
func (d *deployment) cutAPIServer() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
	close(d.broken)
}

func (d *deployment) restoreAPIServer() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut, d.broken = false, make(chan struct{})
	if d.controller == nil {
		d.start()
	}
}

// killAround begins to kill the controller around each change of a pool and of its versions.
func (d *deployment) killAround(e *env) {
	e.Helper()
	versions := map[string]string{}
	for _, v := range e.Versions() {
		versions[v.ID] = v.Name
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killed[e.Pool] = &killing{group: strings.ToLower(e.Group), versions: versions}
}

// stopKilling returns the writes at which the controller was killed.
func (d *deployment) stopKilling(e *env) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.killed[e.Pool]
	delete(d.killed, e.Pool)
	return k.writes
}

func (d *deployment) handle(server sandboxtest.Server, r *http.Request) sandboxtest.Handling {
	d.mu.Lock()
	defer d.mu.Unlock()
	if server == sandboxtest.APIServer {
		return sandboxtest.Handling{Drop: d.cut, Until: d.broken}
	}
	write := sandboxtest.WriteOf(r)
	if write == "" || strings.HasPrefix(write, http.MethodPost+" ") {
		return sandboxtest.Handling{}
	}
	for _, k := range d.killed {
		changed := k.changedBy(write, strings.ToLower(sandboxtest.RequestText(r)))
		if changed == "" || changed == createTemplateVersion && slices.Contains(k.writes, changed) {
			continue // the same request is made again until the group names the template's version
		}
		if k.before = !k.before; k.before {
			d.replace()
			return sandboxtest.Handling{Drop: true}
		}
		return sandboxtest.Handling{After: func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			k.writes = append(k.writes, changed)
			d.replace()
		}}
	}
	return sandboxtest.Handling{}
}

// changedBy returns the object of a write: a version, the pool, or the write's own name; empty for other pools.
func (k *killing) changedBy(write, text string) string {
	_, path, isAzure := strings.Cut(strings.ToLower(write), " ")
	switch {
	case isAzure && strings.Contains(path, k.group):
		return path[strings.LastIndex(path, "/")+1:]
	case write == "UpdateAutoScalingGroup" && strings.Contains(text, k.group):
		return k.group
	case write == createTemplateVersion && strings.Contains(text, k.group):
		return createTemplateVersion
	case write == "CreateTags", write == "DeleteTags":
		for id, version := range k.versions {
			if strings.Contains(text, id) {
				return version
			}
		}
	}
	return ""
}
