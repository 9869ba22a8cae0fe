package memory

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Actor is who did something.
type Actor string

// Actors.
const (
	ByCaller   Actor = "caller" // through cloud.Provider
	ByGuest    Actor = "guest"
	ByCloud    Actor = "cloud"
	ByStranger Actor = "stranger"
)

// Kinds of effects. Only what changed something is one: a repeated call that found its work done is not.
const (
	EffectStop           = "Stop"
	EffectStart          = "Start"
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
	EffectDeleteImage    = "DeleteImage"
	EffectSetRecipe      = "SetRecipe"
	EffectSetCapacity    = "SetCapacity"
	EffectDeletePool     = "DeletePool"
	EffectRebuild        = "Rebuild"
	EffectBeginTrial     = "BeginTrial"
	EffectCloseTrial     = "CloseTrial"
	EffectEndTrial       = "EndTrial"
	EffectRoll           = "Roll" // a running instance was brought up to a write of its pool
)

// Effect is one thing that was done.
type Effect struct {
	At       time.Time
	By       Actor
	Kind     string
	Resource string
}

// Promotion is one moment in which the caller pointed a recipe at a version, with what the version was then.
type Promotion struct {
	At          time.Time
	Pool        cloud.PoolID
	Version     string
	State       cloud.State
	Generalized bool
	Quarantined bool
}

// PoolView is a pool as it is.
type PoolView struct {
	ID         cloud.PoolID
	Capacity   int64
	Recipe     cloud.Recipe
	Extensions []string
	// Defined tells whether the pool has an image definition.
	Defined bool
}

// InstanceView is a machine as it is, its disk included.
type InstanceView struct {
	ID               cloud.InstanceID
	Pool             cloud.PoolID
	Power            cloud.Power
	ScaleInProtected bool
	// Image and Bootstrap are the recipe that it was built from; BuiltFrom is its version, if any.
	Image     string
	Bootstrap []string
	BuiltFrom string
	// Boots counts; BootID is the last one's.
	Boots  int
	BootID string
	// Generalized tells whether its disk was generalized since it last booted.
	Generalized bool
}

// SnapshotView is a snapshot as it is.
type SnapshotView struct {
	Name  string
	State cloud.State
	Tags  map[string]string
	// Instance whose disk it is, with its last boot and its power when it was copied.
	Instance cloud.InstanceID
	BootID   string
	Power    cloud.Power
	// Generalized tells that the copied disk was generalized and its machine off.
	Generalized bool
}

// ImageView is a version as it is.
type ImageView struct {
	// Pool is empty where the version's pool is elsewhere.
	Pool    cloud.PoolID
	Version string
	State   cloud.State
	Percent int32
	Tags    map[string]string
	// Instance and BootID of the disk that it is a copy of; empty for a version of AddVersion.
	Instance cloud.InstanceID
	BootID   string
	// Generalized tells that the copied disk was generalized and its machine off.
	Generalized bool
	Quarantined bool
	// Seeded tells that the version was there before (AddVersion).
	Seeded             bool
	ExcludedFromLatest bool
	// InRecipe tells that the next instance of the pool is built from it.
	InRecipe bool
}

// TrialView is a trial that was begun and has not ended.
type TrialView struct {
	Name    string
	Pool    cloud.PoolID
	Version string
	InPool  bool
	// Open tells that the pool's recipe names the version for it.
	Open bool
	// Instances that were built for it and are not gone.
	Instances []cloud.InstanceID
	Tags      map[string]string
}

// World is all there is at one moment. It shares nothing with the cloud.
type World struct {
	At         time.Time
	Pools      []PoolView
	Instances  []InstanceView
	Snapshots  []SnapshotView
	Images     []ImageView // by pool, oldest first
	Trials     []TrialView
	Effects    []Effect
	Promotions []Promotion
}

// World copies all there is.
func (c *Cloud) World() World {
	defer c.enter()()
	w := World{At: c.at, Effects: slices.Clone(c.effects), Promotions: slices.Clone(c.promotion)}
	for _, p := range c.pools.all {
		w.Pools = append(w.Pools, PoolView{
			ID: p.id, Capacity: p.capacity, Recipe: c.recipeView(p),
			Extensions: slices.Clone(p.spec.Extensions), Defined: c.line(c.lineOf(p.id)).defined,
		})
		for _, v := range c.versions(c.lineOf(p.id)) {
			view := c.versionView(v)
			view.Pool, view.InRecipe = p.id, c.recipeVersion(p) == v.version
			w.Images = append(w.Images, view)
		}
	}
	for _, v := range c.images { // of pools that are elsewhere
		if !slices.ContainsFunc(c.pools.all, func(p *pool) bool { return c.lineOf(p.id) == v.line }) {
			w.Images = append(w.Images, c.versionView(v))
		}
	}
	for _, m := range c.instances {
		view := InstanceView{
			ID: m.id, Pool: m.owner, Power: m.power, ScaleInProtected: m.protected, Image: m.image,
			Bootstrap: slices.Clone(m.bootstrap), BuiltFrom: m.builtFrom, Boots: m.boots, Generalized: m.generalized,
		}
		if m.stray {
			view.BuiltFrom, _ = versionIn(c.lineOf(m.owner), m.image)
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
	for _, t := range c.trials {
		view := TrialView{Name: t.name, Pool: t.pool, Version: t.version, InPool: t.inPool, Open: t.open, Tags: maps.Clone(t.tags)}
		for _, m := range t.left() {
			view.Instances = append(view.Instances, m.id)
		}
		w.Trials = append(w.Trials, view)
	}
	return w
}

// versionView is a version as it is, of whatever pool.
func (c *shelf) versionView(v *image) ImageView {
	return ImageView{
		Version: v.version, State: v.state, Percent: c.progress(v), Tags: maps.Clone(v.tags), Instance: v.disk.instance, BootID: v.disk.bootID,
		Generalized: v.disk.clean(), Quarantined: v.tags[cloud.TagQuarantined] != "", Seeded: v.seeded, ExcludedFromLatest: v.excluded,
	}
}

// Instance of the world; the zero value if there is none. The ID is compared as Cloud.SameInstance does.
func (w World) Instance(id cloud.InstanceID) InstanceView {
	for _, m := range w.Instances {
		if sameInstance(m.ID, id) {
			return m
		}
	}
	return InstanceView{}
}

// Count tells how often something was done, to any resource if none is given.
func (w World) Count(by Actor, kind, resource string) int {
	n := 0
	for _, e := range w.Effects {
		if e.By == by && e.Kind == kind && (resource == "" || e.Resource == resource) {
			n++
		}
	}
	return n
}

// Broken lists, in sentences, how the world is or was other than a caller may ever let it be: a version
// published from a disk that was not generalized or has no proof on its tags, a recipe pointed at a version
// that was not complete, not generalized or quarantined, or one that has become so and is still named, a write
// that changed instances which run.
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

// brokenPools lists what happened to pools and their instances.
func (w World) brokenPools() (broken []string) {
	for _, e := range w.Effects {
		if e.Kind == EffectRoll {
			broken = append(broken, fmt.Sprintf("instance %s was changed by a write of its pool while it ran", e.Resource))
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
