package cloud

import (
	"slices"
	"strings"
	"testing"
)

func TestRootDisks(t *testing.T) {
	for types, want := range map[string]string{
		"m7i.large":                       "nvme",
		"m7i.large m4.large":              "nvme xen_blkfront",
		"i3.xlarge i3.metal":              "nvme xen_blkfront",
		"i3en.xlarge p3dn.24xlarge":       "nvme",
		"t2.micro":                        "xen_blkfront",
		"Standard_D4s_v5":                 "hv_storvsc",
		"Standard_D4s_v5 Standard_D4s_v6": "hv_storvsc nvme",
		"Standard_B2s":                    "hv_storvsc",
		"m7i.large n2-standard-4":         "",
		"":                                "",
	} {
		if got := RootDisks(strings.Fields(types)...); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("the disks of %q are %q, want %q", types, got, want)
		}
	}
}
