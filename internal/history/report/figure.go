package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Text is the value with its unit, or "unknown". Less than an hour is in minutes, less than a minute in seconds, and a value
// below one has two digits.
func (f Figure) Text() string {
	if f.Value == nil {
		return "unknown"
	}
	value, unit, places := *f.Value, f.Unit, 1
	if part, inHours := strings.CutSuffix(unit, "hours"); inHours && value != 0 && math.Abs(value) < 1 {
		if value, unit = 60*value, part+"minutes"; math.Abs(value) < 1 {
			value, unit = math.Round(60*value), part+"seconds"
		}
	}
	if value != 0 && math.Abs(value) < 1 {
		places -= int(math.Floor(math.Log10(math.Abs(value))))
	}
	text := strconv.FormatFloat(value, 'f', places, 64)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "1" {
		unit = strings.TrimSuffix(unit, "s")
	}
	return cmp.Or(text, "0") + " " + unit
}

func known(value float64) *float64 { return &value }

// timeSaved compares the median of each version with the median of other images.
func (f Facts) timeSaved(builds []Build) Figure {
	figure := Figure{Name: "time-saved", Title: "waiting time saved by new nodes", Unit: "hours", Kind: Saved}
	generic, isMeasured := int64(0), false
	for _, b := range builds {
		if b.Version == "" {
			generic, isMeasured = b.MedianSeconds, b.Measured > 0
		}
	}
	saved, nodes := int64(0), 0
	for _, b := range builds {
		if b.Version != "" && b.Measured > 0 {
			saved += (generic - b.MedianSeconds) * int64(b.Nodes)
			nodes += b.Nodes
		}
	}
	switch {
	case !f.Counted:
		figure.Source = noInstances
	case !isMeasured:
		figure.Source = "unknown: no node of another image was built in this time, so there is nothing to compare with"
	case nodes == 0:
		figure.Source = "unknown: no node of a version was built in this time"
	default:
		figure.Value = known(float64(saved) / 3600)
		figure.Source = fmt.Sprintf("median from the creation of the instance to Ready, %s of versions against other images", wording.Count(nodes, "node"))
	}
	return figure
}

// rebootsAvoided counts the nodes that started from a patched disk.
func (f Facts) rebootsAvoided() Figure {
	figure := Figure{Name: "reboots-avoided", Title: "patches with a reboot avoided", Unit: "nodes", Kind: Saved, Source: noInstances}
	if !f.Counted {
		return figure
	}
	n, isKnown := 0, false
	built := f.built()
	for _, v := range f.Versions {
		if !v.PatchedAt.IsZero() {
			n, isKnown = n+len(built[v.Version]), true
		}
	}
	if figure.Source = noPatches; isKnown {
		figure.Value, figure.Source = known(float64(n)),
			"nodes built from versions with the tag kamino-patched-at: one patch and one reboot for each node; "+fromInstances
	}
	return figure
}

// images calls add for each built node and container image of its version, and reports whether any list is known.
func (f Facts) images(add func(name string)) bool {
	isKnown := false
	built := f.built()
	for _, v := range f.Versions {
		if v.Images == nil {
			continue
		}
		isKnown = true
		for range built[v.Version] {
			for _, name := range v.Images {
				add(name)
			}
		}
	}
	return isKnown
}

func (f Facts) pullsAvoided() Figure {
	figure := Figure{Name: "pulls-avoided", Title: "container image pulls avoided, at most", Unit: "pulls", Kind: Saved, Source: noInstances}
	if !f.Counted {
		return figure
	}
	n := 0
	if figure.Source = "unknown: no version has a list of contents"; f.images(func(string) { n++ }) {
		figure.Value, figure.Source = known(float64(n)), fromLists
	}
	return figure
}

func (f Facts) bytesAvoided() Figure {
	figure := Figure{Name: "bytes-avoided", Title: "container image data not pulled, at least", Unit: "GiB", Kind: Saved, Source: noInstances}
	if !f.Counted {
		return figure
	}
	bytes := int64(0)
	if figure.Source = "unknown: no version has a list of contents"; !f.images(func(name string) { bytes += f.ImageBytes[name] }) {
		return figure
	}
	if figure.Source = "unknown: the kubelets report no sizes of these images"; bytes > 0 {
		figure.Value = known(float64(bytes) / (1 << 30))
		figure.Source = fromLists + "; sizes from the status of the nodes, which has at most 50 images"
	}
	return figure
}

