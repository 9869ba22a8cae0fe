// Package memory is a cloud in this process: pools, machines, disks, snapshots and versions with latencies, limits and
// failures. It implements package cloud completely and passes package cloudtest.
//
// Nothing runs in the background. Each call first executes all due events in order, by an injected clock, so that equal
// calls at equal times give equal results. A disk has only the state that matters for an image: generalized since the
// last boot, and off during the copy.
//
// Besides the provider's calls there are calls for the guest (MarkGeneralized, GuestPowerOff), an autoscaler (ScaleIn),
// a stranger (RemoveInstance, ChangeRecipe, DeletePool) and failures (FailImages, SetQuota, Forbid). World returns the
// state and the history for tests. Faulty loses calls before or after their effect.
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
	mu  sync.Mutex
	now func() time.Time
	// at is the current time: the injected time, or the time of the running timer.
	at     time.Time
	timers []timer
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
	forbids  bool // Config.ForbidsLaunches
}

// machines has the state of the ImageProvider half.
type machines struct {
	*simulatedClock
	credential
	imageStore

	config Config

	instances []*instance
	snapshots []*snapshot
	copies    []*diskCopy

	effects   []Effect
	promotion []Promotion
	failing   failing
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
	all []*pool
	// trials and workshops are unfinished.
	trials, workshops []*trial
}

type timer struct {
	due time.Time
	do  func()
}

// New returns an empty cloud.
func New(config Config) *Cloud {
	if config.Now == nil {
		config.Now = time.Now
	}
	clock := &simulatedClock{now: config.Now, at: config.Now()}
	machines := &machines{
		simulatedClock: clock, credential: credential{clock, map[string]bool{}},
		imageStore: imageStore{simulatedClock: clock, families: map[cloud.ImageFamily]*familyState{}, forbids: config.ForbidsLaunches},
		config:     config, failing: failing{rebuilds: map[cloud.InstanceID]int{}},
	}
	pools := &pools{machines: machines}
	made := &Cloud{controls: &controls{machines}, machines: machines, pools: pools}
	made.Provider = cloud.New(cloud.DisksOf(made.Disks()), made.Recipes())
	return made
}

// Disks returns the half with machines, disks and images, for another PoolProvider.
func (c *Cloud) Disks() *ImageProvider { return &ImageProvider{c.machines} }

// Recipes returns the half with pools and recipes, for another ImageProvider with the same machines.
func (c *Cloud) Recipes() cloud.PoolProvider {
	if c.config.Apart {
		return cloud.RecipesOf(&Objects{&PoolProvider{c.pools}})
	}
	return cloud.RecipesOf(&PoolProvider{c.pools})
}

// family returns the state of an image family.
func (c *imageStore) family(family cloud.ImageFamily) *familyState {
	if c.families[family] == nil {
		c.families[family] = &familyState{}
	}
	return c.families[family]
}

// Settle executes all due events, as every other call does first. Tests that only move the clock call it.
func (c *simulatedClock) Settle() { c.enter()() }

// enter locks the cloud and executes due events. The returned function unlocks.
func (c *simulatedClock) enter() (leave func()) {
	c.mu.Lock()
	c.runDueTimers()
	return c.mu.Unlock
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
	opRestart        = "Restart"
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
	opAllowLaunches  = "AllowLaunches"
	opDeleteImage    = "DeleteImage"
	opPoolsOf        = "PoolsOf"
	opPool           = "Pool"
	opPreflight      = "Preflight"
	opRecipeChange   = "RecipeChange"
	opSetRecipe      = "SetRecipe"
	opRestoreChange  = "RestoreChange"
	opEnsureRebuilt  = "EnsureRebuilt"
	opResizeWarmPool = "ResizeWarmPool"
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

// Clock is a clock that only Advance moves. Clock is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at the time.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock. A negative duration moves it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
