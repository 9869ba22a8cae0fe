package cloudtest

import (
	"reflect"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Powers returns the optional interfaces of providers, for tests of decorators.
func Powers() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[cloud.InstanceLister](), reflect.TypeFor[cloud.PermissionChecker](), reflect.TypeFor[cloud.Rebuilder](),
		reflect.TypeFor[cloud.SnapshotLister](), reflect.TypeFor[cloud.PoolFinder](), reflect.TypeFor[cloud.RecipeRestorer](),
		reflect.TypeFor[cloud.Remover](), reflect.TypeFor[cloud.TrialRunner](),
	}
}
