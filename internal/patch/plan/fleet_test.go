package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// fleet is a simulated pool: between 200 and 600 nodes in a day, with random scale-in. The figures of a release are
// measured on Debian.
type fleet struct {
	random *rand.Rand
	now    time.Time

	// releases are the times of releases of patches. A node has all releases up to its number.
	releases []time.Time
	bad      map[int]bool // releases whose level does not boot
	kernel   map[int]bool // releases with a kernel
	nodes    []int
	image    int

	pool    PioneerFacts
	pioneer *pioneer

	megabytes, reboots, rebuilds float64
	exposed, all                 float64 // node-hours
	reached                      []float64
	waiting                      map[int]bool
	bootedBad                    map[int]int
}

// pioneer is the node of the pool that is patched first.
type pioneer struct {
	level int
	set   string
	ends  time.Time
}

const (
	fleetDays   = 28
	fleetStep   = 10 * time.Minute
	releaseMB   = 35.0
	kernelMB    = 140.0
	checkEvery  = 6 * time.Hour
	pioneerTime = 114 * time.Minute // patch, reboot, soak of an hour, capture
)

func newFleet(seed uint64) *fleet {
	return &fleet{
		random: rand.New(rand.NewPCG(seed, 40)), now: noon, bad: map[int]bool{}, kernel: map[int]bool{}, waiting: map[int]bool{},
		bootedBad: map[int]int{}, pool: PioneerFacts{Every: checkEvery, Failed: map[string]bool{}},
	}
}

// size is the pool's size at this time of the day.
func (f *fleet) size(least, most float64) int {
	day := float64(f.now.Sub(noon)) / float64(24*time.Hour)
	return int(least + (most-least)*(1+math.Cos(2*math.Pi*day))/2)
}

// scale lets nodes join from the image, and removes random nodes.
func (f *fleet) scale(least, most float64) {
	want := f.size(least, most)
	for len(f.nodes) < want {
		f.nodes = append(f.nodes, f.image)
	}
	for len(f.nodes) > want {
		i := f.random.IntN(len(f.nodes))
		f.nodes = slices.Delete(f.nodes, i, i+1)
	}
}

// release publishes patches now and then.
func (f *fleet) release(badShare float64) {
	if f.random.Float64() >= 0.5*float64(fleetStep)/float64(24*time.Hour) {
		return
	}
	f.releases = append(f.releases, f.now)
	level := len(f.releases)
	f.bad[level] = f.random.Float64() < badShare
	f.kernel[level] = f.random.Float64() < 0.35
	f.waiting[level] = true
}

// pending is the report of a node of the image.
func (f *fleet) pending() *patch.Report {
	var names []string
	for i := f.image; i < len(f.releases); i++ {
		names = append(names, fmt.Sprint("release-", i))
	}
	return checked(names...)
}

// lead follows the rule for pioneers: PioneerFacts.Next.
func (f *fleet) lead() {
	if p := f.pioneer; p != nil && !f.now.Before(p.ends) {
		f.pioneer, f.pool.ChangedAt = nil, f.now.Add(-time.Second)
		if f.bad[p.level] {
			f.pool.Failed[p.set] = true
		} else {
			f.image = p.level
		}
	}
	f.pool.Now, f.pool.Busy = f.now, f.pioneer != nil
	step, _, _ := f.pool.Next()
	if step == LookForPatches {
		f.pool.Checked = f.pool.Checked.Next(f.now, f.pending())
		step, _, _ = f.pool.Next()
	}
	if step != BeginPioneer {
		return
	}
	level := len(f.releases)
	f.pioneer = &pioneer{level: level, set: patch.Digest(f.pending().Pending), ends: f.now.Add(pioneerTime)}
	f.megabytes += releaseMB * float64(level-f.image)
	for i := f.image + 1; i <= level; i++ {
		if f.kernel[i] {
			f.megabytes += kernelMB
			break
		}
	}
	f.reboots++
	if f.bad[level] {
		f.bootedBad[level]++
	}
}

// rebuild rebuilds the oldest nodes from the image.
func (f *fleet) rebuild(perHour float64) {
	for range int(perHour * float64(fleetStep) / float64(time.Hour)) {
		oldest := slices.Index(f.nodes, slices.Min(f.nodes))
		if f.nodes[oldest] >= f.image {
			return
		}
		f.nodes[oldest] = f.image
		f.rebuilds++
	}
}

