package metrics

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/cloudtest"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// bare is a provider without optional interfaces.
type bare struct{ cloud.Provider }

// powers are the optional interfaces that metrics count.
var powers = cloudtest.Powers()

// TestEveryCallIsCounted makes each call with I/O of the contract and the optional interfaces, with an error and without,
// and checks its count by name. A new method without a count fails.
func TestEveryCallIsCounted(t *testing.T) {
	var refuse bool
	world := memory.New(memory.Config{})
	pool := world.AddPool(memory.PoolSpec{Name: "pool1"})
	faulty := memory.NewFaulty(world, func(memory.Call) memory.Outcome {
		if refuse {
			return memory.FailBefore(cloud.Throttled)
		}
		return memory.Pass()
	})
	m := New(nil)
	provider := m.Provider(faulty)
	for _, contract := range append([]reflect.Type{reflect.TypeFor[cloud.Provider]()}, powers...) {
		if !reflect.TypeOf(provider).Implements(contract) {
			t.Fatalf("the calls of %s are not counted", contract)
		}
		for i := range contract.NumMethod() {
			method := contract.Method(i)
			takesContext := method.Type.NumIn() > 0 && method.Type.In(0) == reflect.TypeFor[context.Context]()
			for _, refuse = range []bool{true, false} {
				reflect.ValueOf(provider).MethodByName(method.Name).Call(arguments(t, method.Type, pool))
			}
			samples := scrape(t, m)
			throttled := samples[fmt.Sprintf("kamino_cloud_calls_total{op=%q,result=\"Throttled\"}", method.Name)]
			timed := samples[fmt.Sprintf("kamino_cloud_call_duration_seconds_count{op=%q}", method.Name)]
			switch {
			case takesContext && (throttled != 1 || timed != 2):
				t.Errorf("%s: %v refused calls of %v are told, want 1 of 2", method.Name, throttled, timed)
			case !takesContext && timed != 0:
				t.Errorf("%s does no I/O and is counted", method.Name)
			}
		}
	}
	if got := scrape(t, m)[`kamino_cloud_calls_total{op="Pool",result="OK"}`]; got != 1 {
		t.Errorf("%v calls of Pool went through, want 1", got)
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

// A counted provider has exactly the optional interfaces of the wrapped provider.
func TestPowersStay(t *testing.T) {
	m := New(nil)
	if _, able := cloud.As[cloud.InstanceLister](m.Provider(bare{memory.New(memory.Config{})})); able {
		t.Error("a provider that cannot list instances seems to be able to")
	}
	world := memory.New(memory.Config{})
	pool := world.AddPool(memory.PoolSpec{Name: "pool1"})
	for name, provider := range map[string]cloud.Provider{"counted": m.Provider(world), "counted twice": m.Provider(m.Provider(world))} {
		lister, able := cloud.As[cloud.InstanceLister](provider)
		if !able {
			t.Fatalf("%s: a provider that can list instances no longer can", name)
		}
		if got, err := lister.Instances(t.Context(), pool); err != nil || len(got) != 0 {
			t.Errorf("%s: Instances = %v, %v", name, got, err)
		}
	}
	if got := scrape(t, m)[`kamino_cloud_calls_total{op="Instances",result="OK"}`]; got != 3 {
		t.Errorf("%v looks at instances are counted, want 3", got)
	}
}
