// Package sandboxtest is the framework of end-to-end tests. A package of tests starts a sandbox in TestMain,
// because a process can have only one control plane. Each test creates an Env: a pool and a namespace. The test
// starts kamino as a Process, delays or breaks requests at a Barrier, and then asserts the PoolState.
//
// The test binary is also kamino-sandbox and kubectl, so nothing is linked twice.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/cli"
	"github.com/kamino-dev/kamino/sandbox/controlplane"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// kaminoVariable names the binary under test; if unset, the tests build the binary.
const kaminoVariable = "KAMINO_BIN"

// Sandbox is a running sandbox.
type Sandbox struct {
	*world.World
	// Kamino is the path of the kamino binary.
	Kamino string
	// Programs is a directory with kamino, kamino-node, kamino-sandbox and kubectl.
	Programs string
	// AtOnce is how many nodes captures may reserve at once, if no policy allows more. The default is for commands with
	// SettingsFile.
	AtOnce int
	// issuing protects the making of a proxy's certificate.
	issuing sync.Mutex
	// removals counts running removals of machines of finished tests. Machines of Cluster API stay, because they
	// cost less than their removal.
	removals     sync.WaitGroup
	keepMachines bool
	// keepNodes: no controller deletes the Nodes of deleted instances.
	keepNodes bool
	// ofKarpenter: Karpenter builds the nodes, and Kamino has the rights on its objects.
	ofKarpenter bool
	// installed: Kamino has its accounts.
	installed atomic.Bool
}

// Main is the body of a TestMain. Main starts a sandbox, stores the sandbox in a variable of the tests, runs the
// tests and stops the sandbox. Main sets Kamino, Dir and Binary of the options. The default is no pools.
func Main(m *testing.M, o world.Options, into **Sandbox) int {
	RunAsProgram()
	code, err := run(m, o, into)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// cloudVariable names the cloud of the tests.
const cloudVariable = "KAMINO_SANDBOX_CLOUD"

// CurrentCloud is the cloud of this process's tests, chosen by EachCloud; otherwise empty.
func CurrentCloud() pool.Cloud { return pool.Cloud(os.Getenv(cloudVariable)) }

// EachCloud is the body of a TestMain whose tests run on every cloud, with a process for each cloud. If
// KAMINO_SANDBOX_CLOUD names a cloud, the tests run only there.
func EachCloud(m *testing.M, o world.Options, into **Sandbox) int {
	RunAsProgram()
	if only := os.Getenv(cloudVariable); only != "" {
		if err := o.Cloud.Set(only); err != nil {
			fmt.Fprintln(os.Stderr, cloudVariable+":", err)
			return 1
		}
		return Main(m, o, into)
	}
	// These files of go test belong to this process.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile") || strings.HasPrefix(arg, "-test.coverprofile") || strings.HasPrefix(arg, "-test.gocoverdir")
	})
	code := 0
	for _, cloud := range pool.Clouds() {
		fmt.Println("on", cloud)
		command := exec.Command(os.Args[0], args...)
		command.Env, command.Stdout, command.Stderr = append(os.Environ(), cloudVariable+"="+string(cloud)), os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "on %s: %v\n", cloud, err)
			code = 1
		}
	}
	return code
}

// RunAsProgram runs another program if the test binary was started by that program's name.
func RunAsProgram() {
	name := filepath.Base(os.Args[0])
	if name == "kamino-sandbox" || slices.Contains(controlplane.Programs(), name) {
		os.Exit(cli.Main(os.Args))
	}
}

func run(m *testing.M, o world.Options, into **Sandbox) (code int, err error) {
	dir, err := os.MkdirTemp("", "kamino-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &Sandbox{Programs: filepath.Join(dir, "bin"), AtOnce: atOnce, keepMachines: o.ClusterAPI != "", keepNodes: o.KeepNodes,
		ofKarpenter: o.Karpenter != ""}
	if err := s.gather(); err != nil {
		return 1, err
	}
	o.Dir, o.Kamino, o.Binary = filepath.Join(dir, "sandbox"), s.Kamino, filepath.Join(s.Programs, "kamino-sandbox")
	if o.Pools == nil {
		o.Pools = []pool.Spec{}
	}
	if o.Azure.Granted, err = azureRole(); err != nil {
		return 1, err
	}
	if s.World, err = world.Start(context.Background(), o); err != nil {
		return 1, err
	}
	*into = s
	code = m.Run()
	s.removals.Wait()
	if rolled := s.Cloud().UpgradedByCloud(); len(rolled) > 0 {
		code = max(code, 1)
		fmt.Fprintf(os.Stderr, "nodes were rebuilt while they ran: %v\n", rolled)
	}
	if err := s.Stop(); err != nil {
		return code, err
	}
	return code, world.Judge(s.World, os.Stdout, s.AtOnce, s.foreignAccounts()...)
}

