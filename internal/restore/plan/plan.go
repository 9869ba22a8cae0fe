// Package plan decides the next step in restoring a recipe, and the obstacles. The package is pure, so that any process
// can continue after a crash. Of two concurrent restorations neither undoes the other.
package plan

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Action is one step.
type Action string

// The steps. Each step may be repeated.
const (
	// Done: the recipe has all available parts.
	Done Action = "Done"
	// Write restores the parts of the recipe.
	Write Action = "Write"
	// Stop: the recipe differs from the recipe shown for the decision. Nothing is written.
	Stop Action = "Stop"
)

// Facts are the observed facts.
type Facts struct {
	// Back is true if all saved or given parts are in the recipe.
	Back bool
	// AsShown is true if the image, the kept parts and the added parts are as shown for the decision.
	AsShown bool
}

// Next returns the next step. Done comes first: a concurrent restoration may have done the same.
func Next(f Facts) Action {
	switch {
	case f.Back:
		return Done
	case !f.AsShown:
		return Stop
	}
	return Write
}

// PartMissing: a lost part was not saved, and the caller does not pass it.
const PartMissing = "PartMissing"

// Missing refuses a change without all parts, with the flag for each missing part. Parts are passed in a Secret of the
// namespace. customData is the kind of part for --custom-data-from; any other part is the protected settings of an
// extension.
func Missing(change cloud.RecipeChange, namespace, customData string) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, part := range change.Missing {
		flag := "--custom-data-from SECRET[/KEY]"
		if part.Kind != customData {
			flag = fmt.Sprintf("--protected-settings-from %s=SECRET[/KEY]", part.Name)
		}
		refusals = append(refusals, cloud.Refuse(PartMissing,
			fmt.Sprintf("the cloud never returned all of %s, and new nodes without that part may never join", part.Describe()),
			fmt.Sprintf("put the part into a Secret of namespace %s and pass %s, or omit the part with --incomplete", namespace, flag)))
	}
	return refusals
}
