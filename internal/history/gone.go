package history

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// CurrentVersionMissing: the recipe names a version that does not exist, and the pool can't grow.
const CurrentVersionMissing = "CurrentVersionMissing"

// Gone tells, with the remedy, that a pool's recipe names a version of its own that is not there any more: Azure lets
// anybody delete one that a recipe names, and then no node can be built from the recipe. Nil if all is well, or if the
// recipe names another image, of which nobody here knows.
func Gone(pool cloud.Pool, images []cloud.Image) *cloud.Refusal {
	current := pool.Recipe.Version
	if current == "" && !pool.Recipe.Latest {
		return nil
	}
	there := func(image cloud.Image) bool {
		return same(image.Version, current) && image.State != cloud.Absent && image.State != cloud.Deleting && image.State != cloud.Failed
	}
	if slices.ContainsFunc(images, there) {
		return nil
	}
	what := "version " + current + ", which does not exist any more"
	if current == "" {
		what = "its image definition, which has no version that \"latest\" could mean"
	}
	gone := cloud.Refuse(CurrentVersionMissing, fmt.Sprintf("the recipe of pool %s names %s, so that no new node can be built and the pool can't grow", pool.Name, what), wayOut(pool, images))
	return &gone
}

// wayOut is the one command that gives the pool a recipe that works: back to the newest usable version before the one
// that is gone, else on to the oldest after it.
func wayOut(pool cloud.Pool, images []cloud.Image) string {
	older, newer := "", ""
	for _, image := range images { // oldest first
		v := version(image)
		usable := v.usable()
		if pool.Recipe.Version == "" { // there is no version to go back from: what leads on is a promotion
			usable = usable && v.promotable()
		}
		switch {
		case !usable:
		case pool.Recipe.Version == "" || imageversion.Compare(image.Version, pool.Recipe.Version) < 0:
			older = image.Version
		case newer == "":
			newer = image.Version
		}
	}
	switch {
	case pool.Recipe.Version == "" && older != "":
		return fmt.Sprintf("point it at one with `kamino promote %s %s`", pool.Name, older)
	case older != "":
		return fmt.Sprintf("go back to version %s with `kamino rollback %s`", older, pool.Name)
	case newer != "":
		return fmt.Sprintf("go on to version %s with `kamino rollback %s --to %s`", newer, pool.Name, newer)
	}
	return "no other version is usable, so capture a node, which makes one, or point the recipe at a generic image (docs/history.md)"
}
