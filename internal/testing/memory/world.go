package memory

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Actor is the originator of an effect.
type Actor string

// The actors.
const (
	ByCaller   Actor = "caller" // through cloud.Provider
	ByGuest    Actor = "guest"
	ByCloud    Actor = "cloud"
	ByStranger Actor = "stranger"
)

// Kinds of effects. Only a change is an effect, not a repeated call without work.
const (
	EffectStop           = "Stop"
	EffectStart          = "Start"
	EffectRestart        = "Restart"
	EffectBoot           = "Boot"
	EffectGeneralize     = "Generalize"
	EffectProtect        = "Protect"
	EffectUnprotect      = "Unprotect"
	EffectRemoveInstance = "RemoveInstance"
	EffectSnapshot       = "Snapshot"
	EffectDeleteSnapshot = "DeleteSnapshot"
	EffectDefine         = "Define"
	EffectImage          = "Image"
	EffectTagImage       = "TagImage"
	EffectAllowLaunches  = "AllowLaunches"
	EffectDeleteImage    = "DeleteImage"
	EffectSetRecipe      = "SetRecipe"
	EffectScale          = "Scale"
	EffectDeletePool     = "DeletePool"
	EffectRebuild        = "Rebuild"
	EffectResizeWarmPool = "ResizeWarmPool"
	EffectBeginTrial     = "BeginTrial"
	EffectEndTrial       = "EndTrial"
	EffectBeginWorkshop  = "BeginWorkshop"
	EffectEndWorkshop    = "EndWorkshop"
	EffectCopy           = "Copy" // a disk was made from a snapshot
	EffectAttach         = "Attach"
	EffectDetach         = "Detach"
	EffectEndCopy        = "EndCopy"
	EffectBootCopy       = "BootCopy" // a machine booted with the copy of another root
	EffectRoll           = "Roll"     // a running instance was updated by a write to its pool
)

// Effect is one change.
type Effect struct {
	At       time.Time
	By       Actor
	Kind     string
	Resource string
}

// Promotion is a change of a recipe by the caller, with the state of the version at the time.
type Promotion struct {
	At          time.Time
	Pool        cloud.PoolID
	Version     string
	State       cloud.State
	Generalized bool
	Quarantined bool
}

// PoolView is the state of a pool.
type PoolView struct {
	ID         cloud.PoolID
	Capacity   int64
	Recipe     cloud.Recipe
	Extensions []string
	// Defined is true if the pool has an image definition.
	Defined bool
}

// InstanceView is the state of a machine with its disk.
type InstanceView struct {
	ID               cloud.InstanceID
	Pool             cloud.PoolID
	Power            cloud.Power
	ScaleInProtected bool
	// Image and Bootstrap are from the recipe at the build. BuiltFrom is the version, if any.
	Image     string
	Bootstrap []string
	BuiltFrom string
	// Boots is the number of boots, and BootID the ID of the last boot.
	Boots  int
	BootID string
	// Generalized is true if the disk was generalized since the last boot.
	Generalized bool
}

// SnapshotView is the state of a snapshot.
type SnapshotView struct {
	Name  string
	State cloud.State
	Tags  map[string]string
	// Instance, BootID and Power are those of the donor at the copy.
	Instance cloud.InstanceID
	BootID   string
	Power    cloud.Power
	// Generalized is true if the copied disk was generalized and its machine was off.
	Generalized bool
}

// ImageView is the state of a version.
type ImageView struct {
	// Pool is empty if the version's pool is elsewhere.
	Pool    cloud.PoolID
	Version string
	State   cloud.State
	Percent int32
	Tags    map[string]string
	// Instance and BootID are those of the copied disk; empty for a version of AddVersion.
	Instance cloud.InstanceID
	BootID   string
	// Generalized is true if the copied disk was generalized and its machine was off.
	Generalized bool
	Quarantined bool
	// Forbidden is true if the cloud refuses launches of the version.
	Forbidden bool
	// Seeded is true for a version of AddVersion.
	Seeded             bool
	ExcludedFromLatest bool
	// InRecipe is true if the pool's next instance is built from the version.
	InRecipe bool
}

