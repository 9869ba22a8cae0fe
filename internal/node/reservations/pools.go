package reservations

import (
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolsOf returns the pools of Prototypes, each once. They need not have nodes.
func PoolsOf(prototypes []v1alpha1.Prototype) (pools []cloud.PoolID) {
	for i := range prototypes {
		if id := cloud.PoolID(prototypes[i].Spec.PoolID); id != "" {
			pools = Union(pools, []cloud.PoolID{id})
		}
	}
	return pools
}

// Union returns a new list of the pools of both lists, each once.
func Union(pools, more []cloud.PoolID) []cloud.PoolID {
	all := slices.Clone(pools)
	for _, id := range more {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
