package azure

import (
	"context"
	"fmt"
	"testing"
)

func TestOldOperationsAreDropped(t *testing.T) {
	var asked []string
	operation := func(id string) outcome {
		return func(context.Context) (bool, error) {
			asked = append(asked, id)
			return true, nil
		}
	}
	p := &account{operations: map[string]outcome{}}
	for i := range 10 * maxOperations {
		p.keepOperation(fmt.Sprint("vm", i), operation(fmt.Sprint("vm", i)))
		p.keepOperation("pool", operation(fmt.Sprint("pool", i))) // repeated begins use one entry
	}
	if len(p.operations) != maxOperations || len(p.recent) != maxOperations {
		t.Errorf("%d operations are kept, and %d in their order: not %d", len(p.operations), len(p.recent), maxOperations)
	}
	last := 10*maxOperations - 1
	for _, id := range []string{fmt.Sprint("vm", last), fmt.Sprint("VM", last-maxOperations+2), "pool"} {
		if done, err := p.pollOperation(t.Context(), id); !done || err != nil {
			t.Errorf("%s, which was begun lately, is forgotten: %t, %v", id, done, err)
		}
	}
	if done, _ := p.pollOperation(t.Context(), "vm0"); done || p.hasStarted("vm0") {
		t.Error("the first of all is kept")
	}
	if want := fmt.Sprint("pool", last); asked[2] != want {
		t.Errorf("asked %s of what was begun several times, and not the last, %s", asked[2], want)
	}

	p.forget("pool")
	if p.hasStarted("pool") || len(p.recent) != len(p.operations) {
		t.Errorf("what is gone is kept: %d operations, %d in their order", len(p.operations), len(p.recent))
	}
}
