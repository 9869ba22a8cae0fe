package rules

import (
	"slices"
	"strings"
)

// Elsewhere returns the profile for a disk with further places of known directories. places maps the beginning of a rule's
// path to beginnings that the rule has in addition, as patterns. Order, version and digest stay.
func (p *Profile) Elsewhere(places map[string][]string) *Profile {
	moved := *p
	moved.Rules, moved.Makers = slices.Clone(p.Rules), slices.Clone(p.Makers)
	for i := range moved.Rules {
		r := &moved.Rules[i]
		if !r.Action.Is(Install, Record) {
			r.Paths, r.Except = alsoAt(r.Paths, places), alsoAt(r.Except, places)
		}
	}
	for i := range moved.Makers {
		moved.Makers[i].Paths = alsoAt(moved.Makers[i].Paths, places)
	}
	return &moved
}

func alsoAt(paths []string, places map[string][]string) []string {
	all := slices.Clone(paths)
	for _, p := range paths {
		for beginning, others := range places {
			if rest, is := strings.CutPrefix(p, beginning); is {
				for _, other := range others {
					all = append(all, other+rest)
				}
			}
		}
	}
	return all
}

// RequireDisks returns the profile for the machines of a pool, by the drivers of their root disks. Without disks they are unknown.
func (p *Profile) RequireDisks(disks []string) *Profile {
	of := *p
	of.Rules = slices.Clone(p.Rules)
	for i := range of.Rules {
		if of.Rules[i].Check == CheckDrivers {
			of.Rules[i].Drivers = disks
		}
	}
	return &of
}
