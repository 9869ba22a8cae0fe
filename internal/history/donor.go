package history

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// BuiltFromQuarantined refuses a donor that was built from a quarantined version.
const BuiltFromQuarantined = "BuiltFromQuarantined"

// RefuseDonor refuses a node built from a quarantined version, because its disk still contains the fault. builtFrom is the
// version in the cloud now; the zero value (another image, or a deleted version) is not refused.
func RefuseDonor(node, pool string, builtFrom cloud.Image) []cloud.Refusal {
	why := builtFrom.Tags[cloud.TagQuarantined]
	if why == "" {
		return nil
	}
	return refuse(BuiltFromQuarantined, fmt.Sprintf("choose a node of another version, or lift the quarantine with `kamino unquarantine %s %s`",
		pool, builtFrom.Version),
		"node %s was built from the quarantined version %s (%s)", node, builtFrom.Version, why)
}
