// Package machine runs the sandbox's machines: a disk (a directory tree), a boot, systemd, a kubelet, and all ways to
// stop. The boot creates the missing identity and follows the recipe. Fleet implements fleet.Fleet for the simulated
// cloud. More methods patch, crash or hang a machine.
//
// As on a real machine, only the disk decides: a clone with the donor's identity on its disk boots as the donor.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// Config of a fleet.
type Config struct {
	// Dir holds disks, records of machines and logs; required. Only one fleet may use the directory.
	Dir   string
	Clock clock.Clock
	// Client needs the rights of a cluster administrator and should have no limit on its rate. Required.
	Client kubernetes.Interface
	// RESTConfig is the API server's address for pods that are real processes.
	RESTConfig *rest.Config
	// Kubeadm lets nodes with `kubeadm join` in their recipe join with a credential of their own; API server and controller
	// manager must allow the join. Without Kubeadm, credentials are invented, and all nodes share Client.
	Kubeadm bool
	// Nodeadm does nodeadm's work at a boot, for the disk at root. Nodeadm returns the kubelet's configuration for
	// the API server. Without Nodeadm, machines with nodeadm on the disk do not join.
	Nodeadm func(ctx context.Context, root, instance string) (*rest.Config, error)
	// KeepNodes keeps the Node of a terminated machine, as in a cluster without a node lifecycle controller of the
	// cloud. By default, the fleet removes the Node.
	KeepNodes bool
	// Binaries maps a prefix of an image's name to a local program for its containers. All other containers are
	// simulated.
	Binaries map[string]string
	// OfCopies is the command that replaces kamino-node for the commands of a copy; see package kernel.
	OfCopies []string
	// Broken are parts of names of images that cannot be pulled. "broken.invalid" if nil.
	Broken    []string
	Latencies Latencies
	// Region is the nodes' topology.kubernetes.io/region; no label if empty.
	Region string
	// KubeletVersion that the bootstrap installs, with "v"; disk.DefaultKubelet if empty.
	KubeletVersion string
	// Log; nothing is logged if nil.
	Log *slog.Logger
}

// Fleet is the set of machines of a sandbox.
type Fleet struct {
	config   Config
	kubelets *kubelet.Service
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	nextIP   atomic.Uint32

	mu       sync.Mutex
	closed   bool
	machines map[string]*machine
	// readers counts the running copies of a disk, by folded ID; read signals the end of a copy.
	readers map[string]int
	read    *sync.Cond

	// publishing is held while a platform image is made.
	publishing sync.Mutex

	// spoiling is held while ordered defects change.
	spoiling sync.Mutex

	collisions collisionLog
}

var _ fleet.Fleet = (*Fleet)(nil)

// New creates a fleet on Dir. Machines that had power at the end of the last fleet boot again in the background, as
// after a power failure. The end of the context ends the fleet, like Close.
func New(ctx context.Context, config Config) (*Fleet, error) {
	if config.Dir == "" || config.Client == nil {
		return nil, errors.New("a fleet needs a directory and a client of the API server")
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	config.Dir = dir
	config.Latencies = config.Latencies.Defaulted()
	if config.Broken == nil {
		config.Broken = []string{"broken.invalid"}
	}
	if config.KubeletVersion == "" {
		config.KubeletVersion = disk.DefaultKubelet
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	for _, name := range []string{"disks", "machines", "logs", "consoles"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	if err := disk.Sweep(filepath.Join(dir, "disks")); err != nil {
		return nil, err
	}
	f := &Fleet{config: config, machines: map[string]*machine{}, readers: map[string]int{}}
	f.read = sync.NewCond(&f.mu)
	f.kubelets = kubelet.New(kubelet.Config{
		Client: config.Client, REST: config.RESTConfig, Clock: config.Clock, Binaries: config.Binaries, OfCopies: config.OfCopies,
		Broken: config.Broken, Latencies: config.Latencies.Kubelet, Dir: dir, Log: config.Log,
	})
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.spawn(func() {
		if err := f.kubelets.Run(f.ctx); err != nil {
			config.Log.Error("pods are not watched", "error", err)
		}
	})
	return f, f.resume()
}

// Close ends the fleet like a power failure of all machines. The records keep the power on: the next fleet on the
// directory boots the machines again.
func (f *Fleet) Close() {
	f.mu.Lock()
	f.closed = true
	machines := f.all()
	f.mu.Unlock()
	f.cancel()
	for _, m := range machines {
		if s := m.now(); s != nil {
			m.end(s, false, fleet.Starting)
		}
	}
	f.running.Wait()
}

// spawn runs work in the background. Close waits for the work.
func (f *Fleet) spawn(work func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.running.Go(work)
	}
}

// all needs f.mu.
func (f *Fleet) all() []*machine {
	machines := make([]*machine, 0, len(f.machines))
	for _, m := range f.machines {
		machines = append(machines, m)
	}
	return machines
}

// fold makes IDs of Azure resources comparable, without case.
func fold(id string) string { return strings.ToLower(id) }

func (f *Fleet) find(id string) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[fold(id)]
}

func (f *Fleet) machine(id string) (*machine, error) {
	if m := f.find(id); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("machine %s not found in the sandbox", id)
}

// CopyDisk implements fleet.Fleet. A platform image ("publisher:offer:sku:version", on EC2 with "ec2" for its publisher) comes into being
// when it is first copied.
func (f *Fleet) CopyDisk(ctx context.Context, dst, src fleet.DiskID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m := f.userOf(dst); m != nil {
		return fmt.Errorf("disk %s cannot be replaced: machine %s is running from it, power it off first", dst, m.specification().ID)
	}
	if src == fleet.Blank {
		return errors.Join(os.RemoveAll(f.path(dst)), os.MkdirAll(f.path(dst), 0o755))
	}
	if strings.Count(string(src), ":") == 3 {
		if err := f.publish(src); err != nil {
			return fmt.Errorf("make platform image %s: %w", src, err)
		}
	}
	defer f.reads(src)()
	if err := disk.Copy(f.path(dst), f.path(src)); err != nil {
		return err
	}
	return f.Published(string(dst), dst)
}

// reads keeps the content of a disk until done is called, so that a copy is complete even if the disk is deleted
// meanwhile.
func (f *Fleet) reads(id fleet.DiskID) (done func()) {
	key := fold(string(id))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[key]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.readers[key]--; f.readers[key] == 0 {
			delete(f.readers, key)
		}
		f.read.Broadcast()
	}
}