// TrialView is the state of an unfinished trial or workshop.
type TrialView struct {
	Name string
	Pool cloud.PoolID
	// Version is the version of the image; empty for another image.
	Version string
	// MachineType is what the trial asked for; empty for the type of the pool.
	MachineType string
	// Instances are the remaining instances of the trial.
	Instances []cloud.InstanceID
	Tags      map[string]string
}

// CopyView is the state of a copy of a donor's disk.
type CopyView struct {
	Name  string
	State cloud.State
	Tags  map[string]string
	// Workshop has the copy as a disk if IsAttached.
	Workshop   cloud.InstanceID
	IsAttached bool
	// Instance and BootID are those of the donor at the snapshot.
	Instance cloud.InstanceID
	BootID   string
	// Generalized is true if a guest has generalized the copy.
	Generalized bool
}

// World is the whole state at a time. It shares nothing with the cloud.
type World struct {
	At         time.Time
	Pools      []PoolView
	Instances  []InstanceView
	Snapshots  []SnapshotView
	Images     []ImageView // by pool, oldest first
	Trials     []TrialView
	Workshops  []TrialView
	Copies     []CopyView
	Effects    []Effect
	Promotions []Promotion
}

// World returns a copy of the whole state.
func (c *Cloud) World() World {
	defer c.enter()()
	w := World{At: c.at, Effects: slices.Clone(c.effects), Promotions: slices.Clone(c.promotion)}
	for _, p := range c.pools.all {
		w.Pools = append(w.Pools, PoolView{
			ID: p.id, Capacity: p.capacity, Recipe: c.recipeView(p),
			Extensions: slices.Clone(p.spec.Extensions), Defined: c.family(c.familyOf(p.id)).defined,
		})
		for _, v := range c.versions(c.familyOf(p.id)) {
			view := c.versionView(v)
			view.Pool, view.InRecipe = p.id, c.recipeVersion(p) == v.version
			w.Images = append(w.Images, view)
		}
	}
	for _, v := range c.images { // of pools elsewhere
		if !slices.ContainsFunc(c.pools.all, func(p *pool) bool { return c.familyOf(p.id) == v.family }) {
			w.Images = append(w.Images, c.versionView(v))
		}
	}
	for _, m := range c.instances {
		view := InstanceView{
			ID: m.id, Pool: m.owner, Power: m.power, ScaleInProtected: m.protected, Image: m.image,
			Bootstrap: slices.Clone(m.bootstrap), BuiltFrom: m.builtFrom, Boots: m.boots, Generalized: m.generalized,
		}
		if m.stray {
			view.BuiltFrom, _ = versionIn(c.familyOf(m.owner), m.image)
		}
		if m.boots > 0 {
			view.BootID = bootID(m.id, m.boots)
		}
		w.Instances = append(w.Instances, view)
	}
	for _, s := range c.snapshots {
		w.Snapshots = append(w.Snapshots, SnapshotView{
			Name: s.name, State: s.state, Tags: maps.Clone(s.tags), Instance: s.disk.instance,
			BootID: s.disk.bootID, Power: s.disk.power, Generalized: s.disk.clean(),
		})
	}
	w.Trials, w.Workshops = trialViews(c.trials), trialViews(c.workshops)
	for _, d := range c.copies {
		w.Copies = append(w.Copies, CopyView{
			Name: d.name, State: d.state, Tags: maps.Clone(d.tags), Workshop: d.instance, IsAttached: d.isAttached,
			Instance: d.disk.instance, BootID: d.disk.bootID, Generalized: d.disk.generalized,
		})
	}
	return w
}

