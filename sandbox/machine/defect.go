package machine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// pendingDefect is the order to give the next image version of a pool a defect.
type pendingDefect struct {
	// Pool is the pool's name in the cloud. Version is the affected version; empty means the next version.
	Pool    string      `json:"pool"`
	Version string      `json:"version,omitempty"`
	Defect  disk.Defect `json:"defect"`
}

// matches reports whether an image is the affected version of the pool. On Azure, the resource ID of the image contains
// the scale set's name. On AWS, the name is "kamino/GROUP/VERSION".
func (s pendingDefect) matches(image string) bool {
	image = fold(image)
	line, version, is := strings.Cut(strings.TrimPrefix(image, "kamino/"), "/")
	if _, rest, onAzure := strings.Cut(image, "/images/"); onAzure {
		line, version, is = strings.Cut(rest, "/versions/")
	} else if !strings.HasPrefix(image, "kamino/") {
		return false
	}
	return is && strings.Contains(line, fold(s.Pool)) && (s.Version == "" || version == fold(s.Version))
}

// Spoil gives a defect to a disk. Machines that boot from the disk or a later copy have the defect.
func (f *Fleet) Spoil(id fleet.DiskID, pool string, d disk.Defect) error {
	d, err := d.Validate()
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.path(id)); err != nil {
		return fmt.Errorf("disk %s not found in the sandbox: %w", id, err)
	}
	return f.spoil(id, pool, d)
}

func (f *Fleet) spoil(id fleet.DiskID, pool string, d disk.Defect) error {
	identity := ""
	if d.Kind == disk.SharedIdentity {
		donor := f.joinedOf(pool)
		if donor == nil {
			return fmt.Errorf("no machine of pool %s runs whose identity disk %s could have", pool, id)
		}
		donor.mu.Lock()
		identity = donor.machineID
		donor.mu.Unlock()
		d.SystemUUID = donor.spec.VMID
	}
	return disk.Spoil(f.path(id), d, identity)
}

// joinedOf is the present boot of the first machine of a pool that has joined; nil if there is none.
func (f *Fleet) joinedOf(pool string) *session {
	f.mu.Lock()
	machines := f.all()
	f.mu.Unlock()
	slices.SortFunc(machines, func(a, b *machine) int { return cmp.Compare(a.specification().ID, b.specification().ID) })
	for _, m := range machines {
		if s := m.now(); s != nil && !s.spec.Light && fold(s.spec.Pool) == fold(pool) && s.agent() != nil {
			return s
		}
	}
	return nil
}

// SpoilNext gives a defect to the pool's next version, or to the next version with a name. A new order replaces a
// pending order; NoDefect removes the order. Orders survive a restart.
func (f *Fleet) SpoilNext(pool, version string, d disk.Defect) error {
	d, err := d.Validate()
	if err != nil {
		return err
	}
	return f.changePendingDefects(func(all []pendingDefect) []pendingDefect {
		all = slices.DeleteFunc(all, func(s pendingDefect) bool { return fold(s.Pool) == fold(pool) && fold(s.Version) == fold(version) })
		if d.Kind == disk.NoDefect {
			return all
		}
		return append(all, pendingDefect{Pool: pool, Version: version, Defect: d})
	})
}

// Published applies a pending order to a new version of an image, with its disk. For images that CopyDisk creates
// under their own ID, no call is needed.
func (f *Fleet) Published(image string, id fleet.DiskID) error {
	var due *pendingDefect
	err := f.changePendingDefects(func(all []pendingDefect) []pendingDefect {
		i := slices.IndexFunc(all, func(s pendingDefect) bool { return s.matches(image) })
		if i < 0 {
			return all
		}
		order := all[i]
		due = &order
		return slices.Delete(all, i, i+1)
	})
	if err != nil || due == nil {
		return err
	}
	f.config.Log.Info("version is bad, as ordered", "disk", string(id), "defect", string(due.Defect.Kind))
	return f.spoil(id, due.Pool, due.Defect)
}

// changePendingDefects changes the pending orders in the fleet's directory.
func (f *Fleet) changePendingDefects(alter func([]pendingDefect) []pendingDefect) error {
	f.spoiling.Lock()
	defer f.spoiling.Unlock()
	path := filepath.Join(f.config.Dir, "defects.json")
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var all []pendingDefect
	if len(before) > 0 {
		if err := json.Unmarshal(before, &all); err != nil {
			return fmt.Errorf("ordered defects in %s: %w", path, err)
		}
	}
	after, err := json.Marshal(alter(all))
	if err != nil || string(after) == string(before) || len(before) == 0 && string(after) == "null" {
		return err
	}
	if err := os.WriteFile(path+".new", after, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readDefect applies the disk's defect to this boot, if the defect strikes this machine.
func (s *session) readDefect() error {
	d, err := disk.DefectOf(s.root)
	if err != nil || d.Kind == "" || !d.Affects(s.spec.ComputerName) {
		return err
	}
	s.defect = d
	s.machine.fleet.config.Log.Info("machine has its disk's defect", "machine", s.spec.ID, "defect", string(d.Kind))
	return nil
}

// late is the delay of the kubelet's start.
func (s *session) late() time.Duration {
	if s.defect.Kind == disk.JoinsLate {
		return s.defect.After
	}
	return 0
}

// uuid is the UUID in the firmware.
func (s *session) uuid() string {
	if s.defect.Kind == disk.SharedIdentity && s.defect.SystemUUID != "" {
		return s.defect.SystemUUID
	}
	return s.spec.VMID
}

// applyDefect applies the disk's defect to the kubelet.
func (s *session) applyDefect(node *kubelet.Node) {
	switch s.defect.Kind {
	case disk.NoNetwork:
		node.Isolated = true
	case disk.NotReadyLater:
		node.ReadyFor = s.defect.After
	case disk.CrashingDaemonSet:
		node.Crashes = func(daemonSet string) bool { return s.defect.DaemonSet == "" || s.defect.DaemonSet == daemonSet }
	case disk.NeverJoins, disk.SharedIdentity, disk.JoinsLate, disk.NoDefect:
	}
}

// Outage cuts the pod network of the cluster in a way of package kubelet; kubelet.NoOutage restores the network. A
// restart of the sandbox ends the outage.
func (f *Fleet) Outage(o kubelet.NetworkOutage) error { return f.kubelets.SetOutage(o) }
