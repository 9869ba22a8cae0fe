package command

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/control"
)

// upProcess is a kamino-sandbox up in a separate process.
type upProcess struct {
	command  *exec.Cmd
	exited   chan struct{}
	mu       sync.Mutex
	messages bytes.Buffer
}

// Write collects the output.
func (s *upProcess) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages.Write(p)
}

func (s *upProcess) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages.String()
}

// up starts a sandbox and returns when the output reports a ready sandbox.
func up(t *testing.T, dir string, args ...string) *upProcess {
	t.Helper()
	s := &upProcess{exited: make(chan struct{})}
	s.command = exec.Command(filepath.Join(sandbox.Programs, "kamino-sandbox"), append([]string{"up", "--dir", dir, "--time-scale", "200"}, args...)...)
	s.command.Stderr = s
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.command.Process.Kill(); <-s.exited })
	ready := make(chan bool, 1)
	go func() {
		defer close(s.exited)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready ") {
				ready <- true
			}
		}
		close(ready)
		_ = s.command.Wait()
	}()
	if !<-ready {
		<-s.exited
		t.Fatalf("it was never ready:\n%s", s.text())
	}
	return s
}

// waitExit waits for the process and returns its exit code.
func (s *upProcess) waitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-s.exited:
	case <-time.After(time.Minute):
		t.Fatalf("it does not end:\n%s", s.text())
	}
	return s.command.ProcessState.ExitCode()
}

func machinesIn(t *testing.T, dir string) map[string]control.Machine {
	t.Helper()
	client, err := control.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	machines, err := client.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]control.Machine{}
	for _, m := range machines {
		if m.State != "running" {
			t.Errorf("%s is %s", m.Node, m.State)
		}
		m.Age = 0
		out[m.Node] = m
	}
	return out
}

func TestUpSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's here")
	first := up(t, dir, "--pool", "name=a,nodes=2", "--pool", "name=b,nodes=1,generation=V1,max=0", "--light-nodes", "5")
	before := machinesIn(t, dir)
	if len(before) != 8 {
		t.Errorf("%d machines, want 2, 1 and 5", len(before))
	}
	statusBefore := inShell(t, dir, `kamino-sandbox status -o json | grep -e '"api"' -e '"azure"'`)
	inShell(t, dir, `kubectl create configmap kept --from-literal=k=v`)
	assertPrivate(t, dir)
	if err := first.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.waitExit(t); code != 0 {
		t.Fatalf("SIGTERM: exit code %d\n%s", code, first.text())
	}
	assertNotRunning(t, dir)

	second := up(t, dir)
	if diff := cmp.Diff(before, machinesIn(t, dir)); diff != "" {
		t.Errorf("machines after the restart (-before +after):\n%s", diff)
	}
	if got := inShell(t, dir, `kamino-sandbox status -o json | grep -e '"api"' -e '"azure"'`); got != statusBefore {
		t.Errorf("addresses were\n%sand are\n%s", statusBefore, got)
	}
	if got := inShell(t, dir, `kubectl get configmap kept -o 'jsonpath={.data.k}'`); got != "v" {
		t.Errorf("what was kept in the cluster: %q", got)
	}
	// Commands for nodes still work.
	inShell(t, dir, `kamino-sandbox scale b 2 --wait`)
	inShell(t, dir, `kamino-sandbox down`)
	if code := second.waitExit(t); code != 0 {
		t.Errorf("down: exit code %d\n%s", code, second.text())
	}
	assertNotRunning(t, dir)
}

// inShell runs a script after reading the sandbox's env file, as a person does.
func inShell(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-euc", `. "$1/env"; eval "$2"`, "sh", dir, script)
	command.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.String())
	}
	return string(out)
}

// assertPrivate finds files with secrets that other users can read.
func assertPrivate(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"kubeconfig", "env", "env-managed-identity", "azure.json", "az.sh", "sandbox.json"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode().Perm())
		}
	}
}

func assertNotRunning(t *testing.T, dir string) {
	t.Helper()
	client, err := control.Dial(dir)
	if err == nil {
		_, err = client.Status(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "no sandbox runs in") {
		t.Errorf("after its end: %v", err)
	}
}

func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// at is the line of output at which the test interrupts the start. No node is Ready at this time.
		at, messages string
		cut          func(t *testing.T, dir string, process *os.Process)
		code         int
	}{
		"by Ctrl-C": {"control plane:", "interrupted", func(t *testing.T, _ string, process *os.Process) {
			if err := process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}, 130},
		"by down": {"waiting for", "received the order to stop before it was ready", func(t *testing.T, dir string, _ *os.Process) {
			sandbox.Must(t, "kamino-sandbox", "down", "--dir", dir)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Sockets need a short path. The test's own directory is too long.
			temp, err := os.MkdirTemp("", "cut-") //nolint:usetesting // its path is shorter
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(temp) })
			// At a cloud's own pace, no node will be Ready soon.
			command := exec.Command(filepath.Join(sandbox.Programs, "kamino-sandbox"), "up", "--dir", dir, "--time-scale", "1")
			command.Env = append(os.Environ(), "TMPDIR="+temp)
			stderr, err := command.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			messages := ""
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				messages += lines.Text() + "\n"
				if strings.Contains(lines.Text(), c.at) {
					c.cut(t, dir, command.Process)
				}
			}
			_ = command.Wait()
			if code := command.ProcessState.ExitCode(); code != c.code || !strings.Contains(messages, c.messages) {
				t.Errorf("exit code %d, want %d, and it should say %q:\n%s", code, c.code, c.messages, messages)
			}
			assertNotRunning(t, dir)
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the directory for temporary files: %v (%v)", left, err)
			}
		})
	}
}
