package cloud

import (
	"context"
	"testing"
)

// plain has no power. counting has the census and the rebuilder. front shows only the census.
type (
	plain    struct{ Provider }
	counting struct{ Provider }
	front    struct{ Provider }
	through  struct{ Provider }
)

func (counting) Instances(context.Context, PoolID) ([]Instance, error) {
	return []Instance{{ID: "behind"}}, nil
}

func (counting) MaxImages(PoolID) int { return 0 }
func (front) MaxImages(PoolID) int    { return 0 }

func (counting) EnsureRebuilt(context.Context, InstanceID, string) (Rebuild, error) {
	return Rebuild{}, nil
}

func (f front) Instances(ctx context.Context, pool PoolID) ([]Instance, error) {
	behind, _ := As[InstanceLister](f.Provider)
	list, err := behind.Instances(ctx, pool)
	return append(list, Instance{ID: "front"}), err
}
func (f front) Decorated() Provider   { return f.Provider }
func (d through) Decorated() Provider { return d.Provider }

func TestAs(t *testing.T) {
	lister := func(p Provider) int {
		power, able := As[InstanceLister](p)
		if !able {
			return -1
		}
		list, _ := power.Instances(t.Context(), "")
		return len(list)
	}
	for name, test := range map[string]struct {
		provider  Provider
		instances int
		rebuilder bool
	}{
		"nothing":                            {plain{}, -1, false},
		"its own":                            {counting{}, 1, true},
		"a decorator shows it":               {front{counting{}}, 2, true},
		"a decorator of what can't do it":    {front{plain{}}, -1, false},
		"a decorator that knows nothing":     {through{counting{}}, 1, true},
		"two decorators":                     {through{front{through{counting{}}}}, 2, true},
		"two that show it":                   {front{front{counting{}}}, 3, true},
		"two decorators of what can't do it": {through{front{plain{}}}, -1, false},
		"embedding alone lends nothing":      {plain{counting{}}, -1, false},
	} {
		if got := lister(test.provider); got != test.instances {
			t.Errorf("%s: the census lists %d instances, want %d (-1 for no census)", name, got, test.instances)
		}
		if _, able := As[Rebuilder](test.provider); able != test.rebuilder {
			t.Errorf("%s: can rebuild: %t, want %t", name, able, test.rebuilder)
		}
	}
}
