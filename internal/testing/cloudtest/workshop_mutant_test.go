package cloudtest_test

import (
	"context"
	"errors"
	"maps"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	buildsNext     = "a workshop is built from the present recipe, and does not touch the pool"
	listsBuilt     = "the workshops of a pool are listed until they have ended, each as it can be ended by"
	listsCopied    = "copies are listed until they have ended, each as it can be ended by"
	fixedAtOnce    = "the snapshot of a disk in use is fixed at once, and leaves its instance running"
	attachedToItsB = "a copy is attached to its instance, which stays as it was, and shows how its guest finds it"
	freeIsCopied   = "no snapshot is made of a copy that is attached or not the proven disk, and one of a free copy becomes a version"
)

// withEnd returns tags with an order, an owner and an end.
func withEnd(tags map[string]string) map[string]string {
	out := map[string]string{cloud.TagUID: "u", cloud.TagOrder: "o", cloud.TagEndsAt: "2026-01-09T05:05:06Z"}
	maps.Copy(out, tags)
	return out
}

var workshopMutants = []mutant{
	{"a workshop grows the pool", buildsNext, func(c *memory.Cloud, h *hooks) {
		h.ensureWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			size := c.World().Pools[0].Capacity
			_ = c.Scale(spec.Pool, size+1)
			return c.EnsureWorkshop(ctx, spec)
		}
	}},
	{"a workshop is built from the first recipe", buildsNext, func(c *memory.Cloud, h *hooks) {
		h.ensureWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			now := c.World().Pools[0].Recipe.Image
			c.ChangeRecipe(c.World().Pools[0].ID, "generic")
			defer c.ChangeRecipe(c.World().Pools[0].ID, now)
			return c.EnsureWorkshop(ctx, spec)
		}
	}},
	{"each request builds a workshop", "asked for again, a workshop builds no second instance", func(c *memory.Cloud, h *hooks) {
		h.ensureWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			if have, err := c.Workshop(ctx, spec); err == nil && have.State == cloud.Complete {
				spec.Name += "-again"
			}
			return c.EnsureWorkshop(ctx, spec)
		}
	}},
	{"a workshop is listed as a trial", "a workshop is no trial", func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			list, err := c.Trials(ctx, pools...)
			for _, w := range c.World().Workshops {
				list = append(list, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: w.Pool}, Name: w.Name})
			}
			return list, err
		}
	}},
	{"the end of a trial ends the workshop of its name", "a workshop is no trial", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			_, _ = c.EndWorkshop(ctx, cloud.WorkshopSpec{Pool: spec.Pool, Name: spec.Name})
			return c.EndTrial(ctx, spec)
		}
	}},
	{"workshops are forgotten", listsBuilt, func(_ *memory.Cloud, h *hooks) {
		h.workshops = func(context.Context, ...cloud.PoolID) ([]cloud.WorkshopSpec, error) { return nil, nil }
	}},
	{"a workshop is listed without its owner", listsBuilt, func(c *memory.Cloud, h *hooks) {
		h.workshops = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error) {
			list, err := c.Workshops(ctx, pools...)
			for i := range list {
				list[i].Tags = nil
			}
			return list, err
		}
	}},
	{"a workshop is built without an end", "a workshop without owner or end is refused and leaves nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			spec.Tags = withEnd(spec.Tags)
			return c.EnsureWorkshop(ctx, spec)
		}
	}},
	{"nothing stands against a workshop", "preflight of a workshop reports each obstacle", func(_ *memory.Cloud, h *hooks) {
		h.preflightWorkshop = func(context.Context, cloud.WorkshopSpec) ([]cloud.Refusal, error) { return nil, nil }
	}},
	{"a workshop without room is a conflict", "a workshop for which there is no room says so and leaves nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			have, err := c.EnsureWorkshop(ctx, spec)
			if cloud.Is(err, cloud.QuotaExceeded) {
				err = &cloud.Error{Kind: cloud.Conflict, Op: "build", Message: "no"}
			}
			return have, err
		}
	}},
	{"a look builds a workshop", "a workshop that was never begun is absent, and ending it changes nothing", func(c *memory.Cloud, h *hooks) {
		h.workshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
			return c.EnsureWorkshop(ctx, spec)
		}
	}},
	{"its copy goes with a workshop", "a copy outlives its workshop", func(c *memory.Cloud, h *hooks) {
		h.endWorkshop = func(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
			state, err := c.EndWorkshop(ctx, spec)
			for _, d := range c.World().Copies {
				_, _ = c.EndCopy(ctx, cloud.CopySpec{Name: d.Name})
			}
			return state, err
		}
	}},
	{"a provider denies its workshops", "a provider without captures by copy says so, builds no workshop and makes no copy", func(_ *memory.Cloud, h *hooks) {
		h.cannotBuildWorkshops = true
	}},
}

