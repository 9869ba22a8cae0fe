package cloud_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestEveryCallIsIntercepted makes each call of the contract: calls with I/O run through the interceptor, with their
// name, kind and result.
func TestEveryCallIsIntercepted(t *testing.T) {
	var seen []cloud.Op
	memoryCloud := memory.New(memory.Config{})
	pool := memoryCloud.AddPool(memory.PoolSpec{Name: "pool1"})
	provider := cloud.Intercept(memoryCloud.Provider, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		seen = append(seen, op)
		return call(ctx)
	})
	contract := reflect.TypeFor[memory.Calls]()
	for i := range contract.NumMethod() {
		method := contract.Method(i)
		seen = nil
		answers := reflect.ValueOf(provider).MethodByName(method.Name).Call(arguments(t, method.Type, pool))
		if method.Type.NumIn() == 0 || method.Type.In(0) != reflect.TypeFor[context.Context]() {
			if len(seen) > 0 {
				t.Errorf("%s does no I/O, and is intercepted", method.Name)
			}
			continue
		}
		if len(seen) != 1 || seen[0].Name != method.Name {
			t.Errorf("%s is intercepted as %+v", method.Name, seen)
			continue
		}
		writes := slices.ContainsFunc([]string{"Allow", "Ensure", "Delete", "Drop", "Resize", "Restart", "Set", "Protect", "Unprotect", "Tag", "Close", "End"}, func(verb string) bool {
			return strings.HasPrefix(method.Name, verb) && method.Name != "Protection"
		})
		if seen[0].Writes != writes {
			t.Errorf("%s is intercepted as a write: %t, want %t", method.Name, seen[0].Writes, writes)
		}
		if result := method.Type.NumOut() > 1; result != (seen[0].Result != nil) ||
			result && !reflect.DeepEqual(reflect.ValueOf(seen[0].Result).Elem().Interface(), answers[0].Interface()) {
			t.Errorf("%s returns %v, and the interceptor sees %v", method.Name, answers[0], seen[0].Result)
		}
	}
}

// arguments are a pool for a pool parameter, and otherwise zero values.
func arguments(t *testing.T, method reflect.Type, pool cloud.PoolID) []reflect.Value {
	var values []reflect.Value
	for n := range method.NumIn() {
		in := method.In(n)
		switch {
		case in == reflect.TypeFor[context.Context]():
			values = append(values, reflect.ValueOf(t.Context()))
		case in == reflect.TypeFor[cloud.PoolID]():
			values = append(values, reflect.ValueOf(pool))
		case method.IsVariadic() && n == method.NumIn()-1:
		default:
			values = append(values, reflect.Zero(in))
		}
	}
	return values
}

// TestInterceptorsReplaceAnswers: a replaced error hides the result of the call, and a result set without a call counts.
func TestInterceptorsReplaceAnswers(t *testing.T) {
	lost := errors.New("lost")
	memoryCloud := memory.New(memory.Config{})
	pool := memoryCloud.AddPool(memory.PoolSpec{Name: "pool1"})
	for name, test := range map[string]struct {
		around cloud.Interceptor
		want   cloud.PoolID
		err    error
	}{
		"the call itself": {func(ctx context.Context, _ cloud.Op, call func(context.Context) error) error { return call(ctx) }, pool, nil},
		"a lost request":  {func(context.Context, cloud.Op, func(context.Context) error) error { return lost }, "", lost},
		"a lost answer": {func(ctx context.Context, _ cloud.Op, call func(context.Context) error) error {
			return errors.Join(lost, call(ctx))
		}, "", lost},
		"a cached answer": {func(_ context.Context, op cloud.Op, _ func(context.Context) error) error {
			op.Result.(*cloud.Pool).ID = "cached"
			return nil
		}, "cached", nil},
	} {
		have, err := cloud.Intercept(memoryCloud.Provider, test.around).Pool(t.Context(), pool)
		if have.ID != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %s, %v", name, have.ID, err)
		}
	}
}
