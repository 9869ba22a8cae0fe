package cloudtest

import (
	"reflect"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Powers returns the optional interfaces of providers, for tests of decorators.
func Powers() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[cloud.Census](), reflect.TypeFor[cloud.Auditor](), reflect.TypeFor[cloud.Rebuilder](),
		reflect.TypeFor[cloud.Shelf](), reflect.TypeFor[cloud.Atlas](), reflect.TypeFor[cloud.Restorer](),
		reflect.TypeFor[cloud.Remover](), reflect.TypeFor[cloud.Trialist](),
	}
}
