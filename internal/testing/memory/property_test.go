package memory_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// step is one event of the cloud. Because a step is data, the same steps can run twice.
type step struct {
	Do       string
	Instance int
	Name     string
	Version  string
	On       bool
	Wait     time.Duration
	N        int64
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		Do: rapid.SampledFrom([]string{
			"wait", "wait", "wait", "wait", "wait", "stop", "start", "start", "protect",
			"snapshot", "snapshot", "snapshot", "delete snapshot", "delete snapshot", "image", "image", "image", "image",
			"tag", "delete image", "delete image", "promote", "promote", "promote", "grow", "generalize", "guest off",
			"reboot", "take one", "fail snapshot", "fail image",
		}).Draw(t, "do"),
		Instance: rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(t, "instance"),
		Name:     rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "name"),
		Version:  rapid.SampledFrom([]string{"2026.9.30", "2026.10.01", "2026.10.02"}).Draw(t, "version"),
		On:       rapid.Bool().Draw(t, "on"),
		Wait:     time.Duration(rapid.SampledFrom([]int{1, 5, 10, 20, 25, 40, 60, 300, 700}).Draw(t, "seconds")) * time.Second,
		N:        rapid.Int64Range(0, 5).Draw(t, "n"),
	}
})

// take runs a step and returns the provider's error.
func (r *rig) take(t *rapid.T, s step) error {
	ctx := t.Context()
	ids := r.InstanceIDs(r.pool)
	id := r.pool0() + "/instances/none"
	if s.Instance < len(ids) {
		id = ids[s.Instance]
	}
	ref := cloud.ImageRef{Pool: r.pool, Version: s.Version}
	switch s.Do {
	case "wait":
		r.clock.Advance(s.Wait)
	case "stop":
		return errorOf(r.EnsureStopped(ctx, id))
	case "start":
		return errorOf(r.EnsureStarted(ctx, id))
	case "protect":
		if s.On {
			return r.ProtectFromScaleIn(ctx, id, cloud.TokenUnprotected)
		}
		return r.Unprotect(ctx, id, cloud.TokenUnprotected)
	case "snapshot":
		tags := map[string]string{"n": fmt.Sprint(s.N)}
		return errorOf(r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: s.Name, Instance: id, Tags: tags}))
	case "delete snapshot":
		return r.DeleteSnapshot(ctx, id, s.Name)
	case "image":
		return errorOf(r.EnsureImage(ctx, cloud.ImageSpec{ImageRef: ref, SnapshotID: "memory:///snapshots/" + s.Name}))
	case "tag":
		return r.TagImage(ctx, ref, map[string]string{"n": fmt.Sprint(s.N)})
	case "delete image":
		return r.DeleteImage(ctx, ref)
	case "promote":
		change, err := r.RecipeChange(ctx, ref, s.On)
		return errors.Join(err, r.SetRecipe(ctx, change))
	case "grow":
		size := int64(len(ids))
		if s.On {
			size = s.N
		}
		return r.Scale(r.pool, size+1)
	default:
		r.disturb(s, id)
	}
	return nil
}

func (r *rig) pool0() cloud.InstanceID { return cloud.InstanceID(r.pool) }

// disturb runs a step of a foreign client.
func (r *rig) disturb(s step, id cloud.InstanceID) {
	switch s.Do {
	case "generalize":
		r.MarkGeneralized(id)
	case "guest off":
		r.GuestPowerOff(id)
	case "reboot":
		r.Reboot(id)
	case "take one": // rarely, because an empty pool has few further cases
		switch s.N {
		case 0:
			r.ScaleIn(r.pool)
		case 1:
			r.RemoveInstance(id)
		}
	case "fail snapshot":
		r.FailSnapshots(1)
	case "fail image":
		r.FailImages(1)
	default:
		panic(s.Do)
	}
}

// drawRig draws the configuration, too: time, quotas and zone-redundant storage.
func drawRig(t *testing.T, rt *rapid.T) func() *rig {
	instant := rapid.IntRange(0, 4).Draw(rt, "instant") == 0
	local := rapid.Bool().Draw(rt, "no zone storage")
	quota := memory.Quota{Snapshots: rapid.IntRange(0, 2).Draw(rt, "snapshots"), Images: rapid.IntRange(0, 2).Draw(rt, "images")}
	return func() *rig {
		return newRig(t, func(c *memory.Config, _ *memory.PoolSpec) {
			c.NoZoneStorage, c.Quota = local, quota
			if instant {
				c.Latency = memory.Latency{}
			}
		})
	}
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := drawRig(t, rt)()
		last := r.World()
		for i, s := range rapid.SliceOfN(steps, 20, 80).Draw(rt, "steps") {
			err := r.take(rt, s)
			var e *cloud.Error
			if err != nil && (!errors.As(err, &e) || e.Kind == "" || e.Op == "") {
				rt.Fatalf("step %d %+v: error %v is none of the contract's", i, s, err)
			}
			now := r.World()
			for _, broken := range slices.Concat(wrongInstances(now), wrongSnapshots(last, now), wrongImages(last, now), wrongPools(last, now)) {
				rt.Fatalf("step %d %+v: %s", i, s, broken)
			}
			last = now
		}
	})
}

func wrongInstances(w memory.World) (wrong []string) {
	ids := map[string]bool{}
	for _, m := range w.Instances {
		if boots := w.Count(memory.ByCloud, memory.EffectBoot, string(m.ID)); m.Boots != boots {
			wrong = append(wrong, fmt.Sprintf("%s booted %d times, and %d were recorded", m.ID, m.Boots, boots))
		}
		if m.BootID != "" && ids[m.BootID] {
			wrong = append(wrong, fmt.Sprintf("the boot ID %s is not its own", m.BootID))
		}
		ids[m.BootID] = true
		if m.Generalized && m.Power == cloud.PowerStarting {
			wrong = append(wrong, fmt.Sprintf("%s boots and stays generalized", m.ID))
		}
	}
	return wrong
}

