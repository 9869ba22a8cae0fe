package clock

import (
	"slices"
	"sync"
	"time"
)

// Wait is work that took simulated time. Item is the difference between works of the same kind, such as two pulls.
type Wait struct {
	Kind string        `json:"kind"`
	Item string        `json:"item,omitempty"`
	Took time.Duration `json:"took"`
}

// Waits are the works of a boot or of a pod, in their order. The wall's time also holds what the machine of the sandbox
// needs; Waits do not, so that a busy machine changes nothing. The zero value is ready, and safe for concurrent use.
type Waits struct {
	mu   sync.Mutex
	list []Wait
}

// Note adds a work. Work that is done again after an error counts once.
func (w *Waits) Note(kind, item string, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if took > 0 && !slices.ContainsFunc(w.list, func(o Wait) bool { return o.Kind == kind && o.Item == item }) {
		w.list = append(w.list, Wait{Kind: kind, Item: item, Took: took})
	}
}

// List returns the works so far.
func (w *Waits) List() []Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// Sum is the time of works of these kinds, or of all works without a kind.
func Sum(list []Wait, kinds ...string) (sum time.Duration) {
	for _, wait := range list {
		if len(kinds) == 0 || slices.Contains(kinds, wait.Kind) {
			sum += wait.Took
		}
	}
	return sum
}