// cacheGain compares the pull of all images of the newest known version with the read of their blocks from a new volume. Kubelets report
// packed sizes, and a volume has the larger files.
func cacheGain(f Facts) Figure {
	figure := Figure{Name: "cache-gain", Title: "reading all cached images instead of pulling them, for each node, at most", Unit: "seconds", Kind: Saved,
		Source: "unknown: no version has a list of contents with images whose sizes the kubelets report"}
	for _, v := range f.Versions {
		size := 0.0 // MiB
		for _, name := range v.Images {
			size += float64(f.ImageBytes[name]) / (1 << 20)
		}
		if size == 0 {
			continue
		}
		pull, read := size/f.PullRate, size/f.VolumeRate
		figure.Value = known(pull - read)
		figure.Source = fmt.Sprintf("%.1f GiB of images in version %s: %.0f s to pull at %g MiB/s, %.0f s to read at %g MiB/s",
			size/1024, v.Version, pull, f.PullRate, read, f.VolumeRate)
		break
	}
	return figure
}

func (f Facts) packagesAvoided() Figure {
	return Figure{
		Name: "package-downloads-avoided", Title: "package downloads avoided", Unit: "GiB", Kind: Saved,
		Source: "unknown: neither dpkg nor rpm keeps the size of a download",
	}
}

// removedNodes is always unknown: only present nodes have an image and a time.
func (f Facts) removedNodes() Figure {
	return Figure{
		Name: "removed-nodes", Title: "removed nodes that versions had built", Unit: "nodes", Kind: Saved,
		Source: "unknown: neither the cluster nor the cloud keeps removed nodes; the metric kamino_node_join_seconds counts their joins",
	}
}

// samePatch is the longest time between two nodes of a pool that install the same patch. Source: the timers of apt and dnf
// run once a day, and kured reboots one node after another.
const samePatch = 12 * time.Hour

