package memory

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Cloud is a whole cloud of two joined halves. Use New to make a Cloud. Cloud is safe for concurrent use.
type Cloud struct {
	cloud.Provider
	*machines
	*pools
	*controls
}

// ImageProvider is the half with machines, disks and images. It knows image families, but no pools.
type ImageProvider struct{ *machines }

// PoolProvider is the half with pools and recipes. Its machines are in the other half.
type PoolProvider struct{ *pools }

// simulatedClock has the lock, the clock and the events of a cloud.
type simulatedClock struct {
	// OnPower is called for every change of an instance's power, in order and without the cloud's lock. Set OnPower before the
	// first call. PowerRunning means a boot, and PowerUnknown a deleted instance.
	OnPower func(id cloud.InstanceID, p cloud.Power)

	mu  sync.Mutex
	now func() time.Time
	// at is the current time: the injected time, or the time of the running timer.
	at     time.Time
	timers []timer

	news       []poolChanges
	delivering bool
}

// credential has the forbidden calls.
type credential struct {
	*simulatedClock
	forbidden map[string]bool
}

// imageStore has the images of all image families.
type imageStore struct {
	*simulatedClock
	images   []*image
	families map[cloud.ImageFamily]*familyState
}

// machines has the state of the ImageProvider half.
type machines struct {
	*simulatedClock
	credential
	imageStore

	config Config
	// apart is true if machines are built for pools of another cloud.
	apart bool

	instances []*instance
	snapshots []*snapshot

	effects   []Effect
	promotion []Promotion
	failing   failing
	// joinBehaviours is how the machines of an image become nodes.
	joinBehaviours map[string]JoinBehaviour
}

// familyState is the state of an image family apart from its images.
type familyState struct {
	// defined is true if the image definition exists.
	defined bool
	// localStorage is true after zone-redundant storage has failed.
	localStorage bool
}

// pools has the state of the PoolProvider half.
type pools struct {
	*machines
	all    []*pool
	trials []*trial
}

var (
	_ cloud.Provider      = (*Cloud)(nil)
	_ cloud.ImageProvider = (*ImageProvider)(nil)
	_ cloud.PoolProvider  = (*PoolProvider)(nil)
	_ cloud.PoolProvider  = (*Objects)(nil)
)

type timer struct {
	due time.Time
	do  func()
}

type poolChanges struct {
	id    cloud.InstanceID
	power cloud.Power
}

// New returns an empty cloud.
func New(config Config) *Cloud {
	if config.Now == nil {
		config.Now = time.Now
	}
	clock := &simulatedClock{now: config.Now, at: config.Now()}
	machines := &machines{
		simulatedClock: clock, credential: credential{clock, map[string]bool{}}, imageStore: imageStore{simulatedClock: clock, families: map[cloud.ImageFamily]*familyState{}},
		config: config, apart: config.Apart, joinBehaviours: map[string]JoinBehaviour{},
		failing: failing{starts: map[cloud.InstanceID]int{}, rebuilds: map[cloud.InstanceID]int{}},
	}
	pools := &pools{machines: machines}
	made := &Cloud{controls: &controls{machines}, machines: machines, pools: pools}
	made.Provider = cloud.New(made.Disks(), made.Recipes())
	return made
}

// Disks returns the half with machines, disks and images, for another PoolProvider.
func (c *Cloud) Disks() *ImageProvider { return &ImageProvider{c.machines} }

// Recipes returns the half with pools and recipes, for another ImageProvider with the same machines.
func (c *Cloud) Recipes() cloud.PoolProvider {
	if c.apart {
		return &Objects{&PoolProvider{c.pools}}
	}
	return &PoolProvider{c.pools}
}

// family returns the state of an image family.
func (c *imageStore) family(family cloud.ImageFamily) *familyState {
	if c.families[family] == nil {
		c.families[family] = &familyState{}
	}
	return c.families[family]
}

// Settle executes all due events, as every other call does first. Tests that only move the clock call it to receive
// boots.
func (c *simulatedClock) Settle() { c.enter()() }

