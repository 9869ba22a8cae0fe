package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Attach implements fleet.Fleet.
func (f *Fleet) Attach(_ context.Context, id string, of fleet.DiskID, serial string) error {
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.path(of)); err != nil {
		return fmt.Errorf("attach to %s: disk %s was not made: %w", id, of, err)
	}
	if err := m.change(func(r *record) {
		if !slices.Contains(r.Further, fleet.Further{Disk: of, Serial: serial}) {
			r.Further = append(r.Further, fleet.Further{Disk: of, Serial: serial})
		}
	}); err != nil {
		return err
	}
	if s := m.now(); s != nil {
		return s.showFurther()
	}
	return nil
}

// Detach implements fleet.Fleet.
func (f *Fleet) Detach(_ context.Context, id string, of fleet.DiskID) error {
	m := f.find(id)
	if m == nil {
		return nil
	}
	if err := m.change(func(r *record) {
		r.Further = slices.DeleteFunc(slices.Clone(r.Further), func(d fleet.Further) bool { return fold(string(d.Disk)) == fold(string(of)) })
	}); err != nil {
		return err
	}
	if s := m.now(); s != nil {
		return s.showFurther()
	}
	return nil
}

// further returns the further disks of the machine.
func (m *machine) further() []fleet.Further {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.record.Further)
}

func (m *machine) hasFurther(id fleet.DiskID) bool {
	return slices.ContainsFunc(m.further(), func(d fleet.Further) bool { return fold(string(d.Disk)) == fold(string(id)) })
}

// bootDisk is the disk that the machine boots from: with two roots of the same labels and UUIDs, the other one.
func (m *machine) bootDisk() fleet.DiskID {
	for _, d := range slices.Backward(m.further()) {
		if _, err := os.Stat(filepath.Join(m.fleet.path(d.Disk), "etc")); err == nil {
			return d.Disk
		}
	}
	return m.specification().Disk
}

// showFurther makes the links to the further disks, with those of udev on EC2.
func (s *session) showFurther() error {
	if s.root == "" {
		return nil
	}
	for i, d := range s.machine.further() {
		if err := disk.ShowDevice(s.root, disk.FurtherNumber(i), fmt.Sprintf("nvme%dn1", i+1), ""); err != nil {
			return err
		}
		if err := disk.WriteFile(filepath.Join(s.root, disk.Numbers, d.Serial), []byte(disk.FurtherNumber(i)), 0o644); err != nil {
			return err
		}
	}
	for dir, prefix := range map[string]string{disk.Further: "", "dev/disk/by-id": "nvme-Amazon_Elastic_Block_Store_"} {
		dir = filepath.Join(s.root, dir)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		for _, d := range s.machine.further() {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			if err := os.Symlink(s.machine.fleet.path(d.Disk), filepath.Join(dir, prefix+d.Serial)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}
