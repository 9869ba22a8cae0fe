package azure

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// quotaCode is Compute's error code for an exceeded limit.
const quotaCode = "OperationNotAllowed"

// limits are the defaults of a subscription in a region, by their name in the usages list.
var limits = []struct {
	name, title string
	limit       int64
}{
	{"cores", "Total Regional vCPUs", 20000},
	{"virtualMachines", "Virtual Machines", 25000},
	{"virtualMachineScaleSets", "Virtual Machine Scale Sets", 2500},
	{"StandardSnapshotCount", "StandardStorageSnapshots", 50000},
	{"PremiumDiskCount", "Premium Storage Managed Disks", 50000},
	{"Galleries", "Galleries", 100},
	{"GalleryImages", "Gallery Images", 1000},
	{"GalleryImageVersions", "Gallery Image Versions", 10000},
}

// usages are the used parts of the limits.
type usages struct{ *backend }

func (s usages) routes() []*route {
	return []*route{{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/locations/{location}/usages",
		noun: "usage", operation: "list", action: "Microsoft.Compute/locations/usages/read", handle: s.list}}
}

func (s usages) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) {
		for _, l := range limits {
			docs = append(docs, object{"name": object{"value": l.name, "localizedValue": l.title}, "unit": "Count",
				"currentValue": st.used(l.name), "limit": s.limit(st, l.name)})
		}
		for _, family := range st.families() {
			docs = append(docs, object{"name": object{"value": family, "localizedValue": family + " vCPUs"}, "unit": "Count",
				"currentValue": st.used(family), "limit": s.limit(st, family)})
		}
	})
	return s.page(c, docs), nil
}

func (s *backend) limit(st *state, name string) int64 {
	if n, ok := st.Limits[name]; ok {
		return n
	}
	if n, ok := s.config.Quota[name]; ok {
		return n
	}
	for _, l := range limits {
		if l.name == name {
			return l.limit
		}
	}
	return familyCores
}

// familyCores is how many cores of one family of sizes a subscription may use, if nothing else is said.
const familyCores = 20000

// families of the sizes of pools, sorted.
func (st *state) families() []string {
	var out []string
	for _, set := range st.ScaleSets {
		out = append(out, familyOf(text(set.Body, "sku", "name")))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var sizeParts = regexp.MustCompile(`^Standard_([A-Za-z]+)\d+([a-z]*)(?:_(v\d+))?$`)

// familyOf names the quota of a size's family: Standard_D2s_v5 is of standardDSv5Family. Some families of older sizes have
// names that follow no rule.
func familyOf(size string) string {
	m := sizeParts.FindStringSubmatch(size)
	if m == nil {
		return "standard" + size + "Family"
	}
	return "standard" + m[1] + strings.ToUpper(m[2]) + m[3] + "Family"
}

// used is how much of a limit is in use.
func (st *state) used(name string) int64 {
	switch name {
	case "cores":
		return st.cores(func(string) bool { return true })
	case "virtualMachines":
		return int64(len(st.Instances))
	case "virtualMachineScaleSets":
		return int64(len(st.ScaleSets))
	case "StandardSnapshotCount":
		return int64(len(st.Snapshots))
	case "PremiumDiskCount":
		return int64(len(st.Disks))
	case "Galleries":
		return int64(len(st.Galleries))
	case "GalleryImages":
		return int64(len(st.Definitions))
	case "GalleryImageVersions":
		return int64(len(st.Versions))
	}
	return st.cores(func(size string) bool { return familyOf(size) == name })
}

// cores of pools with these sizes at their wanted capacity, and of standalone VMs.
func (st *state) cores(counts func(size string) bool) int64 {
	var n int64
	for _, set := range slices.Concat(slices.Collect(maps.Values(st.ScaleSets)), slices.Collect(maps.Values(st.Alone))) {
		if size := text(set.Body, "sku", "name"); counts(size) {
			n += set.capacity() * coresOf(size)
		}
	}
	return n
}

// withinQuota refuses requests beyond a limit.
func (s *backend) withinQuota(st *state, name string, more int64) *problem {
	used, limit := st.used(name), s.limit(st, name)
	if more <= 0 || used+more <= limit {
		return nil
	}
	title := name
	for _, l := range limits {
		if l.name == name {
			title = l.title
		}
	}
	return conflict(quotaCode, "Operation could not be completed as it results in exceeding approved %s quota. Additional details - "+
		"Deployment Model: Resource Manager, Location: %s, Current Limit: %d, Current Usage: %d, Additional Required: %d, (Minimum) New Limit Required: %d. "+
		"Setup Alerts when Quota reaches threshold. Learn more at https://aka.ms/quotamonitoringalerting .",
		title, s.config.Location, limit, used, more, used+more)
}

var sizeCores = regexp.MustCompile(`^[A-Za-z]+_[A-Za-z]+(\d+)`)

// coresOf reads a size's cores from its name: Standard_D4s_v5 has 4. Older names may say something else.
func coresOf(size string) int64 {
	m := sizeCores.FindStringSubmatch(size)
	if m == nil {
		return 1
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n < 1 {
		return 1
	}
	return n
}