// wrongSnapshots: each name has one snapshot, and the snapshot stays the same until the deletion.
func wrongSnapshots(last, now memory.World) (wrong []string) {
	seen := map[string]bool{}
	for _, s := range now.Snapshots {
		if seen[s.Name] {
			wrong = append(wrong, fmt.Sprintf("two snapshots are named %s", s.Name))
		}
		seen[s.Name] = true
		i := slices.IndexFunc(last.Snapshots, func(old memory.SnapshotView) bool { return old.Name == s.Name })
		if i < 0 {
			continue
		}
		old := last.Snapshots[i]
		made := now.Count(memory.ByCaller, memory.EffectSnapshot, s.Name) - last.Count(memory.ByCaller, memory.EffectSnapshot, s.Name)
		if made == 0 {
			was := old.State
			old.State = s.State
			if was == cloud.Pending {
				old.Generalized = old.Generalized && s.Generalized // a program can write to the disk during the copy
			}
			if diff := cmp.Diff(old, s); diff != "" {
				wrong = append(wrong, fmt.Sprintf("snapshot %s changed: %s", s.Name, diff))
			}
			if was != s.State && was != cloud.Pending && s.State != cloud.Deleting {
				wrong = append(wrong, fmt.Sprintf("snapshot %s went from %q to %q", s.Name, was, s.State))
			}
		}
	}
	return wrong
}

// wrongImages: each version exists once, and its state only advances.
func wrongImages(last, now memory.World) (wrong []string) {
	seen := map[string]bool{}
	for _, v := range now.Images {
		if seen[v.Version] {
			wrong = append(wrong, fmt.Sprintf("version %s is there twice", v.Version))
		}
		seen[v.Version] = true
		if v.Percent < 0 || v.Percent > 100 || (v.Percent == 100) != (v.State == cloud.Complete) && v.State != cloud.Deleting {
			wrong = append(wrong, fmt.Sprintf("version %s is %s at %d %%", v.Version, v.State, v.Percent))
		}
		if !v.ExcludedFromLatest {
			wrong = append(wrong, fmt.Sprintf("version %s is what latest means", v.Version))
		}
		i := slices.IndexFunc(last.Images, func(old memory.ImageView) bool { return old.Version == v.Version })
		if i < 0 || len(last.Effects) != len(now.Effects) {
			continue // a new image can have the same name
		}
		old := last.Images[i]
		if v.Percent < old.Percent {
			wrong = append(wrong, fmt.Sprintf("version %s went from %d to %d %%", v.Version, old.Percent, v.Percent))
		}
		if v.State != old.State && old.State != cloud.Pending {
			wrong = append(wrong, fmt.Sprintf("version %s went from %q to %q without a call", v.Version, old.State, v.State))
		}
	}
	return wrong
}

func wrongPools(last, now memory.World) (wrong []string) {
	p := now.Pools[0]
	if p.Capacity != int64(len(now.Instances)) || p.Capacity > 5 {
		wrong = append(wrong, fmt.Sprintf("capacity %d with %d instances and at most 5", p.Capacity, len(now.Instances)))
	}
	if p.Recipe.Version == "" && p.Recipe.Image != "generic" {
		wrong = append(wrong, fmt.Sprintf("the recipe %+v is neither the original nor a version", p.Recipe))
	}
	i := slices.IndexFunc(now.Images, func(v memory.ImageView) bool { return v.InRecipe })
	if p.Recipe.Version != "" && (i < 0 || now.Images[i].State != cloud.Complete) {
		wrong = append(wrong, fmt.Sprintf("the recipe names version %s, which is not complete", p.Recipe.Version))
	}
	if now.At.Before(last.At) || !slices.IsSortedFunc(now.Effects, func(a, b memory.Effect) int { return a.At.Compare(b.At) }) {
		wrong = append(wrong, "time went back")
	}
	return wrong
}

func TestReadsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fresh := drawRig(t, rt)
		list := rapid.SliceOfN(steps, 20, 60).Draw(rt, "steps")
		seldom, often := fresh(), fresh()
		for _, s := range list {
			errSeldom := seldom.take(rt, s)
			if s.Do == "wait" {
				for range 7 {
					often.clock.Advance(s.Wait / 7)
					often.readAll(rt)
				}
				often.clock.Advance(s.Wait - 7*(s.Wait/7))
				continue
			}
			if errOften := often.take(rt, s); fmt.Sprint(errOften) != fmt.Sprint(errSeldom) {
				rt.Fatalf("step %+v: %v, and with looks between %v", s, errSeldom, errOften)
			}
		}
		if diff := cmp.Diff(seldom.World(), often.World()); diff != "" {
			rt.Fatalf("looking changed the world (-seldom +often):\n%s", diff)
		}
	})
}

// readAll makes every read. A failed read changes nothing, too.
func (r *rig) readAll(t *rapid.T) {
	ctx, ref := t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.10.01"}
	_, _ = r.Pool(ctx, r.pool)
	_, _ = r.Images(ctx, r.pool)
	_, _ = r.Image(ctx, ref)
	_, _ = r.RecipeChange(ctx, ref, true)
	_, _ = r.Snapshot(ctx, r.a, "s1")
	_, _ = r.Instance(ctx, r.a)
	_, _ = r.Preflight(ctx, cloud.PreflightSpec{Pool: r.pool, Instance: r.b, Version: ref.Version})
	r.World()
	r.Settle()
}
