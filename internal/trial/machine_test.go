package trial

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestPerformance: a node fails by a lower limit at once, and by its speed only in a second attempt.
func TestPerformance(t *testing.T) {
	usual := Machine{Sync: 300 * time.Millisecond, Hashes: 100_000, OpenFiles: 1 << 20}
	with := func(change func(*Machine)) Machine {
		m := usual
		change(&m)
		return m
	}
	slowDisk := with(func(m *Machine) { m.Sync = 3 * time.Second })
	slowCPU := with(func(m *Machine) { m.Hashes = 19_999 })
	fewFiles := with(func(m *Machine) { m.OpenFiles = 1024 })
	maps := func(n uint64) Machine {
		return with(func(m *Machine) { m.Kernel = map[string]uint64{"vm.max_map_count": n} })
	}
	for name, c := range map[string]struct {
		here, other Machine
		attempt     int32
		ignored     []string
		want        Result
		says        string
	}{
		"equal":          {usual, usual, 1, nil, Passed, "are like those of node w-1"},
		"better":         {with(func(m *Machine) { *m = Machine{Sync: time.Millisecond, Hashes: 1 << 40, OpenFiles: 1 << 30} }), usual, 1, nil, Passed, ""},
		"unknown":        {Machine{}, usual, 1, nil, Passed, ""},
		"of an unknown":  {slowDisk, Machine{}, 2, nil, Passed, ""},
		"slower by less": {with(func(m *Machine) { m.Sync, m.Hashes = 1500*time.Millisecond, 20_000 }), usual, 2, nil, Passed, ""},
		"slower, but fast": {with(func(m *Machine) { m.Sync = 1900 * time.Millisecond }),
			with(func(m *Machine) { m.Sync = time.Millisecond }), 2, nil, Passed, ""},
		"slow disk":               {slowDisk, usual, 1, nil, Inconclusive, "writing 16 MiB to the disk takes 3s, and 300ms there"},
		"slow disk again":         {slowDisk, usual, 2, nil, Failed, "node t-0 is worse than node w-1: writing 16 MiB"},
		"slow disk, ignored":      {slowDisk, usual, 2, []string{"speed/disk"}, Passed, ""},
		"slow processor":          {slowCPU, usual, 1, nil, Inconclusive, "hashes 19999 blocks in a second, and 100000 there"},
		"slow processor again":    {slowCPU, usual, 3, nil, Failed, "earlier attempt"},
		"slow processor, ignored": {slowCPU, usual, 3, []string{"speed/*"}, Passed, ""},
		"few open files":          {fewFiles, usual, 1, nil, Failed, "a process may open 1024 files, and 1048576 there"},
		"few open files, ignored": {fewFiles, usual, 1, []string{"openFiles"}, Passed, ""},
		"few open files and slow": {with(func(m *Machine) { m.OpenFiles, m.Hashes = 1024, 1 }), usual, 1, nil, Failed,
			"files, and 1048576 there; the processor"},
		"defaults of the kernel":     {maps(65530), maps(262144), 1, nil, Failed, "vm.max_map_count is 65530, and 262144 there"},
		"a little less":              {maps(250000), maps(262144), 1, nil, Passed, ""},
		"ignored":                    {maps(65530), maps(262144), 1, []string{"kernel/*"}, Passed, ""},
		"more":                       {maps(262144), maps(65530), 1, nil, Passed, ""},
		"unknown here":               {usual, maps(65530), 1, nil, Passed, ""},
		"another's difference is no": {usual, fewFiles, 1, nil, Passed, ""},
	} {
		got := JudgePerformance(c.here, c.other, "t-0", "w-1", c.attempt, c.ignored)
		if got.Result != c.want || !strings.Contains(got.Says, c.says) {
			t.Errorf("%s: %+v, want %s %q", name, got, c.want, c.says)
		}
	}
}

// TestWorseIsOneSided: no machine is worse than itself, of two machines at most one is worse in a property, and a faster
// machine is never worse.
func TestWorseIsOneSided(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() Machine {
		return Machine{
			Sync:      time.Duration(random.IntN(30_000)) * time.Millisecond,
			Hashes:    random.Int64N(200_000),
			OpenFiles: uint64(1) << random.IntN(21),
		}
	}
	for range 2_000 {
		here, other := draw(), draw()
		if slow, lacks := here.Worse(here, nil); len(slow)+len(lacks) > 0 {
			t.Fatalf("%+v is worse than itself: %v, %v", here, slow, lacks)
		}
		slow, lacks := here.Worse(other, nil)
		back, lacksBack := other.Worse(here, nil)
		if len(slow)+len(back) > 2 || len(lacks)+len(lacksBack) > 1 {
			t.Fatalf("%+v and %+v: %v, %v, %v, %v", here, other, slow, back, lacks, lacksBack)
		}
		better := here
		better.Sync, better.Hashes, better.OpenFiles = here.Sync/2, here.Hashes*2, here.OpenFiles*2
		if now, less := better.Worse(other, nil); len(now) > len(slow) || len(less) > len(lacks) {
			t.Fatalf("%+v is better than %+v, and worse than %+v: %v, %v", better, here, other, now, less)
		}
		if all, none := here.Worse(other, []string{"speed/*", "openFiles"}); len(all)+len(none) > 0 {
			t.Fatalf("ignored differences count: %v, %v", all, none)
		}
	}
}

// TestRefusedAgainAndAgain: while the cloud still tries to make the instance, the messages have the latest error.
func TestRefusedAgainAndAgain(t *testing.T) {
	begun := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]string{
		time.Minute:      "Pending Provisioned: the cloud makes the instance; the latest error: root volume too small",
		11 * time.Minute: "Inconclusive Provisioned: the cloud has not made an instance within 10m0s; the latest error: root volume too small",
	} {
		v := Judge(Facts{
			Now:      begun.Add(after),
			Begun:    begun,
			Instance: Instance{Error: "root volume too small"},
		})
		if got := string(v.Result) + " " + v.Message; got != want {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
}
