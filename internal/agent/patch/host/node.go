package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/patch/apt"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// Node is a machine whose packages an order is about.
type Node struct {
	// Root is the directory with the host's root.
	Root string
	// UID of the API's NodeOrder. The UID names the units and the state of the order on the host.
	UID string
	// Log gets one line for each step.
	Log io.Writer
	Now func() time.Time
	// Wait sleeps, or returns the context's error.
	Wait func(ctx context.Context, d time.Duration) error
	// Exec, if set, runs a program instead of the host's own in the host's root. Units replaces the host's systemd. Both are
	// for a root directory without a running system.
	Exec  func(ctx context.Context, environment []string, program string, args ...string) *exec.Cmd
	Units Units

	tree   *tree.Tree
	system patch.System
}

// Paths below /run vanish with the boot, like the order itself.
const (
	bootIDPath   = "proc/sys/kernel/random/boot_id"
	kernelPath   = "proc/sys/kernel/osrelease"
	osReleases   = "etc/os-release usr/lib/os-release"
	ostreeBooted = "run/ostree-booted"
	statePrefix  = "run/kamino-patch-"
)

// otherPatchers are units that install patches or reboot nodes without Kamino.
var otherPatchers = []string{
	"apt-daily-upgrade.timer", "unattended-upgrades.service", "dnf-automatic.timer", "dnf-automatic-install.timer",
	"dnf5-automatic.timer", "yum-cron.service", "transactional-update.timer",
}

// output of a program.
type output struct {
	stdout, stderr string
	code           int
}

// all is both outputs, for messages.
func (o output) all() string { return o.stdout + o.stderr }

// run runs a program of the host in the host's root. An exit code is no error.
func (n *Node) run(ctx context.Context, environment []string, program string, args ...string) (output, error) {
	cmd := n.command(ctx, environment, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	o := output{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		o.code, err = exit.ExitCode(), nil
	}
	if err != nil {
		return o, fmt.Errorf("run %s: %w", program, err)
	}
	return o, nil
}

// command is a program of the host, in the host's root.
func (n *Node) command(ctx context.Context, environment []string, program string, args ...string) *exec.Cmd {
	if n.Exec != nil {
		return n.Exec(ctx, environment, program, args...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = "/", environment
	if n.Root != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: n.Root}
	}
	return cmd
}

// readFile returns the trimmed content of a short file; empty if absent.
func (n *Node) readFile(p string) (string, error) {
	f, err := n.tree.OpenFile(p, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read /%s: %w", p, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// exists reports whether a file of the host exists.
func (n *Node) exists(p string) bool {
	_, err := n.tree.Lstat(p)
	return err == nil
}

// list returns the names in a directory; none if absent.
func (n *Node) list(dir string) ([]string, error) {
	entries, err := n.tree.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// lockHolder returns the process that holds an fcntl lock on a file; 0 for none, and for an absent file.
func (n *Node) lockHolder(p string) (int32, error) {
	f, err := n.tree.OpenFile(p, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("look at the lock /%s: %w", p, err)
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return max(lock.Pid, 1), nil // the holder may be in another PID namespace
}

// describe fills in the system, the kernel and other patchers.
func (n *Node) describe(ctx context.Context, r *patch.Report) error {
	text := ""
	for p := range strings.FieldsSeq(osReleases) {
		found, err := n.readFile(p)
		if err == nil && found != "" {
			text = found
			break
		}
	}
	n.system = patch.SystemOf(text)
	r.OS = n.system.String()
	var err error
	if r.Kernel, err = n.readFile(kernelPath); err != nil {
		return err
	}
	if r.OtherPatchers, err = n.Units.Active(ctx, otherPatchers); err != nil {
		return fmt.Errorf("list the host's units: %w", err)
	}
	return nil
}

func nodeFailed(err error) *patch.Failure {
	return &patch.Failure{Reason: patch.NodeFailed, Message: err.Error()}
}

// state is what a second pod of the order needs from the first pod.
type state struct {
	Report  patch.Report   `json:"report"`
	Planned []patch.Change `json:"planned"`
	// Packages (apt) or RPMs (dnf) is the list of packages before the transaction.
	Packages []apt.Package     `json:"packages,omitempty"`
	RPMs     []patch.Installed `json:"rpms,omitempty"`
	// Release and LastTransaction belong to dnf: the release of the order, and the last transaction before the order's.
	Release         string `json:"release,omitempty"`
	LastTransaction string `json:"lastTransaction,omitempty"`
	// Began is the begin of the order, for its seconds.
	Began time.Time `json:"began"`
}

func (n *Node) stateDir() string { return statePrefix + n.UID }

// save writes the state, completely or not at all.
func (n *Node) save(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(n.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(n.stateDir(), 0o700); err != nil {
		return err
	}
	if err := root.WriteFile(n.stateDir()+"/state.new", text, 0o600); err != nil {
		return err
	}
	return root.Rename(n.stateDir()+"/state.new", n.stateDir()+"/state")
}

// load reads the state that the first pod wrote before it started the unit.
func (n *Node) load() (state, error) {
	var s state
	f, err := n.tree.OpenFile(n.stateDir()+"/state", os.O_RDONLY, 0)
	if err != nil {
		return s, err
	}
	defer f.Close()
	return s, json.NewDecoder(f).Decode(&s)
}

func (n *Node) logf(format string, args ...any) {
	// A log without a reader must not fail the run.
	_, _ = fmt.Fprintf(n.Log, format+"\n", args...)
}
