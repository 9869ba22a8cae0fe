package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Cloud is the whole of it. Make one with New. Safe for concurrent use.
type Cloud struct {
	// OnPower, if set before the first call, is told of every change of an instance's power, in order and
	// outside the cloud's lock: it may call back. PowerRunning is a boot; PowerUnknown tells that the
	// instance is gone. It is called by whichever call finds that time has made the change due.
	OnPower func(id cloud.InstanceID, p cloud.Power)

	mu     sync.Mutex
	config Config
	// at is the time of what happens now: the injected time, or that of the timer that is running.
	at     time.Time
	timers []timer

	pools     []*pool
	instances []*instance
	snapshots []*snapshot
	images    []*image

	effects   []Effect
	promotion []Promotion
	forbidden map[string]bool
	failing   failing

	news       []news
	delivering bool
}

var (
	_ cloud.Provider  = (*Cloud)(nil)
	_ cloud.Census    = (*Cloud)(nil)
	_ cloud.Rebuilder = (*Cloud)(nil)
	_ cloud.Auditor   = (*Cloud)(nil)
	_ cloud.Shelf     = (*Cloud)(nil)
	_ cloud.Atlas     = (*Cloud)(nil)
)

type timer struct {
	due time.Time
	do  func()
}

type news struct {
	id    cloud.InstanceID
	power cloud.Power
}

// New makes an empty cloud.
func New(config Config) *Cloud {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Cloud{config: config, at: config.Now(), forbidden: map[string]bool{}}
}

// Settle lets happen what is due by now, as every other call does first. A test that only moves the
// clock calls it to hear of boots.
func (c *Cloud) Settle() { c.enter()() }

// enter locks the cloud and brings it up to date. The function that it returns unlocks and spreads the news.
func (c *Cloud) enter() (leave func()) {
	c.mu.Lock()
	c.settle()
	return func() {
		c.mu.Unlock()
		c.deliver()
	}
}

func (c *Cloud) settle() {
	now := c.config.Now()
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

// after does something in d, or at once. Of two that are due at the same time the one asked for first
// happens first.
func (c *Cloud) after(d time.Duration, do func()) {
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

// deliver tells the news in order. A call made from within OnPower only adds to it: the call on the
// outside is still telling.
func (c *Cloud) deliver() {
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
			c.tell(n)
		}
	}
}

func (c *Cloud) tell(n news) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.OnPower(n.id, n.power)
}

func (c *Cloud) record(by Actor, kind, resource string) {
	c.effects = append(c.effects, Effect{At: c.at, By: by, Kind: kind, Resource: resource})
}

// Names of the calls, as Faulty counts them and Forbid refuses them.
const (
	opInstance       = "Instance"
	opInstances      = "Instances"
	opEnsureStopped  = "EnsureStopped"
	opEnsureStarted  = "EnsureStarted"
	opHoldOf         = "HoldOf"
	opHold           = "Hold"
	opUnhold         = "Unhold"
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
	opPermissions    = "Permissions"
)

// phrases say in an error what was attempted.
var phrases = map[string]string{
	opInstance:       "look at instance",
	opInstances:      "list instances of",
	opEnsureStopped:  "stop instance",
	opEnsureStarted:  "start instance",
	opHoldOf:         "look at the hold of instance",
	opHold:           "hold instance",
	opUnhold:         "give back the hold of instance",
	opSnapshot:       "look at snapshot",
	opEnsureSnapshot: "make snapshot",
	opDeleteSnapshot: "delete snapshot",
	opImage:          "look at image version",
	opImages:         "list image versions of",
	opEnsureImage:    "make image version",
	opTagImage:       "tag image version",
	opDeleteImage:    "delete image version",
	opPoolsOf:        "find the pools of nodes",
	opPool:           "look at pool",
	opPreflight:      "preflight",
	opRecipeChange:   "look at recipe of",
	opSetRecipe:      "set recipe of",
	opRestoreChange:  "look at what can be restored of",
	opSetCapacity:    "set capacity of",
	opEnsureRebuilt:  "rebuild instance",
	opPermissions:    "list permissions on",
	opSnapshots:      "list snapshots",
	opDropSnapshot:   "delete snapshot",
	opPoolsBeside:    "list pools",
}

func refused(kind cloud.Kind, op, resource, code, message string) error {
	return &cloud.Error{Kind: kind, Op: phrases[op], Resource: resource, Code: code, Message: message}
}

// admit refuses a call whose context is over or that the credential may not make.
func (c *Cloud) admit(ctx context.Context, op, resource string) error {
	if err := ctx.Err(); err != nil {
		return &cloud.Error{Kind: cloud.Unavailable, Op: phrases[op], Resource: resource, Message: err.Error(), Err: err}
	}
	if c.forbidden[op] {
		return refused(cloud.Denied, op, resource, "AuthorizationFailed", "the credential may not "+phrases[op])
	}
	return nil
}
