package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/smithy-go/middleware"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// readCacheLayer answers repeated reads of a region from the cache of cloud.WithReadCache. Failures are not cached. Callers
// share the answers and must not change them.
func readCacheLayer(region string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("kaminoOneLook",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput,
				middleware.Metadata, error) {
				cache := cloud.ReadCacheOf(ctx)
				switch {
				case cache == nil || isDryRun(in.Parameters):
					return next.HandleInitialize(ctx, in)
				case !isRead(in.Parameters):
					cache.Invalidate()
					return next.HandleInitialize(ctx, in)
				}
				what, err := json.Marshal(in.Parameters)
				if err != nil {
					return next.HandleInitialize(ctx, in)
				}
				key := fmt.Sprintf("%s %T %s", region, in.Parameters, what)
				if kept, found := cache.Get(key); found {
					return middleware.InitializeOutput{Result: kept}, middleware.Metadata{}, nil
				}
				out, meta, err := next.HandleInitialize(ctx, in)
				if err == nil {
					cache.Put(key, out.Result)
				}
				return out, meta, err
			}), middleware.After)
	}
}

// isRead reports whether a request is a read, by the type name of the parameters.
func isRead(parameters any) bool {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", parameters), ".")
	return strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "Simulate")
}

// isDryRun reports whether a request is a dry run.
func isDryRun(parameters any) bool {
	v := reflect.Indirect(reflect.ValueOf(parameters))
	if v.Kind() != reflect.Struct {
		return false
	}
	dry, is := v.FieldByName("DryRun"), false
	if dry.IsValid() && dry.Kind() == reflect.Pointer && !dry.IsNil() {
		is = dry.Elem().Kind() == reflect.Bool && dry.Elem().Bool()
	}
	return is
}
