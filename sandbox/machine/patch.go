package machine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Annotations of kured with --annotate-nodes, with the time at which kured found the need. "in progress" is removed after the
// reboot, "most recent" stays, as observed. Source: kured's documentation, "Adding node annotations".
const (
	kuredNeeded     = "weave.works/kured-most-recent-reboot-needed"
	kuredInProgress = "weave.works/kured-reboot-in-progress"
)

// PatchOptions are the options of a patch.
type PatchOptions struct {
	// Packages and their new versions. If empty, usual updates: the kernel, OpenSSL, curl, systemd and the container
	// runtime, each with the version after the installed version.
	Packages map[string]string
	// Kured annotates, cordons and uncordons the node as kured does.
	Kured bool
	// NoReboot leaves the required reboot to the caller.
	NoReboot bool
}

var usualUpdates = []string{"curl", "libssl3", "containerd", "kernel", "linux-image-aws", "linux-image-azure", "moby-containerd", "openssl", "systemd"}

// Patch does step 1 to a machine: it installs updates, and reboots in order. It returns once the node is
// Ready again, or the context ends.
func (f *Fleet) Patch(ctx context.Context, id string, options PatchOptions) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	s := m.now()
	if s == nil || s.spec.Light || s.agent() == nil {
		return fmt.Errorf("machine %s cannot be patched: the machine must be on, joined, and have a disk", id)
	}
	if err := s.install(ctx, options.Packages); err != nil {
		return fmt.Errorf("patch %s: %w", id, err)
	}
	if options.NoReboot && !options.Kured {
		return nil
	}
	node := s.agent().Node().Name
	cordoned := false
	found := f.config.Clock.Now()
	if options.Kured {
		needed := found.Format(time.RFC3339)
		if err := f.editNode(ctx, node, func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, kuredNeeded, needed)
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, kuredInProgress, needed)
			cordoned = n.Spec.Unschedulable
			n.Spec.Unschedulable = cordoned || !options.NoReboot
		}); err != nil {
			return err
		}
	}
	if options.NoReboot {
		return nil
	}
	if err := f.nextSecond(ctx, found); err != nil {
		return err
	}
	if err := m.restart(ctx); err != nil {
		return fmt.Errorf("patch %s: reboot: %w", id, err)
	}
	if err := f.awaitReady(ctx, node, m); err != nil {
		return fmt.Errorf("patch %s: node %s did not become Ready after the reboot: %w", id, node, err)
	}
	if !options.Kured {
		return nil
	}
	return f.editNode(ctx, node, func(n *corev1.Node) {
		delete(n.Annotations, kuredInProgress)
		n.Spec.Unschedulable = cordoned
	})
}

// nextSecond waits for the end of a second. Annotations and conditions have whole seconds: a machine that returns
// within the second of the need would look as if not rebooted since.
func (f *Fleet) nextSecond(ctx context.Context, after time.Time) error {
	timer := time.NewTimer(after.Truncate(time.Second).Add(time.Second).Sub(f.config.Clock.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// install changes the packages on the disk, and the kernel with its package, and asks for a reboot.
func (s *session) install(ctx context.Context, wanted map[string]string) error {
	config := s.machine.fleet.config
	unlock, err := disk.LockPackages(s.root)
	if err != nil {
		return err
	}
	defer unlock()
	if err := config.Clock.Sleep(ctx, config.Latencies.Patch); err != nil {
		return err
	}
	defer disk.Writing(s.root)()
	installed, err := disk.Packages(s.root)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		wanted = map[string]string{}
		for _, name := range usualUpdates {
			if version, found := installed[name]; found {
				wanted[name] = disk.NextVersion(version)
			}
		}
	}
	if err := disk.SetPackages(s.root, wanted); err != nil {
		return err
	}
	if _, kernel := wanted[disk.KernelPackage(s.root)]; kernel {
		if err := disk.SetKernel(s.root, disk.NextKernel(disk.Kernel(s.root))); err != nil {
			return err
		}
	}
	names := slices.Sorted(maps.Keys(wanted))
	now := config.Clock.Now().Format(time.RFC3339)
	files := map[string]string{
		"run/reboot-required":      "*** System restart required ***\n",
		"run/reboot-required.pkgs": strings.Join(names, "\n") + "\n",
	}
	for path, text := range files {
		if err := disk.WriteFile(filepath.Join(s.root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	entry := fmt.Sprintf("Start-Date: %s\nCommandline: unattended-upgrade\nUpgrade: %s\n", now, strings.Join(names, ", "))
	return disk.Append(filepath.Join(s.root, "var/log/apt/history.log"), entry, 0o644)
}

func (f *Fleet) editNode(ctx context.Context, name string, edit func(*corev1.Node)) error {
	nodes := f.config.Client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(node)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// awaitReady waits until the Node is Ready under the machine's present boot.
func (f *Fleet) awaitReady(ctx context.Context, name string, m *machine) error {
	for {
		node, err := f.config.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if s := m.now(); err == nil && s != nil && node.Status.NodeInfo.BootID == s.bootID && ready(node) {
			return nil
		}
		if m.now() == nil {
			return fmt.Errorf("the machine is off")
		}
		timer := time.NewTimer(max(f.config.Clock.Real(time.Second), 20*time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
