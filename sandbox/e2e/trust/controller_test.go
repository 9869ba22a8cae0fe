package trust

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// controllers are the processes of one Deployment, one after another: where one has lost its Lease and ended, as it must when
// the API server is away for too long, the next one is started as a kubelet would. All they ask goes through gates.
type controllers struct {
	*testing.T
	env []string

	mu      sync.Mutex
	command *exec.Cmd
	exited  chan struct{}
	log     bytes.Buffer
	// before is how much of the log others have written.
	before int
	// away: the API server answers nobody. present is closed when that begins.
	away    bool
	present chan struct{}
	// murders are by the pool whose writes they come with.
	murders map[string]*murder
}

// withToken is the one write whose token makes it the same one each time.
const withToken = "CreateLaunchTemplateVersion"

// murder kills the controller around each change that it makes to a pool and to the pool's versions: before that has its
// effect, and again when it has, and nobody was told.
type murder struct {
	// set is what the cloud calls the pool, and versions are its own by the cloud's IDs.
	set      string
	versions map[string]string
	killed   bool
	// writes that had their effect, by what they changed.
	writes []string
}

// starts are the lines that each controller writes as it starts, which would push what the ones before have said out of a failure's report.
var starts = regexp.MustCompile(`(?m)^.*msg="(Starting|Attempting to acquire|Serving) .*\n`)

// run starts the first controller. The last one ends with the test.
func run(t *testing.T) *controllers {
	t.Helper()
	c := &controllers{T: t, murders: map[string]*murder{}, present: make(chan struct{})}
	c.env = append(sandbox.Env(), sandbox.Gates(t, c.pass)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.murders = nil
		c.kill()
		if t.Failed() {
			said := starts.ReplaceAll(c.log.Bytes(), nil)
			t.Logf("the controllers said:\n%s", said[max(0, len(said)-20000):])
		}
	})
	return c
}

// start needs mu.
func (c *controllers) start() {
	command := exec.Command(sandbox.Kamino, "controller", "--health-probe-bind-address", "0", "--image", "ghcr.io/kamino-dev/kamino:trust")
	command.Env, command.Stdout, command.Stderr = c.env, &c.log, &c.log
	c.before = c.log.Len()
	if err := command.Start(); err != nil {
		c.Errorf("start a controller: %v", err)
		return
	}
	c.command, c.exited = command, make(chan struct{})
	go func(exited chan struct{}) {
		_ = command.Wait()
		close(exited)
		c.ended(command)
	}(c.exited)
}

// ended has another controller start where this one was not killed. While the API server is away none could.
func (c *controllers) ended(command *exec.Cmd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.command != command {
		return
	}
	c.command = nil
	if !bytes.Contains(c.log.Bytes()[c.before:], []byte("leader election lost")) {
		c.Errorf("a controller ended by itself: %s", command.ProcessState)
	}
	if !c.away {
		c.start()
	}
}

// kill ends it with SIGKILL and takes its Lease, as half a minute would. It needs mu.
func (c *controllers) kill() {
	if c.command == nil {
		return
	}
	_ = c.command.Process.Signal(syscall.SIGKILL)
	<-c.exited
	c.command = nil
	err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(context.Background(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Errorf("the Lease: %v", err)
	}
}

// replace has another take the place of one that dies. It needs mu.
func (c *controllers) replace() {
	c.kill()
	c.start()
}

// cut takes the API server away from the controller, and its running watches with it; or gives it back.
func (c *controllers) cut(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away = away; away {
		close(c.present)
		return
	}
	c.present = make(chan struct{})
	if c.command == nil {
		c.start()
	}
}

// haunt has the controller killed around each change of a pool and its versions.
func (c *controllers) haunt(g *ground) {
	g.Helper()
	versions := map[string]string{}
	all, err := sandbox.Versions(g.Context(), g.pool)
	if err != nil {
		g.Fatal(err)
	}
	for _, v := range all {
		versions[v.ID] = v.Name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.murders[g.pool] = &murder{set: g.set, versions: versions}
}

// spare ends that, and tells what was written meanwhile: before each of these, and behind it, the controller was killed.
func (c *controllers) spare(g *ground) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.murders[g.pool]
	delete(c.murders, g.pool)
	return m.writes
}

func (c *controllers) pass(server sandboxtest.Server, r *http.Request) sandboxtest.Passage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if server == sandboxtest.APIServer {
		return sandboxtest.Passage{Lost: c.away, Until: c.present}
	}
	write, said := sandboxtest.Write(r), strings.ToLower(sandboxtest.Said(r))
	if write == "" || strings.HasPrefix(write, http.MethodPost+" ") {
		return sandboxtest.Passage{}
	}
	for _, m := range c.murders {
		changed := m.changedBy(write, said)
		if changed == "" || changed == withToken && slices.Contains(m.writes, changed) {
			continue // it is asked again until the group names its answer
		}
		if m.killed = !m.killed; m.killed {
			c.replace()
			return sandboxtest.Passage{Lost: true}
		}
		return sandboxtest.Passage{After: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			m.writes = append(m.writes, changed)
			c.replace()
		}}
	}
	return sandboxtest.Passage{}
}

// changedBy tells what of the pool's a write changes: a version, the pool, or what the write is called; empty if nothing of it.
func (m *murder) changedBy(write, said string) string {
	set := strings.ToLower(m.set)
	_, path, azures := strings.Cut(strings.ToLower(write), " ")
	switch {
	case azures && strings.Contains(path, set):
		return path[strings.LastIndex(path, "/")+1:]
	case write == "UpdateAutoScalingGroup" && strings.Contains(said, set):
		return set
	case write == withToken && strings.Contains(said, set):
		return withToken
	case write == "CreateTags", write == "DeleteTags":
		for id, version := range m.versions {
			if strings.Contains(said, id) {
				return version
			}
		}
	}
	return ""
}
