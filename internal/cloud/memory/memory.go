package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Cloud is the whole of it: two halves, joined. Make one with New. Safe for concurrent use.
type Cloud struct {
	cloud.Provider
	*machines
	*pools
}

// Decorated implements cloud.Decorator: the powers are those of the halves.
func (c *Cloud) Decorated() cloud.Provider { return c.Provider }

// Disks is the half of machines, disks and images: a series of images is a line to it, and what built a machine it
// does not know.
type Disks struct{ *machines }

// Recipes is the half of pools, each with its recipe. Its machines are made by the other half's builder.
type Recipes struct{ *pools }

// clockwork is the lock of all there is, the clock that it goes by, and what it tells of.
type clockwork struct {
	// OnPower, if set before the first call, is told of every change of an instance's power, in order and
	// outside the cloud's lock: it may call back. PowerRunning is a boot; PowerUnknown tells that the
	// instance is gone. It is called by whichever call finds that time has made the change due.
	OnPower func(id cloud.InstanceID, p cloud.Power)

	mu  sync.Mutex
	now func() time.Time
	// at is the time of what happens now: the injected time, or that of the timer that is running.
	at     time.Time
	timers []timer

	news       []news
	delivering bool
}

// credential is what the caller may not do.
type credential struct {
	*clockwork
	forbidden map[string]bool
}

// shelf has the images of all lines.
type shelf struct {
	*clockwork
	images []*image
	lines  map[cloud.Line]*lineState
}

// machines is what the half of the disks has.
type machines struct {
	*clockwork
	credential
	shelf

	config Config
	// apart tells that what is built is built for somebody whose pools these machines know nothing of.
	apart bool

	instances []*instance
	snapshots []*snapshot

	effects   []Effect
	promotion []Promotion
	failing   failing
	// joining is how the machines of an image become nodes.
	joining map[string]Joining
}

// lineState is what there is of a line beside its images.
type lineState struct {
	// defined tells whether its image definition exists.
	defined bool
	// localStorage tells that zone-redundant storage was tried and is not to be had.
	localStorage bool
}

// pools is what the half of the recipes has.
type pools struct {
	*machines
	all    []*pool
	trials []*trial
}

var (
	_ cloud.Decorator   = (*Cloud)(nil)
	_ cloud.Disks       = (*Disks)(nil)
	_ cloud.LineShelf   = (*Disks)(nil)
	_ cloud.LineAuditor = (*Disks)(nil)
	_ cloud.Recipes     = (*Recipes)(nil)
	_ cloud.Census      = (*Recipes)(nil)
	_ cloud.Rebuilder   = (*Recipes)(nil)
	_ cloud.Remover     = (*Recipes)(nil)
	_ cloud.Trialist    = (*Recipes)(nil)
	_ cloud.Auditor     = (*Recipes)(nil)
	_ cloud.Atlas       = (*Recipes)(nil)
	_ cloud.Restorer    = (*Recipes)(nil)
	_ cloud.Recipes     = (*Objects)(nil)
	_ cloud.Census      = (*Objects)(nil)
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
	clock := &clockwork{now: config.Now, at: config.Now()}
	machines := &machines{
		clockwork: clock, credential: credential{clock, map[string]bool{}}, shelf: shelf{clockwork: clock, lines: map[cloud.Line]*lineState{}},
		config: config, apart: config.Apart,
	}
	pools := &pools{machines: machines}
	made := &Cloud{machines: machines, pools: pools}
	made.Provider = cloud.Join(made.Disks(), made.Recipes())
	return made
}

// Disks is its half of machines, disks and images, for recipes that are elsewhere.
func (c *Cloud) Disks() *Disks { return &Disks{c.machines} }

// Recipes is its half of pools and recipes, for disks that are elsewhere: they must have been made of this one's machines.
func (c *Cloud) Recipes() cloud.Recipes {
	if c.apart {
		return &Objects{pools: c.pools}
	}
	return &Recipes{c.pools}
}

// line is what there is of a line.
func (c *shelf) line(line cloud.Line) *lineState {
	if c.lines[line] == nil {
		c.lines[line] = &lineState{}
	}
	return c.lines[line]
}

// Settle lets happen what is due by now, as every other call does first. A test that only moves the
// clock calls it to hear of boots.
func (c *clockwork) Settle() { c.enter()() }

// enter locks the cloud and brings it up to date. The function that it returns unlocks and spreads the news.
func (c *clockwork) enter() (leave func()) {
	c.mu.Lock()
	c.settle()
	return func() {
		c.mu.Unlock()
		c.deliver()
	}
}

func (c *clockwork) settle() {
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

// after does something in d, or at once. Of two that are due at the same time the one asked for first
// happens first.
func (c *clockwork) after(d time.Duration, do func()) {
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
func (c *clockwork) deliver() {
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

func (c *clockwork) tell(n news) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.OnPower(n.id, n.power)
}

func (c *machines) record(by Actor, kind, resource string) {
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
	opEnsureRemoved  = "EnsureRemoved"
	opPreflightTrial = "PreflightTrial"
	opTrial          = "Trial"
	opTrials         = "Trials"
	opEnsureTrial    = "EnsureTrial"
	opCloseTrial     = "CloseTrial"
	opEndTrial       = "EndTrial"
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
	opEnsureRemoved:  "remove instance",
	opPreflightTrial: "preflight a trial in",
	opTrial:          "look at the trial of",
	opTrials:         "list the trials of",
	opEnsureTrial:    "begin the trial of",
	opCloseTrial:     "close the trial of",
	opEndTrial:       "end the trial of",
	opPermissions:    "list permissions on",
	opSnapshots:      "list snapshots",
	opDropSnapshot:   "delete snapshot",
	opPoolsBeside:    "list pools",
}

func refused(kind cloud.Kind, op, resource, code, message string) error {
	return &cloud.Error{Kind: kind, Op: phrases[op], Resource: resource, Code: code, Message: message}
}

// admit refuses a call whose context is over or that the credential may not make.
func (c *credential) admit(ctx context.Context, op, resource string) error {
	if err := ctx.Err(); err != nil {
		return &cloud.Error{Kind: cloud.Unavailable, Op: phrases[op], Resource: resource, Message: err.Error(), Err: err}
	}
	if c.forbidden[op] {
		return refused(cloud.Denied, op, resource, "AuthorizationFailed", "the credential may not "+phrases[op])
	}
	return nil
}