var copyMutants = []mutant{
	{"a provider copies on request only", "a provider without captures by copy says so, builds no workshop and makes no copy", func(_ *memory.Cloud, h *hooks) {
		h.copiesOnRequest = true
	}},
	{"the snapshot of a disk in use stops its instance", fixedAtOnce, func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			if spec.InUse {
				_, _ = c.EnsureStopped(ctx, spec.Instance)
			}
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"a disk in use is read until its snapshot is complete", fixedAtOnce, func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			spec.InUse = false
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"a disk in use is copied before its moment", fixedAtOnce, func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			before := spec.Begin
			spec.BeforeCopy = nil
			made, err := c.EnsureSnapshot(ctx, spec)
			return made, errors.Join(err, before(ctx))
		}
	}},
	{"a disk in use is copied without its moment", fixedAtOnce, func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			spec.BeforeCopy = nil
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"a disk that is copied stands still again", fixedAtOnce, func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			if have, err := c.Snapshot(ctx, spec.Instance, spec.Name); err == nil && have.State != cloud.Absent {
				_ = spec.Begin(ctx)
			}
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"a copy is made without an end", "a copy of a disk in use without order, owner or end is refused and leaves nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			spec.Tags = withEnd(spec.Tags)
			return c.EnsureAttached(ctx, spec)
		}
	}},
	{"a disk in use is copied without an owner", "a copy of a disk in use without order, owner or end is refused and leaves nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			if spec.InUse {
				spec.Tags = withEnd(spec.Tags)
			}
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"attaching is called attached", attachedToItsB, func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if have.State == cloud.Pending {
				have.State, have.IsAttached, have.Device.Serial = cloud.Complete, true, spec.Name
			}
			return have, err
		}
	}},
	{"a copy is another instance's as well", attachedToItsB, func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if cloud.Is(err, cloud.Conflict) {
				return c.Copy(ctx, spec)
			}
			return have, err
		}
	}},
	{"a copy has no device", attachedToItsB, func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			have.Device = cloud.DiskDevice{}
			return have, err
		}
	}},
	{"each request makes a copy", "asked for again, a copy is not made a second time", func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if have.IsAttached {
				spec.Name += "-again"
				_, _ = c.EnsureAttached(ctx, spec)
			}
			return have, err
		}
	}},
	{"an incomplete snapshot is copied", "no copy is made of a snapshot that is missing or incomplete, or on a missing instance", func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if cloud.Is(err, cloud.Conflict) && have.State == cloud.Absent && len(c.World().Copies) == 0 {
				return cloud.DiskCopy{ID: "young", State: cloud.Pending}, nil
			}
			return have, err
		}
	}},
	{"a copy is attached to an instance that is off", "no copy is attached to an instance that is off", func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if cloud.Is(err, cloud.Conflict) {
				c.StartByStranger(spec.Instance)
				return c.Copy(ctx, spec)
			}
			return have, err
		}
	}},
	{"a copy goes with its snapshot", "a copy outlives its snapshot", func(c *memory.Cloud, h *hooks) {
		h.ensureAttached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureAttached(ctx, spec)
			if len(c.World().Snapshots) == 0 && have.State == cloud.Complete {
				have = cloud.DiskCopy{ID: have.ID, State: cloud.Failed}
			}
			return have, err
		}
	}},
	{"an attached copy is copied", freeIsCopied, func(c *memory.Cloud, h *hooks) {
		h.ensureCopySnapshot = func(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
			have, err := c.EnsureCopySnapshot(ctx, spec, shot)
			if cloud.Is(err, cloud.Conflict) {
				return cloud.Snapshot{Name: shot.Name, State: cloud.Pending}, nil
			}
			return have, err
		}
	}},
	{"another disk than the proven one is copied", freeIsCopied, func(c *memory.Cloud, h *hooks) {
		h.ensureCopySnapshot = func(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
			spec.Proven = ""
			return c.EnsureCopySnapshot(ctx, spec, shot)
		}
	}},
	{"the snapshot of a copy loses its tags", freeIsCopied, func(c *memory.Cloud, h *hooks) {
		h.ensureCopySnapshot = func(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
			shot.Tags = nil
			return c.EnsureCopySnapshot(ctx, spec, shot)
		}
	}},
	{"a detached copy is deleted", "a detached copy stays, and can be attached again", func(c *memory.Cloud, h *hooks) {
		h.ensureDetached = func(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
			have, err := c.EnsureDetached(ctx, spec)
			if have.State == cloud.Complete && !have.IsAttached {
				_, _ = c.EndCopy(ctx, spec)
			}
			return have, err
		}
	}},
	{"copies are forgotten", listsCopied, func(_ *memory.Cloud, h *hooks) {
		h.copies = func(context.Context, ...cloud.PoolID) ([]cloud.CopySpec, error) { return nil, nil }
	}},
	{"a copy is listed without its owner", listsCopied, func(c *memory.Cloud, h *hooks) {
		h.copies = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.CopySpec, error) {
			list, err := c.Copies(ctx, pools...)
			for i := range list {
				list[i].Tags = nil
			}
			return list, err
		}
	}},
	{"the end of a copy ends its instance", "a copy that is attached is ended, and its instance stays as it was", func(c *memory.Cloud, h *hooks) {
		h.endCopy = func(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
			_, _ = c.EnsureStopped(ctx, spec.Instance)
			return c.EndCopy(ctx, spec)
		}
	}},
	{"the end of no copy is an error", "a copy that was never made is absent, and ending it changes nothing", func(c *memory.Cloud, h *hooks) {
		h.endCopy = func(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
			if have, err := c.Copy(ctx, spec); err == nil && have.State == cloud.Absent {
				return cloud.Absent, notFound("end copy")
			}
			return c.EndCopy(ctx, spec)
		}
	}},
	{"a look shows no copy", "a detached copy stays, and can be attached again", func(_ *memory.Cloud, h *hooks) {
		h.copyOf = func(context.Context, cloud.CopySpec) (cloud.DiskCopy, error) { return cloud.DiskCopy{}, nil }
	}},
}
