package print

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool"
)

// VersionLeft says what is left of the version that a deleted capture was to make. err is why the cloud could not be asked; explain
// puts err into words.
func VersionLeft(left pool.Left, version string, err error, explain func(error) string) string {
	name := left.Pool
	switch {
	case err != nil:
		return fmt.Sprintf("whether version %s was made can't be told (%s): see `kamino history %s`", version, explain(err), name)
	case left.Named:
		return fmt.Sprintf("its version %s stays, for the recipe of pool %s names it: `kamino rollback %s` goes back", version, name, name)
	}
	switch left.Image.State {
	case cloud.Deleting:
		return fmt.Sprintf("the cloud is deleting version %s, the last of its capture", version)
	case cloud.Pending, cloud.Failed:
		return fmt.Sprintf("version %s is left, which is %s: `kamino retire %s %s` deletes it once the cloud is done with it", version, left.Image.State, name, version)
	case cloud.Complete:
		return fmt.Sprintf("its version %s stays, which was complete before: `kamino promote %s %s` points the pool at it, `kamino retire %s %s` deletes it",
			version, name, version, name, version)
	case cloud.Absent:
	}
	return "nothing of its capture is left"
}
