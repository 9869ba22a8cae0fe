package history

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// BuiltFromQuarantined refuses a donor whose own disk came from a version that must never be used.
const BuiltFromQuarantined = "BuiltFromQuarantined"

// RefuseDonor refuses a node that was built from a quarantined version: its disk is that version's with some
// days on top, and what was wrong with it would come back under a new name. builtFrom is the version as the
// cloud shows it now; the zero value stands for a node that was built from none of the pool's own, or from
// one that is gone, and refuses nothing.
func RefuseDonor(node, pool string, builtFrom cloud.Image) []cloud.Refusal {
	why := builtFrom.Tags[cloud.TagQuarantined]
	if why == "" {
		return nil
	}
	return refuse(BuiltFromQuarantined, fmt.Sprintf("choose a node that was built from another version, or lift that with `kamino release %s %s`", pool, builtFrom.Version),
		"node %s was built from version %s, which is quarantined (%s)", node, builtFrom.Version, why)
}