// gather makes the directory with the programs.
func (s *Sandbox) gather() error {
	if err := os.MkdirAll(s.Programs, 0o755); err != nil {
		return err
	}
	me, err := os.Executable()
	if err != nil {
		return err
	}
	s.Kamino = filepath.Join(s.Programs, "kamino")
	links := map[string]string{"kamino-sandbox": me, "kubectl": me}
	if built := os.Getenv(kaminoVariable); built != "" {
		if _, err := os.Stat(built); err != nil {
			return fmt.Errorf("%s: %w", kaminoVariable, err)
		}
		links["kamino"] = built
		links["kamino-node"] = filepath.Join(filepath.Dir(built), "kamino-node")
	} else if err := buildKamino(s.Kamino); err != nil {
		return err
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(s.Programs, name)); err != nil {
			return err
		}
	}
	return nil
}

// buildKamino builds the product from this checkout.
func buildKamino(to string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kamino-dev/kamino").Output()
	if err != nil {
		return fmt.Errorf("find the product's module: %w", err)
	}
	build := exec.Command("go", "build", "-o", filepath.Dir(to)+"/", "./cmd/kamino", "./cmd/kamino-node")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build kamino: %w\n%s", err, out)
	}
	return nil
}

// Env is the environment of a shell for the sandbox.
func (s *Sandbox) Env() []string {
	env := append(os.Environ(), "PATH="+s.Programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, v := range s.Environment() {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// Result of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a program to its end, with the sandbox's environment and more variables as NAME=VALUE.
func (s *Sandbox) Run(t testing.TB, env []string, name string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(s.Programs, name), args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Env = append(s.Env(), append(s.rightsOf(t, name), env...)...)
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: command.ProcessState.ExitCode()}
}

// Must fails the test unless a command ends with 0, and returns its standard output.
func (s *Sandbox) Must(t testing.TB, name string, args ...string) string {
	t.Helper()
	result := s.Run(t, nil, name, args...)
	if result.Code != 0 {
		t.Fatalf("%s %s ended with %d\n%s%s", name, strings.Join(args, " "), result.Code, result.Stdout, result.Stderr)
	}
	return result.Stdout
}

// Pool creates a pool as on the command line, and returns its machines, sorted by ID, when the nodes are Ready. The
// machines are removed at the end of the test.
func (s *Sandbox) Pool(t testing.TB, description string) []machine.Status {
	t.Helper()
	name := s.addPool(t, description)
	if !s.keepMachines {
		t.Cleanup(func() { s.empty(t, name) })
	}
	return s.MachinesOf(t, name)
}

// SharedPool creates a pool that stays after the test.
func (s *Sandbox) SharedPool(t testing.TB, description string) []machine.Status {
	t.Helper()
	return s.MachinesOf(t, s.addPool(t, description))
}

func (s *Sandbox) addPool(t testing.TB, description string) (name string) {
	t.Helper()
	spec, err := pool.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddPool(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return spec.Name
}

// empty removes the machines of a pool, because running machines cost CPU time. Tests do not wait for the removal.
func (s *Sandbox) empty(t testing.TB, name string) {
	for _, m := range s.MachinesOf(t, name) {
		s.removals.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if s.World.Remove(ctx, m.Node) == nil {
				_ = s.Kube().CoreV1().Nodes().Delete(ctx, m.Node, metav1.DeleteOptions{})
			}
		})
	}
}

// MachinesOf returns the current machines of a pool, sorted by ID.
func (s *Sandbox) MachinesOf(t testing.TB, name string) []machine.Status {
	t.Helper()
	spec := pool.Spec{Name: name}
	var out []machine.Status
	for _, m := range s.Fleet().Machines() {
		if spec.Is(m.Pool) {
			out = append(out, m)
		}
	}
	return out
}

// Fault makes the cloud fail as described until remove is called, or the test ends.
func (s *Sandbox) Fault(t testing.TB, f fault.Fault) (remove func()) {
	t.Helper()
	name, err := s.Cloud().AddFault(f)
	if err != nil {
		t.Fatal(err)
	}
	remove = sync.OnceFunc(func() {
		if err := s.Cloud().ClearFaults(name); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	return remove
}
