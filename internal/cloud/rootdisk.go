package cloud

import (
	"regexp"
	"slices"
	"strings"
)

// xenFamilies are the types of EC2 whose disks are of Xen. Bare metal is always on Nitro. Source: EC2, instances built on Nitro.
var xenFamilies = strings.Fields("c1 c3 c4 d2 f1 g2 g3 g3s h1 i2 i3 m1 m2 m3 m4 p2 p3 r3 r4 t1 t2 x1 x1e cc2 cr1 hs1")

// nvmeSize matches sizes of Azure whose disks are of NVMe. Source: Azure, NVMe overview: as of version 6.
var nvmeSize = regexp.MustCompile(`_v(?:[6-9]|[1-9][0-9])$`)

// RootDisks returns the drivers of the root disks of machine types of EC2 and Azure; nil if one of them is unknown.
func RootDisks(types ...string) (drivers []string) {
	for _, machine := range types {
		family, size, isEC2 := strings.Cut(machine, ".")
		var driver string
		switch {
		case isEC2 && slices.Contains(xenFamilies, family) && !strings.HasPrefix(size, "metal"):
			driver = "xen_blkfront"
		case isEC2, strings.HasPrefix(machine, "Standard_") && nvmeSize.MatchString(machine):
			driver = "nvme"
		case strings.HasPrefix(machine, "Standard_"), strings.HasPrefix(machine, "Basic_"):
			driver = "hv_storvsc"
		default:
			return nil
		}
		if !slices.Contains(drivers, driver) {
			drivers = append(drivers, driver)
		}
	}
	slices.Sort(drivers)
	return drivers
}
