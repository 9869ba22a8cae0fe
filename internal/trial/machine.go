package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Machine are the measurements of a node by a pod: the time to sync 16 MiB, the blocks hashed in a second, and the hard
// limit of open files. A zero field is unknown.
type Machine struct {
	Sync      time.Duration
	Hashes    int64
	OpenFiles uint64
	// Kernel are settings of the kernel, by name, such as vm.max_map_count, and the version of cgroups.
	Kernel map[string]uint64
}

const (
	// slower is the factor from which a node is slow, and leastSync the shortest time of a slow disk.
	slower, leastSync = 5, 2 * time.Second
)

// Names of the differences between machines, for settings.trial.ignoreDifferences.
const (
	differentDisk, differentProcessor, differentFiles = "speed/disk", "speed/cpu", "openFiles"
)

// Worse compares a node with another node of its pool. slow are properties that another host may explain; lacks are
// properties that only the image explains. ignored are names of differences, as in Exceptions.
func (m Machine) Worse(other Machine, ignored []string) (slow, lacks []string) {
	counts := func(name string) bool {
		return !slices.ContainsFunc(ignored, func(i string) bool { return matches(i, name) })
	}
	if m.Sync > leastSync && other.Sync > 0 && m.Sync > slower*other.Sync && counts(differentDisk) {
		slow = append(slow, fmt.Sprintf("writing 16 MiB to the disk takes %s, and %s there",
			m.Sync.Round(time.Millisecond), other.Sync.Round(time.Millisecond)))
	}
	if m.Hashes > 0 && m.Hashes*slower < other.Hashes && counts(differentProcessor) {
		slow = append(slow, fmt.Sprintf("the processor hashes %d blocks in a second, and %d there", m.Hashes, other.Hashes))
	}
	if m.OpenFiles > 0 && m.OpenFiles < other.OpenFiles && counts(differentFiles) {
		lacks = append(lacks, fmt.Sprintf("a process may open %d files, and %d there", m.OpenFiles, other.OpenFiles))
	}
	for _, name := range slices.Sorted(maps.Keys(other.Kernel)) { // memory decides about some, so a little less is no fault
		if here, known := m.Kernel[name]; known && here <= other.Kernel[name]/2 && counts("kernel/"+name) {
			lacks = append(lacks, fmt.Sprintf("%s is %d, and %d there", name, here, other.Kernel[name]))
		}
	}
	return slow, lacks
}

// JudgePerformance is the result of a comparison with another node of the pool. A slow host may be the cause of a slow node, so
// that the first attempt has no verdict: the next attempt has another instance.
func JudgePerformance(here, other Machine, node, from string, attempt int32, ignored []string) Measure {
	slow, lacks := here.Worse(other, ignored)
	says := func(found []string) string {
		return fmt.Sprintf("node %s is worse than node %s: %s", node, from, strings.Join(found, "; "))
	}
	switch {
	case len(lacks) > 0:
		return Measure{Failed, says(append(lacks, slow...))}
	case len(slow) > 0 && attempt > 1:
		return Measure{Failed, says(slow) + ". The instance of an earlier attempt had no verdict either"}
	case len(slow) > 0:
		return Measure{Inconclusive, says(slow) + ". Another instance shows whether the image is the cause"}
	}
	return Measure{Passed, fmt.Sprintf("disk, processor and limits of node %s are like those of node %s", node, from)}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// clock formats the end of a remaining time, rounded up to the minute. Each look formats the same text, so that a status
// with the text changes rarely.
func (f Facts) clock(left time.Duration) string {
	return f.Now.Add(left+time.Minute-1).UTC().Format("15:04") + " UTC"
}

// span formats a duration for messages.
func span(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
