// Package plan decides the next step of a change to a pool's versions: tags, the version in the recipe, or a deletion.
// The package is pure. It works backwards from the goal, so that finished steps are not repeated and any process can
// continue after a crash.
package plan

// Action is one step.
type Action string

// The steps. Each step may be repeated.
const (
	// Done: nothing is left to do.
	Done Action = "Done"
	// Tag writes the tags of the version.
	Tag Action = "Tag"
	// Save saves the parts that the recipe is about to lose.
	Save Action = "Save"
	// Point sets the version of the recipe.
	Point Action = "Point"
	// Delete deletes the version.
	Delete Action = "Delete"
	// Stop: another client changed the recipe to a third version meanwhile. No further step is done.
	Stop Action = "Stop"
)

// Recipe is the version in a pool's recipe relative to the decision.
type Recipe string

// Possible states of the recipe.
const (
	// Before: the version at the time of the decision.
	Before Recipe = "Before"
	// Wanted: the version of the decision.
	Wanted Recipe = "Wanted"
	// Other: any other version.
	Other Recipe = "Other"
)

// Facts are the observed facts.
type Facts struct {
	// Tags is true if tags are to be written, Tagged if all are written. Gone is true if the version does not exist.
	Tags, Tagged, Gone bool
	// Points is true if the recipe is to be changed. Recipe is its current state.
	Points bool
	Recipe Recipe
	// Loses is true if the recipe will lose parts, and Saved if the parts are saved.
	Loses, Saved bool
	// Deletes is true if the version is to be deleted, and Deleted if it is.
	Deletes, Deleted bool
}

// Next returns the next step. Tags come first: after a crash between the two writes a quarantined version is visibly in
// use, and no promotion uses it again. In the other order the next capture or rollback would take a bad version for a
// good one.
func Next(f Facts) Action {
	switch {
	case f.Points && f.Recipe == Other:
		return Stop
	case f.Tags && !f.Tagged && !f.Gone:
		return Tag
	case f.Points && f.Recipe != Wanted && f.Loses && !f.Saved:
		return Save
	case f.Points && f.Recipe != Wanted:
		return Point
	case f.Deletes && !f.Deleted:
		return Delete
	}
	return Done
}
