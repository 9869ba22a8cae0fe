// Package report calculates what Kamino's versions saved a pool, and what the versions cost. Every figure names its source
// and is unknown without one. The package is pure: package pool reads the facts.
package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// Facts are what the cluster and the cloud know about a pool now.
type Facts struct {
	Pool string
	// Since and Now are the beginning and the end of the report.
	Since, Now time.Time
	// Nodes are the instances of the pool. Counted is false if the cloud could not list the instances.
	Nodes   []NodeFacts
	Counted bool
	// Versions of the pool, in any order.
	Versions []VersionFacts
	// Captures are the Prototypes of the pool.
	Captures []v1alpha1.Prototype
	// ImageBytes are the sizes of container images on the nodes, by name, as reported by the kubelets.
	ImageBytes map[string]int64
	// PricePerGBMonth of a stored version, in any currency; negative if unknown.
	PricePerGBMonth float64
	// PullRate and VolumeRate in MiB/s are of a pull with its unpacking, and of the first read of a new volume; zero if unknown.
	PullRate, VolumeRate float64
}

// NodeFacts is an instance of the pool.
type NodeFacts struct {
	// Version that the instance was built from; empty for another image.
	Version string
	// Created is the creation of the instance; zero if unknown.
	Created time.Time
	// Registered is the creation of the Node; zero without a Node. Ready is the last change of the Node to Ready; zero for a
	// Node that is not Ready.
	Registered, Ready time.Time
	// Interrupted is when a patch or a capture first took the node out of service; zero if never, or if unknown. A later
	// change to Ready is no join.
	Interrupted time.Time
	// PatchedAt is the last patch of the running node; zero if unknown.
	PatchedAt time.Time
	// PendingSince is the time of a patch that waits for a reboot of the node; zero without one.
	PendingSince time.Time
	// Failed: the node did not become or stay healthy in time.
	Failed bool
}

// VersionFacts is an image version.
type VersionFacts struct {
	Version string
	BuiltAt time.Time
	// PatchedAt is the last patch of the donor; zero if unknown.
	PatchedAt time.Time
	// SizeGB is the size of the disk; 0 if unknown.
	SizeGB int32
	// Images are the names of the container images on the disk; nil if unknown.
	Images []string
}

