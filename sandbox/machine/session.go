package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/chroot"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/machine/systemd"
)

const (
	kubeletUnit    = bootconfig.KubeletUnit
	containerdUnit = bootconfig.RuntimeUnit
)

// session is one boot of a machine, from power on to power off.
type session struct {
	machine *machine
	spec    fleet.Spec
	// root of the disk's tree; empty for a light machine.
	root   string
	bootID string
	began  time.Time
	// defect of the disk, if the defect strikes this machine.
	defect disk.Defect

	// ctx ends with the power; booting ends with it, or when an orderly way down begins.
	ctx     context.Context
	cancel  context.CancelFunc
	booting context.Context
	abandon context.CancelFunc
	running sync.WaitGroup
	ending  sync.Once
	ended   chan struct{}

	// waits of this boot, up to the start of the kubelet.
	waits clock.Waits

	units   *systemd.Manager
	socket  net.Listener
	trigger *os.File

	// starting is held while the kubelet starts.
	starting sync.Mutex

	mu      sync.Mutex
	kubelet *kubelet.Kubelet
	// machineID and name that this boot read from the disk; empty before.
	machineID, name string
	// role is how the kubelet reaches the API server where nodeadm joins the node; nil elsewhere.
	role *rest.Config
}

func newSession(m *machine) (*session, error) {
	s := &session{machine: m, spec: m.specification(), bootID: newUUID(), began: time.Now(), ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(m.fleet.ctx)
	s.booting, s.abandon = context.WithCancel(s.ctx)
	if s.spec.Light {
		return s, nil
	}
	s.root = m.fleet.path(m.bootDisk())
	if err := s.readDefect(); err != nil {
		s.cancel()
		return nil, err
	}
	s.units = systemd.New(systemd.Default(), s.unitChanges)
	s.units.Runs(s.runs)
	if err := s.mountVolatile(); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// mountVolatile creates the files of a boot that are never on the disk: /proc, /run, and the firmware's values in
// /sys.
func (s *session) mountVolatile() error {
	if err := s.clearVolatile(); err != nil {
		return err
	}
	if !disk.Masked(s.root, "systemd-resolved.service") {
		resolver := "nameserver 127.0.0.53\noptions edns0 trust-ad\n"
		if err := disk.WriteFile(filepath.Join(s.root, "run/systemd/resolve/stub-resolv.conf"), []byte(resolver), 0o644); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"proc/sys/kernel/random/boot_id": s.bootID + "\n",
		"proc/cmdline":                   "BOOT_IMAGE=/boot/vmlinuz-" + disk.Kernel(s.root) + " root=LABEL=cloudimg-rootfs ro\n",
		"proc/sys/kernel/osrelease":      disk.Kernel(s.root) + "\n",
		"sys/class/dmi/id/product_uuid":  s.uuid() + "\n",
		"run/lock/.keep":                 "",
		"run/containerd/.keep":           "",
		"run/systemd/system/.keep":       "",
		disk.MountTable:                  disk.RootMount,
	} {
		if err := disk.WriteFile(filepath.Join(s.root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	var err error
	if err = disk.ShowDevice(s.root, disk.RootNumber, "nvme0n1", "nvme0n1p1"); err != nil {
		return err
	}
	if err = s.showFurther(); err != nil {
		return err
	}
	if s.socket, err = systemd.Listen(filepath.Join(s.root, "run/systemd/private")); err != nil {
		return err
	}
	if s.trigger, err = openTrigger(filepath.Join(s.root, "proc/sysrq-trigger")); err != nil {
		return errors.Join(err, s.socket.Close())
	}
	return disk.Start(s.root)
}

// clearVolatile empties /dev, /proc, /run and /sys.
func (s *session) clearVolatile() error {
	for _, dir := range []string{"dev", "proc", "run", "sys"} {
		entries, err := os.ReadDir(filepath.Join(s.root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			if err := os.RemoveAll(filepath.Join(s.root, dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// start sets everything in motion.
func (s *session) start() {
	s.running.Go(s.boot)
	if s.spec.Light {
		return
	}
	s.running.Go(func() { s.units.Serve(s.socket) })
	s.running.Go(s.listen)
	s.running.Go(s.write)
}

// listen obeys the magic keys that are written to sysrq-trigger: o cuts the power, b reboots at once.
// Sync and read-only remounts (s, u) have nothing to do on a directory.
func (s *session) listen() {
	buffer := make([]byte, 64)
	for {
		n, err := s.trigger.Read(buffer)
		if err != nil {
			return
		}
		for _, key := range buffer[:n] {
			switch key {
			case 'o':
				s.machine.fleet.spawn(func() { s.machine.poweredItselfOff(s) })
				return
			case 'b':
				s.machine.fleet.spawn(func() {
					s.machine.end(s, false, fleet.Starting)
					_ = s.machine.powerOn(s.machine.fleet.ctx)
				})
				return
			}
		}
	}
}

// shutdown is the clean shutdown of the operating system, with its writes. A loss of power interrupts the shutdown.
func (s *session) shutdown() {
	s.abandon()
	if k := s.agent(); k != nil {
		k.Shutdown(s.ctx)
	}
	timing := s.machine.fleet.config
	if timing.Clock.Sleep(s.ctx, timing.Latencies.Shutdown) != nil || s.spec.Light {
		return
	}
	if err := s.lastWrites(); err != nil {
		timing.Log.Warn("shutdown did not write everything", "machine", s.spec.ID, "error", err)
	}
}

// kill ends the boot: all processes die. After kill, nothing writes to the disk.
func (s *session) kill() {
	s.cancel()
	if s.trigger != nil {
		_ = s.trigger.Close()
	}
	if k := s.agent(); k != nil {
		k.Kill()
	}
	if s.units != nil {
		_ = s.socket.Close()
		s.units.Close()
	}
	s.running.Wait()
	if s.root == "" {
		return
	}
	if err := s.clearVolatile(); err != nil {
		s.machine.fleet.config.Log.Warn("proc, run and sys not cleared", "machine", s.spec.ID, "error", err)
	}
}

// agent is the kubelet; nil before the kubelet has started.
func (s *session) agent() *kubelet.Kubelet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kubelet
}

// adopt assigns a kubelet to this boot, unless the power is already off.
func (s *session) adopt(k *kubelet.Kubelet) error {
	s.mu.Lock()
	if s.ctx.Err() == nil {
		s.kubelet = k
	}
	s.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		k.Kill()
		return err
	}
	return nil
}

// unitChanges applies the start or stop of a unit.
func (s *session) unitChanges(name string, active bool) error {
	if name == containerdUnit && active {
		err := bootconfig.CheckRuntime(s.root)
		if err == nil {
			s.printUnit(name, description(name), nil)
		}
		return err
	}
	if name == systemd.RebootTarget && active {
		s.machine.fleet.spawn(s.reboots)
	}
	if name != kubeletUnit {
		return nil
	}
	if active {
		return s.startKubelet()
	}
	if k := s.agent(); k != nil {
		k.Pause()
	}
	return nil
}

// reboots reboots the machine in good order, unless the boot has ended meanwhile.
func (s *session) reboots() {
	if s.machine.now() != s {
		return
	}
	if err := s.machine.restart(s.machine.fleet.ctx); err != nil {
		s.machine.fleet.config.Log.Error("machine not rebooted", "machine", s.spec.ID, "error", err)
	}
}

// notExecuted is systemd's exit code for a program that does not start (EXIT_EXEC).
const notExecuted = 203

// runs runs the command of a transient unit in the machine's root.
func (s *session) runs(c systemd.Command) int32 {
	log := filepath.Join(s.root, c.Log)
	code, err := int32(notExecuted), fmt.Errorf("%s: no such file or directory", c.Words[0])
	if chroot.Linked(s.root) {
		code, err = kubelet.Run(s.ctx, chroot.In(s.root, c.Words...), c.Environment, log)
	}
	if err != nil {
		s.machine.fleet.config.Log.Warn("unit not started", "machine", s.spec.ID, "error", err)
		return notExecuted
	}
	return code
}

func (m *machine) isHung() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Hung
}

// sleep waits for a simulated duration, as long as the boot goes on, and notes what for.
func (s *session) sleep(kind, item string, d time.Duration) error {
	s.waits.Note(kind, item, d)
	return s.machine.fleet.config.Clock.Sleep(s.booting, d)
}
