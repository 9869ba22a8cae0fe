package recipe

import (
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/step"
)

// Decision is one step of a Change, or a failure with its reason.
type Decision = step.Decision[Action, Reason]

var do, _, fail = step.Verbs[Action, Reason]()

// Action is one step of a Change.
type Action string

// The steps. Each step may be repeated.
const (
	// Done: nothing is left to do.
	Done Action = "Done"
	// Tag writes the tags of the version.
	Tag Action = "Tag"
	// Save saves the parts that the recipe is about to lose.
	Save Action = "Save"
	// Point writes the recipe.
	Point Action = "Point"
	// Forbid lets the cloud refuse launches of the version, and Allow ends that.
	Forbid Action = "Forbid"
	Allow  Action = "Allow"
	// Delete deletes the version.
	Delete Action = "Delete"
	// Fail: no further step is done.
	Fail Action = step.Fail
)

// Reason is the cause of a failure.
type Reason string

// RecipeChanged: another client changed the recipe since the decision.
const RecipeChanged Reason = "RecipeChanged"

// state is the state of a pool's recipe relative to the decision.
type state string

const (
	// before: the recipe at the time of the decision.
	before state = "Before"
	// wanted: the recipe of the decision.
	wanted state = "Wanted"
	// other: any other recipe.
	other state = "Other"
)

// facts are the observed facts.
type facts struct {
	// tags is true if tags are to be written, tagged if all are written. gone is true if the version does not exist.
	tags, tagged, gone bool
	// points is true if the recipe is to be changed. recipe is its current state.
	points bool
	recipe state
	// loses is true if the recipe will lose parts, and saved if the parts are saved.
	loses, saved bool
	// launches is what the cloud answers to launches of the version, and wanted what it is to answer; empty if that does not matter.
	launches, wanted cloud.Launches
	// deletes is true if the version is to be deleted, and deleted if it is.
	deletes, deleted bool
}

// changesLaunches reports whether the cloud is to answer launches in another way.
func (f facts) changesLaunches() bool {
	return f.launches != "" && f.wanted != "" && f.launches != f.wanted && !f.gone
}

// pointing is the next step towards a recipe that names the version.
func (f facts) pointing() Action {
	if f.loses && !f.saved {
		return Save
	}
	return Point
}

// next returns the next step, backwards from the goal, so that finished steps are not repeated. Tags come first: after a crash
// a quarantined version is visibly in use, and no promotion uses the version again. Launches are forbidden last, because the pool
// would not grow before its recipe names another version, and allowed first, because only a quarantine shows that they are forbidden.
func next(f facts) Decision {
	changes := f.changesLaunches()
	switch {
	case f.points && f.recipe == other:
		return fail(RecipeChanged)
	case changes && f.wanted == cloud.LaunchesAllowed:
		return do(Allow)
	case f.tags && !f.tagged && !f.gone:
		return do(Tag)
	case f.points && f.recipe != wanted:
		return do(f.pointing())
	case changes:
		return do(Forbid)
	case f.deletes && !f.deleted:
		return do(Delete)
	}
	return do(Done)
}
