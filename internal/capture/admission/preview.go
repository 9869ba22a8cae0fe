package admission

import "github.com/kamino-dev/kamino/internal/cloud"

// Preview is the plan of a capture, made without changes.
type Preview struct {
	// Refusals are the reasons against the capture. The other fields are filled as far as possible.
	Refusals []cloud.Refusal `json:"refusals,omitempty"`
	// Evicts are the pods to evict from the donor, as namespace/name.
	Evicts []string `json:"evicts,omitempty"`
	// PatchCheck describes the check of a pioneer that precedes the capture; empty without failed patches in the pool.
	PatchCheck string `json:"patchCheck,omitempty"`
	// Copy is the cost of a capture by copy; nil for a capture in place.
	Copy *CopyCost `json:"copy,omitempty"`
	// Change is the change of the recipe.
	Change *cloud.RecipeChange `json:"change,omitempty"`
	// Irreversible: the recipe names no version of the pool, so no rollback is possible.
	Irreversible bool `json:"irreversible,omitempty"`
	// ImageLimitWarning is a warning that the pool's instances use nearly as many images as the cloud allows; else empty.
	ImageLimitWarning string `json:"imageLimitWarning,omitempty"`
	// Retires are the versions to retire.
	Retires []string `json:"retires,omitempty"`
}