// patchTimes are the known times of patches, earliest first.
func (f Facts) patchTimes() []time.Time {
	var times []time.Time
	for _, v := range f.Versions {
		times = append(times, v.PatchedAt)
	}
	for _, n := range f.Nodes {
		times = append(times, n.PatchedAt, n.PendingSince)
	}
	times = slices.DeleteFunc(times, func(t time.Time) bool { return t.IsZero() || t.After(f.Now) })
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// missingSince is the time of the first patch that a node lacks. known is false if the patches of the node are unknown.
func (f Facts) missingSince(n NodeFacts, times []time.Time) (since time.Time, known bool) {
	if !n.PendingSince.IsZero() {
		return n.PendingSince, true // the annotation has replaced the time of the patch before
	}
	patched := n.PatchedAt
	if v := f.version(n.Version); v != nil {
		patched = later(patched, v.PatchedAt)
	}
	if patched.IsZero() {
		return time.Time{}, false
	}
	i := slices.IndexFunc(times, func(t time.Time) bool { return t.Sub(patched) > samePatch })
	if i < 0 {
		return time.Time{}, true
	}
	return times[i], true
}

// exposure adds up the time for which the nodes have lacked a patch that another node or a version has.
func (f Facts) exposure() Figure {
	figure := Figure{Name: "exposure", Title: "time of nodes without the newest patch, estimate", Unit: "node-hours", Kind: Risk, Source: noInstances}
	times := f.patchTimes()
	switch {
	case !f.Counted:
		return figure
	case len(times) == 0:
		figure.Source = noPatches
		return figure
	}
	missing, unknown := time.Duration(0), 0
	for _, n := range f.Nodes {
		since, isKnown := f.missingSince(n, times)
		if !isKnown {
			unknown++
		} else if !since.IsZero() {
			missing += f.within(later(since, n.Created), f.Now)
		}
	}
	figure.Source = "tag kamino-patched-at of versions, and annotations of nodes with the time of a patch; time before the last patch of a node is not counted"
	if unknown > 0 {
		figure.Source += fmt.Sprintf("; without %s of unknown patch level", wording.Count(unknown, "node"))
	}
	if unknown < len(f.Nodes) || len(f.Nodes) == 0 {
		figure.Value = known(missing.Hours())
	} else {
		figure.Source = fmt.Sprintf("unknown: the patch level of %s is unknown", wording.Count(unknown, "node"))
	}
	return figure
}

// failedJoins counts the failed nodes that were built in the time, from versions and from other images.
func (f Facts) failedJoins() Figure {
	figure := Figure{Name: "failed-joins", Title: "failed joins", Unit: "nodes", Kind: Risk, Source: noInstances}
	if !f.Counted {
		return figure
	}
	n := 0
	for _, nodes := range f.built() {
		for _, node := range nodes {
			if node.Failed {
				n++
			}
		}
	}
	figure.Value, figure.Source = known(float64(n)), "instances and Nodes that exist now; removed nodes are not counted"
	return figure
}

// captures counts the captures that were decided in the time and have the phase.
func (f Facts) captures(phase v1alpha1.Phase) Figure {
	figure := Figure{Name: "captures-succeeded", Title: "captures that succeeded", Unit: "captures", Kind: Cost, Source: "Prototypes of the pool"}
	if phase == v1alpha1.PhaseFailed {
		figure.Name, figure.Title = "captures-failed", "captures that failed"
	}
	n := 0
	f.each(func(p *v1alpha1.Prototype) {
		if p.Status.Phase == phase {
			n++
		}
	})
	figure.Value = known(float64(n))
	return figure
}

func (f Facts) each(do func(p *v1alpha1.Prototype)) {
	for i := range f.Captures {
		if p := &f.Captures[i]; !p.CreationTimestamp.Time.Before(f.Since) {
			do(p)
		}
	}
}

// within is the part of a span of time that is in the report.
func (f Facts) within(from, to time.Time) time.Duration {
	from = later(from, f.Since)
	if to.After(f.Now) {
		to = f.Now
	}
	return max(0, to.Sub(from))
}

// endOf is the end of a capture, or the end of the report for a capture without an end.
func (f Facts) endOf(p *v1alpha1.Prototype) time.Time {
	if n := len(p.Status.Steps); p.Status.Terminal() && n > 0 && p.Status.Steps[n-1].FinishedAt != nil {
		return p.Status.Steps[n-1].FinishedAt.Time
	}
	return f.Now
}

// hours adds up a span of each capture.
func (f Facts) hours(figure Figure, source string, spent func(p *v1alpha1.Prototype) time.Duration) Figure {
	sum, n := time.Duration(0), 0
	for i := range f.Captures {
		if d := spent(&f.Captures[i]); d > 0 {
			sum, n = sum+d, n+1
		}
	}
	figure.Unit, figure.Kind, figure.Value, figure.Source = "hours", Cost, known(sum.Hours()), source+" of "+wording.Count(n, "Prototype")
	return figure
}

// awayTime is the time of a donor out of service. A donor whose disk is copied in use is never away.
func (f Facts) awayTime(p *v1alpha1.Prototype) time.Duration {
	d := p.Status.Donor
	switch {
	case d == nil || d.ReservedAt == nil || p.Spec.Settings.CopiesDonor():
		return 0
	case d.ReleasedAt != nil:
		return f.within(d.ReservedAt.Time, d.ReleasedAt.Time)
	}
	return f.within(d.ReservedAt.Time, f.endOf(p))
}

// donors counts the donors that were out of service in the time: each drain moves the pods of a node.
func (f Facts) donors() Figure {
	n := 0
	for i := range f.Captures {
		if f.awayTime(&f.Captures[i]) > 0 {
			n++
		}
	}
	return Figure{Name: "drains", Title: "drains of donors", Unit: "nodes", Kind: Cost, Value: known(float64(n)), Source: "status.donor of Prototypes"}
}

// donorHours adds up the time of donors out of service.
func (f Facts) donorHours() Figure {
	return f.hours(Figure{Name: "donor-hours", Title: "time of donors out of service"}, "status.donor", f.awayTime)
}

// pioneerHours adds up the time from the patch of a pioneer to the reservation, or to the end of the patch.
func (f Facts) pioneerHours() Figure {
	return f.hours(Figure{Name: "pioneer-hours", Title: "time of pioneers before their capture"}, "status.patch", func(p *v1alpha1.Prototype) time.Duration {
		patch := p.Status.Patch
		if patch == nil || patch.StartedAt.IsZero() {
			return 0
		}
		until := f.endOf(p)
		switch d := p.Status.Donor; {
		case d != nil && d.ReservedAt != nil && d.ReservedAt.After(patch.StartedAt.Time):
			until = d.ReservedAt.Time
		case !patch.FinishedAt.IsZero():
			until = patch.FinishedAt.Time
		}
		return f.within(patch.StartedAt.Time, until)
	})
}

// trialHours adds up the time of trials with their pauses: a pool pays for each trial node in addition. The node of a
// failed trial stays for an inspection.
func (f Facts) trialHours() Figure {
	return f.hours(Figure{Name: "trial-hours", Title: "time of trials, at most"}, "status.steps", func(p *v1alpha1.Prototype) (sum time.Duration) {
		for _, step := range p.Status.Steps {
			isTrial := step.Phase == v1alpha1.PhaseRunningTrial
			isTrial = isTrial || step.Phase == v1alpha1.PhaseCleaningUp && p.Status.Trial != nil && p.Status.Trial.Result == v1alpha1.TrialFailed
			switch {
			case isTrial && step.FinishedAt != nil:
				sum += f.within(step.StartedAt.Time, step.FinishedAt.Time)
			case isTrial:
				sum += f.within(step.StartedAt.Time, f.Now)
			}
		}
		return sum
	})
}

// month is the month of cloud prices.
const month = 730 * time.Hour

// stored is the time of a version in the cloud. to is zero for a present version.
type stored struct {
	sizeGB   int32
	from, to time.Time
}

// deletedVersions are the versions that a capture has published and a later capture has deleted. Their size is the largest size of
// the present versions. untimed is the number of versions without a record of their deletion.
func (f Facts) deletedVersions() (deleted []stored, untimed int) {
	retired, size := map[string]time.Time{}, int32(0)
	for _, v := range f.Versions {
		size = max(size, v.SizeGB)
	}
	for _, p := range f.Captures {
		for _, version := range p.Status.Retired {
			retired[version] = f.endOf(&p)
		}
	}
	for _, p := range f.Captures {
		published := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionPublished)
		if !published || f.version(p.Spec.Version) != nil {
			continue
		}
		until, found := retired[p.Spec.Version]
		if !found {
			untimed++
			continue
		}
		deleted = append(deleted, stored{size, publishedAt(&p), until})
	}
	return deleted, untimed
}

