// Package plan decides the next step on the way to a recipe that has back what it lost, and what is in the way of it. It reads
// facts alone, so that whoever is asked after a crash goes on, and of two who restore at once neither undoes the other.
package plan

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Action is one step.
type Action string

// The steps. Each may be repeated.
const (
	// Done: the recipe has all back that there is to give back.
	Done Action = "Done"
	// Write has the recipe get it back.
	Write Action = "Write"
	// Stop: the recipe is not what was shown to whoever decided this. Nothing is done.
	Stop Action = "Stop"
)

// Facts are what is known at one moment.
type Facts struct {
	// Back: all that was kept, or given, stands in the recipe.
	Back bool
	// AsShown: what the recipe names, what it keeps, and what it would get are what was shown.
	AsShown bool
}

// Next is the step to take. What is true already is looked at first: whoever was faster did the same.
func Next(f Facts) Action {
	switch {
	case f.Back:
		return Done
	case !f.AsShown:
		return Stop
	}
	return Write
}

// PartMissing: a part that was lost was not saved, and nobody gives it.
const PartMissing = "PartMissing"

// Missing refuses a change that leaves out what nobody has, and says where each part is to be given: in a Secret of the
// namespace. customData is the kind of part that is given as such; any other is an extension's protected settings.
func Missing(change cloud.RecipeChange, namespace, customData string) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, part := range change.Missing {
		flag := "--custom-data-from SECRET[/KEY]"
		if part.Kind != customData {
			flag = fmt.Sprintf("--protected-settings-from %s=SECRET[/KEY]", part.Name)
		}
		refusals = append(refusals, cloud.Refuse(PartMissing,
			fmt.Sprintf("the cloud never gave out all of %s, and nodes that are built without it may never join", part.Says()),
			fmt.Sprintf("put it into a Secret of namespace %s and name that with %s, or leave it out with --incomplete", namespace, flag)))
	}
	return refusals
}