// count adds the node-hours of this step, and the releases that 95 % of the nodes have.
func (f *fleet) count() {
	hours := float64(fleetStep) / float64(time.Hour)
	f.all += hours * float64(len(f.nodes))
	latest := len(f.releases)
	for _, n := range f.nodes {
		if n < latest {
			f.exposed += hours
		}
	}
	for level := range f.waiting {
		have := 0
		for _, n := range f.nodes {
			if n >= level {
				have++
			}
		}
		if float64(have) >= 0.95*float64(len(f.nodes)) {
			f.reached = append(f.reached, f.now.Sub(f.releases[level-1]).Hours())
			delete(f.waiting, level)
		}
	}
}

// figures are the results of several seeds, per day.
type figures struct {
	gigabytes, reboots, rebuilds, exposed, hours float64
	fleets                                       []*fleet
}

// simulate runs a pool for four weeks with several seeds.
func simulate(least, most, perHour, badShare float64) figures {
	const seeds = 8
	var sum figures
	var reached []float64
	for seed := range uint64(seeds) {
		f := newFleet(seed)
		for f.now.Before(noon.Add(fleetDays * 24 * time.Hour)) {
			f.scale(least, most)
			f.release(badShare)
			f.lead()
			f.rebuild(perHour)
			f.count()
			f.now = f.now.Add(fleetStep)
		}
		const runs = seeds * fleetDays
		sum.gigabytes += f.megabytes / 1024 / runs
		sum.reboots += f.reboots / runs
		sum.rebuilds += f.rebuilds / runs
		sum.exposed += f.exposed / f.all / seeds
		reached = append(reached, f.reached...)
		sum.fleets = append(sum.fleets, f)
	}
	slices.Sort(reached)
	if len(reached) > 0 {
		sum.hours = reached[len(reached)/2]
	}
	return sum
}

// TestAFleetWithAPioneer simulates four weeks: one node downloads patches and reboots, and all others are copies.
//
// Patching each node at its boot costs about 250 GB and 400 reboots a day in the same pool.
func TestAFleetWithAPioneer(t *testing.T) {
	for _, c := range []struct {
		name                 string
		least, most, perHour float64
		exposed, hours       [2]float64
	}{
		{"old nodes age out", 200, 600, 0, [2]float64{0.25, 0.50}, [2]float64{40, 110}},
		{"old nodes are rebuilt", 200, 600, 18, [2]float64{0.10, 0.25}, [2]float64{8, 26}},
		{"little turnover, old nodes age out", 50, 60, 0, [2]float64{0.60, 0.95}, [2]float64{0, 400}},
		{"little turnover, old nodes are rebuilt", 50, 60, 6, [2]float64{0.10, 0.28}, [2]float64{6, 24}},
	} {
		got := simulate(c.least, c.most, c.perHour, 0)
		t.Logf("%s: %.3f GB, %.2f reboots and %.0f rebuilds a day, %.0f %% exposed, %.0f h to 95 %%", c.name, got.gigabytes,
			got.reboots, got.rebuilds, 100*got.exposed, got.hours)
		if got.gigabytes > 0.06 || got.reboots > 0.6 {
			t.Errorf("%s: %.3f GB and %.2f reboots a day", c.name, got.gigabytes, got.reboots)
		}
		if got.exposed < c.exposed[0] || got.exposed > c.exposed[1] {
			t.Errorf("%s: %.2f of the node-hours are exposed, want %v", c.name, got.exposed, c.exposed)
		}
		if got.hours < c.hours[0] || got.hours > c.hours[1] {
			t.Errorf("%s: %.0f hours until 95 %% of the nodes are patched, want %v", c.name, got.hours, c.hours)
		}
	}
}

// TestABadLevelIsBootedOnce: no bad level is tried twice, none becomes the image, and the pool goes on with the next.
func TestABadLevelIsBootedOnce(t *testing.T) {
	bad := 0
	for _, f := range simulate(200, 600, 18, 0.3).fleets {
		for level, times := range f.bootedBad {
			bad++
			if times != 1 {
				t.Errorf("level %d was booted %d times", level, times)
			}
		}
		for _, n := range f.nodes {
			if f.bad[n] {
				t.Fatalf("a node runs the bad level %d", n)
			}
		}
		if len(f.releases) > 2 && f.image == 0 {
			t.Errorf("no patch of %d reached the image", len(f.releases))
		}
	}
	if bad == 0 {
		t.Error("no level was bad")
	}
}
