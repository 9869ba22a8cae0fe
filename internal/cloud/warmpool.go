package cloud

import "fmt"

// WarmPool are the instances that a cloud keeps ready for a pool. They are no nodes: the pool's next nodes come from them, with the image
// that the recipe named when they were launched.
type WarmPool struct {
	Limits WarmLimits `json:"limits"`
	// Instances wait in the warm pool, with ID, Image and BuiltFrom. Changing is the number of instances that are entering or leaving it.
	Instances []Instance `json:"-"`
	Changing  int        `json:"changing,omitempty"`
	// Reuses is true if the cloud returns nodes to the warm pool when the pool shrinks, with the disks that they have.
	Reuses bool `json:"reuses,omitempty"`
	// Unknown is why the instances are unknown; empty if they are known.
	Unknown string `json:"unknown,omitempty"`
}

// WarmLimits are the limits of a warm pool's size, as its owner wrote them. Prepared is the largest number of instances in pool and warm
// pool together; below 0, it is the largest size of the pool.
type WarmLimits struct {
	Min      int64 `json:"min"`
	Prepared int64 `json:"prepared"`
}

// Of returns the number of warm instances of a pool. Source: PutWarmPool, MaxGroupPreparedCapacity.
func (l WarmLimits) Of(pool Pool) int64 {
	prepared := l.Prepared
	if prepared < 0 {
		prepared = pool.MaxSize
	}
	return max(prepared-pool.Capacity, l.Min)
}

// To returns the limits for a size below that of l.
func (l WarmLimits) To(size int64, pool Pool) WarmLimits {
	return WarmLimits{Min: min(l.Min, size), Prepared: pool.Capacity + size}
}

// Old returns the number of warm instances that were not built from the version in the recipe.
func (w WarmPool) Old(recipe Recipe) (old int64) {
	for _, i := range w.Instances {
		if i.BuiltFrom != recipe.Version {
			old++
		}
	}
	return old
}

// Line describes a warm pool: "warm: 3 of 5 from 2026.03.01".
func (w WarmPool) Line(recipe Recipe) string {
	if w.Unknown != "" {
		return "warm: unknown"
	}
	from := recipe.Version
	if from == "" {
		return fmt.Sprintf("warm: %d", len(w.Instances))
	}
	old := w.Old(recipe)
	line := fmt.Sprintf("warm: %d of %d from %s", int64(len(w.Instances))-old, len(w.Instances), from)
	if w.Reuses && old > 0 {
		line += fmt.Sprintf(", %d of other images, with which nodes return at scale-in", old)
	}
	return line
}