// publish creates a platform image once. A replacement during a copy would remove files from the copy.
func (f *Fleet) publish(image fleet.DiskID) error {
	f.publishing.Lock()
	defer f.publishing.Unlock()
	if _, err := os.Stat(f.path(image)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft, err := os.MkdirTemp(filepath.Join(f.config.Dir, "disks"), ".copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	tree := filepath.Join(draft, "image")
	if err := disk.Generic(tree, disk.TemplateValues{Kubelet: f.config.KubeletVersion, Platform: disk.PlatformOf(string(image))}); err != nil {
		return err
	}
	return disk.Copy(f.path(image), tree)
}

// DeleteDisk implements fleet.Fleet. DeleteDisk waits for running copies of the disk.
func (f *Fleet) DeleteDisk(_ context.Context, id fleet.DiskID) error {
	if m := f.userOf(id); m != nil {
		return fmt.Errorf("disk %s cannot be deleted: machine %s is running from it", id, m.specification().ID)
	}
	aside, err := f.moveAside(id)
	return errors.Join(err, os.RemoveAll(aside))
}

// moveAside renames a disk atomically, so that no new copy starts, and returns the new path.
func (f *Fleet) moveAside(id fleet.DiskID) (string, error) {
	aside, err := os.MkdirTemp(filepath.Join(f.config.Dir, "disks"), ".copy-")
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.readers[fold(string(id))] > 0 {
		f.read.Wait()
	}
	if err := os.Rename(f.path(id), filepath.Join(aside, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return aside, err
	}
	return aside, nil
}

// userOf is the machine that runs from a disk now, or has it as a further disk; nil if none does.
func (f *Fleet) userOf(id fleet.DiskID) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.machines {
		if spec := m.specification(); !spec.Light && m.Power() != fleet.Off && (fold(string(spec.Disk)) == fold(string(id)) || m.hasFurther(id)) {
			return m
		}
	}
	return nil
}

// DiskTree is where the tree of any disk, snapshot or image is, whether or not it exists.
func (f *Fleet) DiskTree(id fleet.DiskID) string { return f.path(id) }

func (f *Fleet) path(id fleet.DiskID) string {
	return filepath.Join(f.config.Dir, "disks", fileName(string(id)))
}

// Launch implements fleet.Fleet. An existing machine is an error.
func (f *Fleet) Launch(ctx context.Context, spec fleet.Spec) error {
	if !spec.Light {
		if _, err := os.Stat(f.path(spec.Disk)); err != nil {
			return fmt.Errorf("launch %s: disk %s was not made: %w", spec.ID, spec.Disk, err)
		}
	}
	f.mu.Lock()
	if f.closed || f.machines[fold(spec.ID)] != nil {
		f.mu.Unlock()
		return fmt.Errorf("launch %s: the machine exists, or the sandbox ends", spec.ID)
	}
	m := newMachine(f, record{Spec: spec})
	f.machines[fold(spec.ID)] = m
	f.mu.Unlock()
	return m.powerOn(ctx)
}

// PowerOn implements fleet.Fleet.
func (f *Fleet) PowerOn(ctx context.Context, id string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	return m.powerOn(ctx)
}

// PowerOff implements fleet.Fleet.
func (f *Fleet) PowerOff(ctx context.Context, id string, hard bool) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	return m.powerOff(ctx, hard)
}

// Power implements fleet.Fleet. A missing machine is off.
func (f *Fleet) Power(id string) fleet.Power {
	m := f.find(id)
	if m == nil {
		return fleet.Off
	}
	return m.Power()
}

// Terminate implements fleet.Fleet. A machine that does not exist is terminated already.
func (f *Fleet) Terminate(ctx context.Context, id string) error {
	m := f.find(id)
	if m == nil {
		return nil
	}
	if err := m.powerOff(ctx, true); err != nil {
		return err
	}
	if !f.config.KeepNodes {
		if err := f.removeNode(ctx, m); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("terminate %s: remove the node: %w", id, err)
		}
	}
	f.mu.Lock()
	delete(f.machines, fold(id))
	f.mu.Unlock()
	return f.forget(m)
}

// Reimage implements fleet.Fleet: the machine powers off at once, and boots from spec.Disk with the recipe of the
// spec. CopyDisk must have created spec.Disk. An older disk stays until DeleteDisk.
func (f *Fleet) Reimage(ctx context.Context, spec fleet.Spec) error {
	m, err := f.machine(spec.ID)
	if err != nil {
		return err
	}
	if !spec.Light {
		if _, err := os.Stat(f.path(spec.Disk)); err != nil {
			return fmt.Errorf("reimage %s: disk %s was not made: %w", spec.ID, spec.Disk, err)
		}
	}
	if err := m.powerOff(ctx, true); err != nil {
		return err
	}
	m.respecify(spec)
	return m.powerOn(ctx)
}
