// Package plan decides the next step on the way to what package history has decided: a version's tags, the version that a
// recipe names, or a version's end. It reads facts alone, from the goal backwards, so that whatever is true already is not
// done again, and whoever is asked after a crash goes on.
package plan

// Action is one step.
type Action string

// The steps. Each may be repeated.
const (
	// Done: nothing is left to do.
	Done Action = "Done"
	// Tag writes the tags onto the version.
	Tag Action = "Tag"
	// Save keeps what the recipe is about to lose.
	Save Action = "Save"
	// Point has the recipe name the version.
	Point Action = "Point"
	// Delete deletes the version.
	Delete Action = "Delete"
	// Stop: somebody pointed the recipe elsewhere meanwhile. Nothing more is done.
	Stop Action = "Stop"
)

// Recipe is what a pool's recipe names.
type Recipe string

// What a recipe may name, seen from the decision.
const (
	// Before is what it named when the decision was made.
	Before Recipe = "Before"
	// Wanted is what it is to name.
	Wanted Recipe = "Wanted"
	// Other is something that neither the decision knew nor wants.
	Other Recipe = "Other"
)

// Facts are what is known at one moment.
type Facts struct {
	// Tags are to stand on the version that is left, and Tagged that all of them do. Gone: there is no such version.
	Tags, Tagged, Gone bool
	// Points: the recipe is to name another version, and Recipe is what it names.
	Points bool
	Recipe Recipe
	// Loses: the recipe loses something with it, and Saved that it is kept.
	Loses, Saved bool
	// Deletes: a version is to go, and Deleted that it does.
	Deletes, Deleted bool
}

// Next is the step to take. The tags come first: a crash between the two writes then leaves a quarantined version that
// everybody sees in use and that nothing promotes again. The other way round it would leave a bad version that the next
// capture, or rollback, takes for a good one.
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
