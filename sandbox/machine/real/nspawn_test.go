//go:build machines

package real

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a running container, or virtual machine, with its own disk.
type machine struct {
	name, image string
	// root is where the host sees a container's disk; empty for a virtual machine.
	root string
	// shell is the command before a shell command on the machine, and media is where a virtual machine finds the media.
	shell []string
	media string
	// mac of the network card.
	mac   string
	spawn *exec.Cmd
	// begun is the time of the start.
	begun  time.Time
	ended  chan struct{}
	leader int
	off    bool
}

// boot starts a machine from a raw disk and waits until systemd has started all units. The seed has the values from
// the cloud: instance ID, name, and user data of the recipe.
func (l *lab) boot(t *testing.T, name, image, userData string) *machine {
	t.Helper()
	m, options := l.insert(t, name, image, userData)
	m.spawn = exec.Command("systemd-nspawn", append(options, "--boot", notForOnline)...)
	m.start(t)
	return m
}

// notForOnline is an argument of systemd that removes the wait for an unconfigured network.
const notForOnline = "systemd.mask=systemd-networkd-wait-online.service"

// insert mounts a machine's disk, and returns the options that systemd-nspawn always needs.
func (l *lab) insert(t *testing.T, name, image, userData string) (m *machine, options []string) {
	t.Helper()
	m = &machine{name: name, image: image, root: image + ".tree", ended: make(chan struct{})}
	seed := l.writeSeed(t, name, userData)
	if err := os.MkdirAll(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-o", fmt.Sprintf("loop,offset=%d", rootOffset(t, image)), image, m.root)
	return m, []string{
		"-q", "-D", m.root, "-M", fmt.Sprintf("%s-%d", name, l.number),
		"--register=no", "--keep-unit", "--console=read-only", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
		"--network-bridge=" + l.bridge, "--bind-ro=" + l.media + ":/mnt", "--bind-ro=" + seed + ":/var/lib/cloud/seed/nocloud-net",
	}
}

// start starts a machine and waits until systemd has started all units.
func (m *machine) start(t *testing.T) {
	t.Helper()
	m.switchOn(t)
	m.awaitStarted(t)
}

// switchOn begins a machine's boot. The machine is stopped at the end of the test.
func (m *machine) switchOn(t *testing.T) {
	t.Helper()
	console, err := os.Create(m.image + ".console")
	if err != nil {
		m.eject(t)
		t.Fatal(err)
	}
	defer console.Close()
	// The machine's /tmp is on its disk, as in Debian. By default systemd-nspawn would cover /tmp.
	m.spawn.Env = append(os.Environ(), "SYSTEMD_NSPAWN_TMPFS_TMP=0")
	m.spawn.Stdout, m.spawn.Stderr, m.begun = console, console, time.Now()
	if err := m.spawn.Start(); err != nil {
		m.eject(t)
		t.Fatal(err)
	}
	go func() {
		_ = m.spawn.Wait() // The console shows the exit.
		close(m.ended)
	}()
	t.Cleanup(func() {
		if t.Failed() && !m.off {
			text, _ := os.ReadFile(m.image + ".console")
			t.Logf("console of %s:\n%s", m.name, text)
		}
		m.cutPower(t)
	})
}

func (m *machine) awaitStarted(t *testing.T) {
	t.Helper()
	await(t, m.name+" to start", func() bool {
		select {
		case <-m.ended:
			text, _ := os.ReadFile(m.image + ".console")
			t.Fatalf("%s ended while it started:\n%s", m.name, text)
		default:
		}
		if m.leader = leaderOf(m.spawn.Process.Pid); m.leader == 0 {
			return false
		}
		// Without the host's TMPDIR.
		m.shell = []string{"nsenter", "-t", strconv.Itoa(m.leader), "-a", "env", "-u", "TMPDIR", "sh", "-c"}
		return m.hasStarted()
	})
	m.mac = strings.TrimSpace(m.sh(t, "cat /sys/class/net/host0/address"))
}

// leaderOf finds the container's first process among the children of systemd-nspawn.
func leaderOf(nspawn int) int {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", nspawn, nspawn))
	if err != nil {
		return 0
	}
	for _, child := range strings.Fields(string(children)) {
		status, err := os.ReadFile("/proc/" + child + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			pids := strings.Fields(line)
			if len(pids) > 2 && pids[0] == "NSpid:" && pids[len(pids)-1] == "1" {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	return 0
}

// try runs a shell command on the machine.
func (m *machine) try(command string) (string, error) {
	return attempt(m.shell[0], append(slices.Clone(m.shell[1:]), command)...)
}

// sh runs a shell command that must succeed on the machine.
func (m *machine) sh(t *testing.T, command string) string {
	t.Helper()
	out, err := m.try(command)
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", m.name, command, err, out)
	}
	return strings.TrimSpace(out)
}

// snapshot copies the disk of a running machine at one moment.
func (m *machine) snapshot(t *testing.T, to string) string {
	t.Helper()
	run(t, "fsfreeze", "--freeze", m.root)
	defer run(t, "fsfreeze", "--unfreeze", m.root)
	return copyDisk(t, m.image, to)
}

// powerOff shuts the machine down in good order.
func (m *machine) powerOff(t *testing.T) {
	t.Helper()
	// The answer may be lost with the machine.
	_, _ = m.try("systemctl poweroff")
	<-m.ended
	m.cutPower(t)
}

// cutPower ends the machine as a loss of power does: no process gets to do anything any more.
func (m *machine) cutPower(t *testing.T) {
	t.Helper()
	if m.off {
		return
	}
	m.off = true
	m.kill()
	m.eject(t)
}

// kill ends the machine's processes and leaves its disk mounted. Kill all concurrent machines before the first
// detach, because each machine has a copy of the mounts of its start.
func (m *machine) kill() {
	select {
	case <-m.ended:
		return // A different process may have the process ID now.
	default:
	}
	if m.leader != 0 {
		_ = syscall.Kill(m.leader, syscall.SIGKILL) // The process may have exited already.
	} else {
		_ = m.spawn.Process.Kill()
	}
	<-m.ended
}

// seconds between two of systemd's time stamps, of a unit or (with none) of the machine.
func (m *machine) since(t *testing.T, unit string) float64 {
	t.Helper()
	begun := m.stamp(t, "systemctl show -P UserspaceTimestampMonotonic")
	return float64(m.stamp(t, "systemctl show -P ActiveEnterTimestampMonotonic "+unit)-begun) / 1e6
}

func (m *machine) stamp(t *testing.T, command string) int64 {
	t.Helper()
	value, err := strconv.ParseInt(m.sh(t, command), 10, 64)
	if err != nil || value == 0 {
		t.Fatalf("%s: %s: no time stamp: %d %v", m.name, command, value, err)
	}
	return value
}