// enter locks the cloud and executes due events. The returned function unlocks and delivers events.
func (c *simulatedClock) enter() (leave func()) {
	c.mu.Lock()
	c.runDueTimers()
	return func() {
		c.mu.Unlock()
		c.deliver()
	}
}

func (c *simulatedClock) runDueTimers() {
	now := c.now()
	for len(c.timers) > 0 && !c.timers[0].due.After(now) {
		next := c.timers[0]
		c.timers = c.timers[1:]
		if next.due.After(c.at) {
			c.at = next.due
		}
		next.do()
	}
	if now.After(c.at) {
		c.at = now
	}
}

// after calls do after d, or at once. Calls due at the same time run in the order of their requests.
func (c *simulatedClock) after(d time.Duration, do func()) {
	if d <= 0 {
		do()
		return
	}
	t := timer{due: c.at.Add(d), do: do}
	i := slices.IndexFunc(c.timers, func(other timer) bool { return other.due.After(t.due) })
	if i < 0 {
		i = len(c.timers)
	}
	c.timers = slices.Insert(c.timers, i, t)
}

// deliver calls OnPower for all events in order. A nested call only adds events, because the outer call continues.
func (c *simulatedClock) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivering {
		return
	}
	c.delivering = true
	defer func() { c.delivering = false }()
	for len(c.news) > 0 {
		n := c.news[0]
		c.news = c.news[1:]
		if c.OnPower != nil {
			c.report(n)
		}
	}
}

func (c *simulatedClock) report(n poolChanges) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.OnPower(n.id, n.power)
}

func (c *machines) record(by Actor, kind, resource string) {
	c.effects = append(c.effects, Effect{At: c.at, By: by, Kind: kind, Resource: resource})
}

// Names of the calls, for Faulty and Forbid.
const (
	opInstance       = "Instance"
	opInstances      = "Instances"
	opEnsureStopped  = "EnsureStopped"
	opEnsureStarted  = "EnsureStarted"
	opConsoleOutput  = "ConsoleOutput"
	opProtection     = "Protection"
	opProtect        = "ProtectFromScaleIn"
	opUnprotect      = "Unprotect"
	opSnapshot       = "Snapshot"
	opEnsureSnapshot = "EnsureSnapshot"
	opDeleteSnapshot = "DeleteSnapshot"
	opImage          = "Image"
	opImages         = "Images"
	opEnsureImage    = "EnsureImage"
	opTagImage       = "TagImage"
	opDeleteImage    = "DeleteImage"
	opPoolsOf        = "PoolsOf"
	opPool           = "Pool"
	opPreflight      = "Preflight"
	opRecipeChange   = "RecipeChange"
	opSetRecipe      = "SetRecipe"
	opRestoreChange  = "RestoreChange"
	opSetCapacity    = "SetCapacity"
	opEnsureRebuilt  = "EnsureRebuilt"
	opEnsureRemoved  = "EnsureRemoved"
	opPreflightTrial = "PreflightTrial"
	opTrial          = "Trial"
	opTrials         = "Trials"
	opEnsureTrial    = "EnsureTrial"
	opEndTrial       = "EndTrial"
	opPermissions    = "Permissions"
)

var capital = regexp.MustCompile("[A-Z]")

// phrase is a call in error texts: "ensure snapshot".
func phrase(op string) string {
	return strings.ToLower(strings.TrimSpace(capital.ReplaceAllString(op, " $0")))
}

func refused(kind cloud.Kind, op, resource, code, message string) error {
	return &cloud.Error{Kind: kind, Op: phrase(op), Resource: resource, Code: code, Message: message}
}

// admit refuses a call with an ended context or without permission.
func (c *credential) admit(ctx context.Context, op, resource string) error {
	if err := ctx.Err(); err != nil {
		return &cloud.Error{Kind: cloud.Unavailable, Op: phrase(op), Resource: resource, Message: err.Error(), Err: err}
	}
	if c.forbidden[op] {
		return refused(cloud.Denied, op, resource, "AuthorizationFailed", "the credential may not "+phrase(op))
	}
	return nil
}
