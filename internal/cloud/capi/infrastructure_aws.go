package capi

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// aws describes the kinds of Cluster API's provider for AWS. Source: CAPA v2.13, api/v1beta2.
var aws = infrastructure{
	cloud:   "aws",
	machine: "AWSMachine",
	cluster: "AWSCluster",
	root:    "ami",
	image:   func(m spec) string { return m.text("ami", "id") },

	instanceType: "instanceType",
	ended: func(status spec) bool {
		return slices.Contains([]string{"shutting-down", "terminated"}, status.text("instanceState"))
	},
	setImage: func(m spec, image string) error {
		m["ami"] = map[string]any{"id": image}
		for _, lookup := range []string{"imageLookupFormat", "imageLookupOrg", "imageLookupBaseOS"} {
			delete(m, lookup)
		}
		return nil
	},
	place:    func(c spec) (place, location string) { return c.text("region"), c.text("region") },
	rootDisk: []string{"rootVolume", "size"},
	traits:   func(spec) map[string]string { return nil },
	refusals: func(m spec, of fmt.Stringer) []cloud.Refusal {
		return refuse(m.has("spotMarketOptions") || m.text("marketType") == "Spot", nil, cloud.StopTerminates, "capture a node of an on-demand pool",
			"%s asks for spot instances; AWS may terminate a stopped spot instance, or refuse to start the instance again", of)
	},
}