// publishedAt is the begin of the publication.
func publishedAt(p *v1alpha1.Prototype) time.Time {
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhasePublishing {
			return step.StartedAt.Time
		}
	}
	return p.CreationTimestamp.Time
}

func (f Facts) storage() Figure {
	all, untimed := f.deletedVersions()
	for _, v := range f.Versions {
		all = append(all, stored{v.SizeGB, v.BuiltAt, f.Now})
	}
	sum, unsized := 0.0, 0
	for _, v := range all {
		if v.sizeGB == 0 {
			unsized++
		}
		sum += float64(v.sizeGB) * float64(f.within(v.from, v.to)) / float64(month)
	}
	figure := Figure{
		Name: "storage", Title: "storage of versions, at most", Unit: "GiB-months", Kind: Cost, Value: known(sum),
		Source: "disk sizes in the cloud, one copy each; replicas are not counted; " +
			"versions that a capture deleted have the size of the largest present version",
	}
	if unsized == len(all) && unsized > 0 {
		figure.Value, figure.Source = nil, "unknown: the cloud reports no sizes"
	} else if unsized > 0 {
		figure.Source += fmt.Sprintf("; without %s of unknown size", wording.Count(unsized, "version"))
	}
	if untimed > 0 && figure.Value != nil {
		figure.Source += fmt.Sprintf("; without %s of unknown end", wording.Count(untimed, "deleted version"))
	}
	return figure
}

func (f Facts) price() Figure {
	figure := f.storage()
	figure.Name, figure.Title, figure.Unit = "storage-price", "price of the storage, at most", "as --price-gb-month"
	if figure.Value != nil {
		figure.Value = known(*figure.Value * f.PricePerGBMonth)
		figure.Source = fmt.Sprintf("storage times %g per GiB and month", f.PricePerGBMonth)
	}
	return figure
}
