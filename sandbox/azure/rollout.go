package azure

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// rollOut upgrades running instances to the model. Automatic upgrades all at once. Rolling, or automatic OS image
// upgrades, upgrade in batches of a fifth. Manual alone upgrades nothing.
func (s machines) rollOut(ctx context.Context, op operation) error {
	var old []string
	batch, all := 0, 0
	s.store.Read(func(st *state) {
		set := st.ScaleSets[fold(op.Target)]
		if set == nil {
			return
		}
		mode := text(set.Body, "properties", "upgradePolicy", "mode")
		automatic, _ := at(set.Body, "properties", "upgradePolicy", "automaticOSUpgradePolicy", "enableAutomaticOSUpgrade").(bool)
		if mode == "Manual" && !automatic {
			return
		}
		instances := st.instancesOf(set)
		for _, i := range instances {
			if i.Model != set.Model && i.State != stateDeleting && i.Launched {
				old = append(old, i.ID)
			}
		}
		all = len(instances)
		batch = all
		if mode != "Automatic" {
			batch = max(1, all/5)
		}
	})
	if len(old) == 0 {
		return nil
	}
	if batch < all {
		if err := s.note(op.Target, rollingForward); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(old, batch) {
		if s.cancelled(op.Target) {
			return nil
		}
		s.rolled.add(chunk)
		if err := s.upgradeAll(ctx, chunk); err != nil {
			return err
		}
	}
	if batch < all {
		return s.note(op.Target, rollingCompleted)
	}
	return nil
}

// Codes of a rolling upgrade.
const (
	rollingForward   = "RollingForward"
	rollingCompleted = "Completed"
	rollingCancelled = "Cancelled"
)

// note records the progress of a scale set's latest rolling upgrade. A cancelled upgrade stays cancelled.
func (s machines) note(target, code string) error {
	return s.store.Write(func(st *state) error {
		if set := st.ScaleSets[fold(target)]; set != nil && (code == rollingForward || set.Rolling == rollingForward) {
			set.Rolling = code
		}
		return nil
	})
}

func (s machines) cancelled(target string) bool {
	result := false
	s.store.Read(func(st *state) {
		set := st.ScaleSets[fold(target)]
		result = set != nil && set.Rolling == rollingCancelled
	})
	return result
}

// automaticUpgrades lists the instances that the cloud upgraded on its own.
type automaticUpgrades struct {
	mu  sync.Mutex
	ids []string
}

func (r *automaticUpgrades) add(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, ids...)
}

// list copies the list, forget clears the list.
func (r *automaticUpgrades) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

func (r *automaticUpgrades) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = nil
}

// upgradeAll applies the latest model to instances. An instance with a new image is rebuilt.
func (s machines) upgradeAll(ctx context.Context, ids []string) error {
	results := make([]error, len(ids))
	each(ids, func(n int, id string) { results[n] = s.upgrade(ctx, id) })
	return errors.Join(results...)
}

func (s machines) upgrade(ctx context.Context, id string) error {
	rebuild := false
	err := s.store.Write(func(st *state) error {
		i := st.Instances[fold(id)]
		set := st.setOf(i)
		if set == nil {
			return nil
		}
		before := child(set.Profiles[i.Model], "storageProfile", "imageReference")
		rebuild = !same(before, child(set.profile(), "storageProfile", "imageReference"))
		i.Model = set.Model
		return nil
	})
	if err != nil || !rebuild {
		return err
	}
	if err := s.config.Clock.Sleep(ctx, s.config.Latencies.Reimage); err != nil {
		return err
	}
	return s.reimage(ctx, id)
}

// setOf is the scale set of an instance, or the model of a standalone VM; nil if either is gone.
func (st *state) setOf(i *instance) *scaleSet {
	if i == nil {
		return nil
	}
	if own := st.Alone[i.key()]; own != nil {
		return own
	}
	return st.ScaleSets[i.id().parent().key()]
}

// reimage gives an instance a new OS disk made from its model's image.
func (s machines) reimage(ctx context.Context, id string) error {
	source, old := "", ""
	err := s.store.Write(func(st *state) error {
		i := st.Instances[fold(id)]
		set := st.setOf(i)
		if set == nil {
			return nil
		}
		img, p := s.models.resolve(st, set.Profiles[i.Model])
		if p != nil {
			return p
		}
		old, source = i.Disk, img.source
		delete(st.Disks, fold(old))
		i.Image, i.Exact, i.Generation = copyObject(img.reference), img.exact, img.generation
		s.newDisk(st, set, i)
		return nil
	})
	spec, known := s.spec(id)
	if err != nil || source == "" || !known {
		return err
	}
	if spec.Light {
		return s.config.Fleet.Reimage(ctx, spec)
	}
	if err := s.config.Fleet.CopyDisk(ctx, spec.Disk, diskOf(source)); err != nil {
		return err
	}
	if err := s.config.Fleet.Reimage(ctx, spec); err != nil {
		return err
	}
	return s.config.Fleet.DeleteDisk(ctx, diskOf(old))
}