// Report is the result for a pool.
type Report struct {
	Pool  string    `json:"pool"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Builds compare the nodes of each version, newest first. The last build with an empty version has all other images.
	Builds []Build `json:"builds"`
	// Figures are savings first, then costs.
	Figures []Figure `json:"figures"`
}

// Build has the nodes built from one version since the beginning of the report.
type Build struct {
	// Version is empty for all images that are no version of the pool.
	Version string `json:"version"`
	// Nodes is the number of nodes built since the beginning that still exist.
	Nodes int `json:"nodes"`
	// Measured nodes have a known time from the creation of the instance to the Ready Node. Median and P95 are in seconds;
	// zero without a measured node.
	Measured      int   `json:"measured"`
	MedianSeconds int64 `json:"medianSeconds,omitempty"`
	P95Seconds    int64 `json:"p95Seconds,omitempty"`
	// Failed nodes did not become or stay healthy in time.
	Failed int `json:"failed"`
}

// Figure is a number with its source.
type Figure struct {
	// Name is a stable key, and Title the name for people.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Value in Unit; nil if unknown.
	Value *float64 `json:"value"`
	Unit  string   `json:"unit"`
	// Kind separates savings from costs.
	Kind Kind `json:"kind"`
	// Source names where the figure comes from, or why the figure is unknown.
	Source string `json:"source"`
}

// Kind is the kind of a figure.
type Kind string

// The kinds of figures.
const (
	Saved Kind = "saved"
	Risk  Kind = "risk"
	Cost  Kind = "cost"
)

// Sources of figures. They are facts that the cluster and the cloud have now.
const (
	fromInstances = "creation of the instances in the cloud; removed nodes are not counted"
	fromLists     = "lists of the versions' contents, and nodes built from the versions"
	noInstances   = "unknown: the cloud cannot list the pool's instances"
	noPatches     = "unknown: no version has the tag kamino-patched-at"
)

// joinWithin is the longest plausible join. A later change to Ready is an interruption of a running node.
const joinWithin = time.Hour

// joined is the time from the creation of the instance to the Ready Node; false if unknown. After a later reboot of the
// node only the registration is known, which is a little earlier.
func (n NodeFacts) joined() (time.Duration, bool) {
	ready := n.Ready
	if !n.Interrupted.IsZero() && !ready.Before(n.Interrupted) {
		ready = time.Time{}
	}
	for _, at := range []time.Time{ready, n.Registered} {
		if d := at.Sub(n.Created); !at.IsZero() && d >= 0 && d <= joinWithin {
			// Without a time from the cloud, Created is the time of the registration.
			return d, !at.Equal(n.Registered) || d > 0
		}
	}
	return 0, false
}

// Of calculates the report of a pool.
func Of(f Facts) Report {
	f.Versions = slices.Clone(f.Versions)
	slices.SortFunc(f.Versions, func(a, b VersionFacts) int { return imageversion.Compare(b.Version, a.Version) })
	r := Report{Pool: f.Pool, Since: f.Since, Until: f.Now, Builds: []Build{}}
	if f.Counted {
		r.Builds = builds(f)
	}
	r.Figures = []Figure{
		f.timeSaved(r.Builds), f.rebootsAvoided(), f.pullsAvoided(), f.bytesAvoided(), f.packagesAvoided(), f.removedNodes(),
		f.exposure(), f.failedJoins(),
		f.captures(v1alpha1.PhaseSucceeded), f.captures(v1alpha1.PhaseFailed), f.donors(), f.donorHours(), f.pioneerHours(), f.trialHours(), f.storage(),
	}
	if f.PricePerGBMonth >= 0 {
		r.Figures = append(r.Figures, f.price())
	}
	if f.PullRate > 0 && f.VolumeRate > 0 {
		r.Figures = append(r.Figures, cacheGain(f))
	}
	return r
}

// version finds a version by name; nil for another image.
func (f Facts) version(name string) *VersionFacts {
	i := slices.IndexFunc(f.Versions, func(v VersionFacts) bool { return name != "" && imageversion.Compare(v.Version, name) == 0 })
	if i < 0 {
		return nil
	}
	return &f.Versions[i]
}

// built are the nodes built since the beginning of the report, by version. An unknown creation counts as earlier.
func (f Facts) built() map[string][]NodeFacts {
	built := map[string][]NodeFacts{}
	for _, n := range f.Nodes {
		if n.Created.IsZero() || n.Created.Before(f.Since) {
			continue
		}
		name := n.Version // possibly a deleted version
		if v := f.version(n.Version); v != nil {
			name = v.Version
		}
		built[name] = append(built[name], n)
	}
	return built
}

func builds(f Facts) []Build {
	built := f.built()
	all := []Build{}
	newestFirst := func(a, b string) int { return cmp.Or(imageversion.Compare(b, a), cmp.Compare(b, a)) }
	for _, version := range slices.SortedFunc(maps.Keys(built), newestFirst) {
		nodes := built[version]
		b := Build{Version: version, Nodes: len(nodes)}
		var took []time.Duration
		for _, n := range nodes {
			if n.Failed {
				b.Failed++
			}
			if d, known := n.joined(); known {
				took = append(took, d)
			}
		}
		slices.Sort(took)
		if b.Measured = len(took); b.Measured > 0 {
			b.MedianSeconds, b.P95Seconds = seconds(quantile(took, 50)), seconds(quantile(took, 95))
		}
		all = append(all, b)
	}
	return all
}

// quantile returns a percentile of sorted durations: the smallest value that so many percent do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func seconds(d time.Duration) int64 { return int64(d.Round(time.Second).Seconds()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
