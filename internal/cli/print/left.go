package print

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool"
)

// VersionLeft describes the leftovers of a deleted capture's version. err is the cloud's error, and explain turns err into
// words.
func VersionLeft(left pool.LeftImage, version string, err error, explain func(error) string) string {
	name := left.Pool
	switch {
	case err != nil:
		return fmt.Sprintf("version %s may exist (unknown: %s): run `kamino history %s`", version, explain(err), name)
	case left.Named:
		return fmt.Sprintf("version %s stays, because the recipe of pool %s names the version: to roll back, run `kamino rollback %s`", version, name, name)
	}
	switch left.Image.State {
	case cloud.Deleting:
		return fmt.Sprintf("the cloud is deleting version %s", version)
	case cloud.Pending, cloud.Failed:
		return fmt.Sprintf("version %s is left and %s: when the cloud has finished, run `kamino delete-version %s %s`",
			version, left.Image.State, name, version)
	case cloud.Complete:
		return fmt.Sprintf("the complete version %s stays: to use the version, run `kamino promote %s %s`; to delete it, run `kamino delete-version %s %s`",
			version, name, version, name, version)
	case cloud.Absent:
	}
	return "the capture left no resources"
}
