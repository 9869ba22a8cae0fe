package metrics

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// bare is a provider without optional powers.
type bare struct{ cloud.Provider }

// withCensus is a provider that can list instances.
type withCensus struct{ bare }

func (withCensus) Instances(context.Context, cloud.PoolID) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "memory:///x"}}, nil
}

// TestEveryCallIsCounted makes each call of the contract that does I/O, once in vain and once not, and looks
// for it by its name. A method that is added to the contract and not here fails.
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
	provider := m.Provider(bare{faulty})
	contract := reflect.TypeFor[cloud.Provider]()
	for i := range contract.NumMethod() {
		method := contract.Method(i)
		takesContext := method.Type.NumIn() > 0 && method.Type.In(0) == reflect.TypeFor[context.Context]()
		for _, refuse = range []bool{true, false} {
			arguments := []reflect.Value{}
			for n := range method.Type.NumIn() {
				in := method.Type.In(n)
				switch in {
				case reflect.TypeFor[context.Context]():
					arguments = append(arguments, reflect.ValueOf(t.Context()))
				case reflect.TypeFor[cloud.PoolID]():
					arguments = append(arguments, reflect.ValueOf(pool))
				default:
					arguments = append(arguments, reflect.Zero(in))
				}
			}
			reflect.ValueOf(provider).MethodByName(method.Name).Call(arguments)
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
	if got := scrape(t, m)[`kamino_cloud_calls_total{op="Pool",result="OK"}`]; got != 1 {
		t.Errorf("%v calls of Pool went through, want 1", got)
	}
}

// What a provider can do beyond the contract it can still do when it is counted, and no more than that.
func TestOptionalPowersStay(t *testing.T) {
	m := New(nil)
	plain := bare{memory.New(memory.Config{})}
	if _, able := m.Provider(plain).(cloud.Census); able {
		t.Error("a provider that cannot list instances seems to be able to")
	}
	lister, able := m.Provider(withCensus{plain}).(cloud.Census)
	if !able {
		t.Fatal("a provider that can list instances no longer can")
	}
	if got, err := lister.Instances(t.Context(), ""); err != nil || len(got) != 1 {
		t.Errorf("Instances = %v, %v", got, err)
	}
	expectCalls := map[string]float64{`kamino_cloud_calls_total{op="Instances",result="OK"}`: 1}
	for key, want := range expectCalls {
		if got := scrape(t, m)[key]; got != want {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
}
