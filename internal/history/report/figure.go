package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Text is the value with its unit, or "unknown".
func (f Figure) Text() string {
	if f.Value == nil {
		return "unknown"
	}
	return strings.TrimSuffix(strconv.FormatFloat(*f.Value, 'f', 1, 64), ".0") + " " + f.Unit
}

func known(value float64) *float64 { return &value }

// timeSaved compares the median of each version with the median of other images.
func (f Facts) timeSaved(builds []Build) Figure {
	figure := Figure{Name: "time-saved", Title: "waiting time saved by new nodes", Unit: "hours", Kind: Saved}
	generic := int64(0)
	for _, b := range builds {
		if b.Version == "" {
			generic = b.MedianSeconds
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
	case generic == 0:
		figure.Source = "unknown: no node of another image was built in this time, so there is nothing to compare with"
	case nodes == 0:
		figure.Source = "unknown: no node of a version was built in this time"
	default:
		figure.Value = known(float64(saved) / 3600)
		figure.Source = fmt.Sprintf("median from the creation of the instance to Ready, %d nodes of versions against other images", nodes)
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
		figure.Value, figure.Source = known(float64(n)), "nodes built from versions with the tag kamino-patched-at: one patch and one reboot for each node; "+fromInstances
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
	figure := Figure{Name: "bytes-avoided", Title: "container image data already on the disks, at least", Unit: "GiB", Kind: Saved, Source: noInstances}
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

func (f Facts) packagesAvoided() Figure {
	return Figure{
		Name: "package-downloads-avoided", Title: "package downloads avoided", Unit: "GiB", Kind: Saved, Source: "unknown: neither dpkg nor rpm keeps the size of a download",
	}
}

// removedNodes is always unknown: only present nodes have an image and a time.
func (f Facts) removedNodes() Figure {
	return Figure{
		Name: "removed-nodes", Title: "removed nodes that versions had built", Unit: "nodes", Kind: Saved,
		Source: "unknown: neither the cluster nor the cloud keeps removed nodes; the metric kamino_node_join_seconds counts their joins",
	}
}

// exposure adds up the time that nodes ran without the newest patch.
func (f Facts) exposure() Figure {
	figure := Figure{Name: "exposure", Title: "time of nodes without the newest patch", Unit: "node-hours", Kind: Risk, Source: noInstances}
	newest := f.newestPatch()
	switch {
	case !f.Counted:
		return figure
	case newest.IsZero():
		figure.Source = noPatches
		return figure
	}
	missing, unknown := time.Duration(0), 0
	for _, n := range f.Nodes {
		patched := n.PatchedAt
		if v := f.version(n.Version); v != nil {
			patched = later(patched, v.PatchedAt)
		}
		if patched.IsZero() {
			unknown++
			continue
		}
		if patched.Before(newest) {
			missing += max(0, f.Now.Sub(later(later(newest, n.Created), f.Since)))
		}
	}
	figure.Source = "tag kamino-patched-at of versions, and annotations of nodes with the time of a patch"
	if unknown > 0 {
		figure.Source += fmt.Sprintf("; without %d nodes of unknown patch level", unknown)
	}
	if unknown < len(f.Nodes) || len(f.Nodes) == 0 {
		figure.Value = known(missing.Hours())
	} else {
		figure.Source = fmt.Sprintf("unknown: the patch level of %d nodes is unknown", unknown)
	}
	return figure
}

func (f Facts) failedJoins() Figure {
	figure := Figure{Name: "failed-joins", Title: "failed joins", Unit: "nodes", Kind: Risk, Source: noInstances}
	n := 0
	for _, v := range f.Versions {
		if v.Failed >= 0 {
			n += v.Failed
		}
	}
	if f.Counted {
		figure.Value, figure.Source = known(float64(n)), "instances and Nodes of versions that exist now; removed nodes are not counted"
	}
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

// donorHours adds up the time of donors out of service.
func (f Facts) donorHours() Figure {
	away, drains := time.Duration(0), 0
	f.each(func(p *v1alpha1.Prototype) {
		d := p.Status.Donor
		if d == nil || d.ReservedAt == nil {
			return
		}
		drains++
		until := f.Now
		if d.ReleasedAt != nil {
			until = d.ReleasedAt.Time
		}
		away += max(0, until.Sub(d.ReservedAt.Time))
	})
	return Figure{
		Name: "donor-hours", Title: "time of donors out of service", Unit: "hours", Kind: Cost, Value: known(away.Hours()),
		Source: fmt.Sprintf("status.donor of Prototypes, %d drains", drains),
	}
}

// pioneerHours adds up the time from the patch of a pioneer to the reservation, or to the end of the patch.
func (f Facts) pioneerHours() Figure {
	took, pioneers := time.Duration(0), 0
	f.each(func(p *v1alpha1.Prototype) {
		patch := p.Status.Patch
		if patch == nil || patch.StartedAt.IsZero() {
			return
		}
		pioneers++
		until := f.Now
		switch d := p.Status.Donor; {
		case d != nil && d.ReservedAt != nil && d.ReservedAt.After(patch.StartedAt.Time):
			until = d.ReservedAt.Time
		case !patch.FinishedAt.IsZero():
			until = patch.FinishedAt.Time
		}
		took += max(0, until.Sub(patch.StartedAt.Time))
	})
	return Figure{
		Name: "pioneer-hours", Title: "time of pioneers before their capture", Unit: "hours", Kind: Cost, Value: known(took.Hours()),
		Source: fmt.Sprintf("status.patch of Prototypes, %d pioneers", pioneers),
	}
}

// trialHours adds up the time of trial nodes, which the pool pays for in addition.
func (f Facts) trialHours() Figure {
	took, trials := time.Duration(0), 0
	f.each(func(p *v1alpha1.Prototype) {
		t := p.Status.Trial
		if t == nil || t.StartedAt == nil {
			return
		}
		trials++
		until := f.Now
		if t.FinishedAt != nil {
			until = t.FinishedAt.Time
		}
		took += max(0, until.Sub(t.StartedAt.Time))
	})
	return Figure{
		Name: "trial-hours", Title: "time of trial nodes", Unit: "hours", Kind: Cost, Value: known(took.Hours()),
		Source: fmt.Sprintf("status.trial of Prototypes, %d trials", trials),
	}
}

// month is the month of cloud prices.
const month = 730 * time.Hour

// gbMonths is the size of the versions over the time of the report; unsized is the number of versions without a size.
func (f Facts) gbMonths() (sum float64, unsized int) {
	for _, v := range f.Versions {
		if v.SizeGB == 0 {
			unsized++
			continue
		}
		sum += float64(v.SizeGB) * float64(max(0, f.Now.Sub(later(f.Since, v.BuiltAt)))) / float64(month)
	}
	return sum, unsized
}

func (f Facts) storage() Figure {
	sum, unsized := f.gbMonths()
	figure := Figure{
		Name: "storage", Title: "storage of versions, at most", Unit: "GiB-months", Kind: Cost, Value: known(sum),
		Source: "disk sizes in the cloud, one copy each; deleted versions and replicas are not counted",
	}
	if unsized == len(f.Versions) && unsized > 0 {
		figure.Value, figure.Source = nil, "unknown: the cloud reports no sizes"
	} else if unsized > 0 {
		figure.Source += fmt.Sprintf("; without %d versions of unknown size", unsized)
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
