package cloud

import (
	"maps"
	"slices"
	"strings"
)

// TerraformManaged is the reason of a caution: Terraform or OpenTofu seems to manage the pool, and the next apply can undo a
// promotion.
const TerraformManaged = "TerraformManaged"

// TerraformTag returns a tag that names Terraform or OpenTofu, as KEY=VALUE; empty without such a tag. The tools write no
// tags of their own, but many teams do.
func TerraformTag(tags map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		text := strings.ToLower(key + "=" + tags[key])
		if strings.Contains(text, "terraform") || strings.Contains(text, "opentofu") {
			return key + "=" + tags[key]
		}
	}
	return ""
}
