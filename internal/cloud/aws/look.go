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

// onelook answers repeated reads of a region from the cache of cloud.WithReadCache. Failures are not cached. Callers
// share the answers and must not change them.
func onelook(region string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("kaminoOneLook", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			sight := cloud.ReadCacheOf(ctx)
			switch {
			case sight == nil || tries(in.Parameters):
				return next.HandleInitialize(ctx, in)
			case !asks(in.Parameters):
				sight.Invalidate()
				return next.HandleInitialize(ctx, in)
			}
			what, err := json.Marshal(in.Parameters)
			if err != nil {
				return next.HandleInitialize(ctx, in)
			}
			key := fmt.Sprintf("%s %T %s", region, in.Parameters, what)
			if kept, found := sight.Get(key); found {
				return middleware.InitializeOutput{Result: kept}, middleware.Metadata{}, nil
			}
			out, meta, err := next.HandleInitialize(ctx, in)
			if err == nil {
				sight.Put(key, out.Result)
			}
			return out, meta, err
		}), middleware.After)
	}
}

// asks reports whether a request is a read, by the type name of the parameters.
func asks(parameters any) bool {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", parameters), ".")
	return strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "Simulate")
}

// tries reports whether a request is a dry run.
func tries(parameters any) bool {
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
