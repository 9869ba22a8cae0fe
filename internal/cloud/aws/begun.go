package aws

import (
	"maps"
	"slices"
	"sync"
)

// begun are the things that this process has made, by request key. EC2 may show them late.
type begun[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

func (b *begun[T]) add(key string, thing T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string]T{}
	}
	b.all[key] = thing
}

// recent calls see for each recent thing in the order of the keys, and forgets the others. isRecent reports whether EC2 may not
// show the thing of a key yet.
func (b *begun[T]) recent(isRecent func(key string) bool, see func(key string, thing T)) {
	b.mu.Lock()
	maps.DeleteFunc(b.all, func(key string, _ T) bool { return !isRecent(key) })
	all := maps.Clone(b.all)
	b.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		see(key, all[key])
	}
}