func trialViews(all []*trial) (views []TrialView) {
	for _, t := range all {
		view := TrialView{Name: t.name, Pool: t.pool, Version: t.version, MachineType: t.machineType, Tags: maps.Clone(t.tags)}
		for _, m := range t.remaining() {
			view.Instances = append(view.Instances, m.id)
		}
		views = append(views, view)
	}
	return views
}

// versionView returns the state of a version of any pool.
func (c *imageStore) versionView(v *image) ImageView {
	return ImageView{
		Version: v.version, State: v.state, Percent: c.progress(v), Tags: maps.Clone(v.tags), Instance: v.disk.instance, BootID: v.disk.bootID,
		Generalized: v.disk.clean(), Quarantined: v.tags[cloud.TagQuarantined] != "", Seeded: v.seeded, ExcludedFromLatest: v.excluded,
		Forbidden: v.forbidden,
	}
}

// Instance returns an instance of the world; the zero value if there is none. IDs compare as in SameInstance.
func (w World) Instance(id cloud.InstanceID) InstanceView {
	for _, m := range w.Instances {
		if sameInstance(m.ID, id) {
			return m
		}
	}
	return InstanceView{}
}

// Count returns the number of effects; an empty resource matches all.
func (w World) Count(by Actor, kind, resource string) int {
	n := 0
	for _, e := range w.Effects {
		if e.By == by && e.Kind == kind && (resource == "" || e.Resource == resource) {
			n++
		}
	}
	return n
}

// Broken returns violations of Kamino's guarantees, in sentences: versions of unproven disks, recipes with incomplete, dirty or
// quarantined versions, writes that changed running instances, and boots with the copy of another root.
func (w World) Broken() []string {
	var broken []string
	for _, v := range w.Images {
		if v.Seeded {
			continue
		}
		if !v.Generalized {
			broken = append(broken, fmt.Sprintf("version %s of %s was published from a disk that was not generalized", v.Version, v.Pool))
		}
		if v.Tags[cloud.TagProof] == "" {
			broken = append(broken, fmt.Sprintf("version %s of %s carries no proof", v.Version, v.Pool))
		}
	}
	for _, v := range w.Images {
		if v.InRecipe && v.Forbidden {
			broken = append(broken, fmt.Sprintf("%s is built from version %s, which the cloud does not launch", v.Pool, v.Version))
		}
		if v.InRecipe && (v.State != cloud.Complete || v.Quarantined) {
			broken = append(broken, fmt.Sprintf("%s is built from version %s, which is %s, quarantined %t", v.Pool, v.Version, v.State, v.Quarantined))
		}
	}
	for _, p := range w.Promotions {
		if p.State != cloud.Complete || !p.Generalized || p.Quarantined {
			broken = append(broken, fmt.Sprintf("%s was pointed at version %s when it was %s, generalized %t, quarantined %t",
				p.Pool, p.Version, p.State, p.Generalized, p.Quarantined))
		}
	}
	return append(broken, w.brokenPools()...)
}

// brokenPools returns the violations in pools and their instances.
func (w World) brokenPools() (broken []string) {
	for _, e := range w.Effects {
		if e.Kind == EffectRoll {
			broken = append(broken, fmt.Sprintf("instance %s was changed by a write of its pool while it ran", e.Resource))
		}
		if e.Kind == EffectBootCopy {
			broken = append(broken, fmt.Sprintf("a machine booted with copy %s attached, perhaps from the copy", e.Resource))
		}
	}
	for _, p := range w.Pools {
		if p.Recipe.Version != "" && !w.has(p.ID, p.Recipe.Version) {
			broken = append(broken, fmt.Sprintf("%s is built from version %s, which does not exist", p.ID, p.Recipe.Version))
		}
	}
	return broken
}

func (w World) has(pool cloud.PoolID, version string) bool {
	return slices.ContainsFunc(w.Images, func(v ImageView) bool { return v.Pool == pool && v.Version == version })
}
