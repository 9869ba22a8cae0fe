package history

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// CurrentVersionMissing: the recipe names a version that does not exist, so the pool cannot grow.
const CurrentVersionMissing = "CurrentVersionMissing"

// Gone refuses a recipe that names a missing version of the pool, with the remedy; nil for existing versions and other images.
// Azure allows the deletion of a version in use, and then no node can be built.
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
	what := "version " + current + ", which no longer exists"
	if current == "" {
		what = "an image definition without a latest version"
	}
	gone := cloud.Refuse(CurrentVersionMissing,
		fmt.Sprintf("the recipe of pool %s names %s: the pool cannot create new nodes", pool.Name, what), wayOut(pool, images))
	return &gone
}

// wayOut returns the command that repairs the recipe: back to the newest usable version before the missing version,
// else forward to the oldest after it.
func wayOut(pool cloud.Pool, images []cloud.Image) string {
	older, newer := "", ""
	for _, image := range images { // oldest first
		v := version(image)
		usable := v.usable()
		if pool.Recipe.Version == "" { // without a version in the recipe a promotion is the only way
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
		return fmt.Sprintf("use an existing version with `kamino promote %s %s`", pool.Name, older)
	case older != "":
		return fmt.Sprintf("roll back to version %s with `kamino rollback %s`", older, pool.Name)
	case newer != "":
		return fmt.Sprintf("use the newer version %s with `kamino rollback %s --to %s`", newer, pool.Name, newer)
	}
	return fmt.Sprintf("no other version is usable: undo the captures with `kamino restore %s`, capture a node, or point the recipe at a base image; see %s",
		pool.Name, page.History)
}
