package cloud

import (
	"context"
	"slices"
)

// has reports whether a half has a power that joined implements itself, because the power is by image families or in both
// halves.
func (j *joined) has(power any) (able, own bool) {
	switch power.(type) {
	case *InstanceLister:
		_, able = j.recipes.(InstanceLister)
	case *SnapshotLister:
		_, able = j.disks.(FamilySnapshotLister)
	case *TrialRunner:
		_, able = j.recipes.(TrialRunner)
	case *PermissionChecker:
		_, byRecipes := j.recipes.(PermissionChecker)
		_, byDisks := j.disks.(FamilyPermissionChecker)
		able = byRecipes || byDisks
	default:
		return false, false
	}
	return able, true
}

// powerOf returns a power of a joined provider: joined's own implementation, else the power of a half.
func powerOf[Power any](j *joined) (power Power, able bool) {
	if able, own := j.has((*Power)(nil)); own {
		if !able {
			return power, false
		}
		power, able = any(j).(Power)
		return power, able
	}
	if power, able = j.recipes.(Power); able {
		return power, true
	}
	power, able = j.disks.(Power)
	return power, able
}

// Instances implements InstanceLister: PoolProvider list the instances, and ImageProvider find the versions.
func (j *joined) Instances(ctx context.Context, pool PoolID) ([]Instance, error) {
	list, err := j.recipes.(InstanceLister).Instances(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].BuiltFrom = j.BuiltFrom(pool, list[i])
	}
	return list, nil
}

// MaxImages implements InstanceLister.
func (j *joined) MaxImages(pool PoolID) int { return j.recipes.(InstanceLister).MaxImages(pool) }

// Snapshots implements SnapshotLister.
func (j *joined) Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error) {
	families := make([]ImageFamily, len(pools))
	for i, pool := range pools {
		var err error
		if families[i], err = j.family(ctx, pool); err != nil {
			return nil, err
		}
	}
	return j.disks.(FamilySnapshotLister).Snapshots(ctx, families...)
}

// DropSnapshot implements SnapshotLister.
func (j *joined) DropSnapshot(ctx context.Context, id string) error {
	return j.disks.(FamilySnapshotLister).DropSnapshot(ctx, id)
}

// Permissions implements PermissionChecker: the permissions of both halves, each once.
func (j *joined) Permissions(ctx context.Context, pool PoolID) ([]Permission, error) {
	ctx = EnsureReadCache(ctx)
	var all []Permission
	if recipes, able := j.recipes.(PermissionChecker); able {
		list, err := recipes.Permissions(ctx, pool)
		if err != nil {
			return nil, err
		}
		all = list
	}
	disks, able := j.disks.(FamilyPermissionChecker)
	if !able {
		return all, nil
	}
	family, err := j.family(ctx, pool)
	if err != nil {
		return nil, err
	}
	list, err := disks.Permissions(ctx, family)
	if err != nil {
		return nil, err
	}
	for _, permission := range list {
		if !slices.Contains(all, permission) {
			all = append(all, permission)
		}
	}
	return all, nil
}
