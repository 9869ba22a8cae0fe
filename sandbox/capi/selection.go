package capi

import "slices"

// poolMachine is an instance of a machine pool, as far as it is chosen by it.
type poolMachine struct {
	name string
	// ready, of the pool's latest model, and marked to be deleted first.
	ready, latest, marked bool
}

// Kinds of them, as they are chosen by.
func isMarked(m poolMachine) bool { return m.marked }
func isReady(m poolMachine) bool  { return m.ready }
func isAway(m poolMachine) bool   { return !m.ready }
func isOlder(m poolMachine) bool  { return m.ready && !m.latest }

// these are the names of the first of a kind, as many as there may be.
func these(all []poolMachine, most int, is func(poolMachine) bool) (names []string) {
	for _, m := range all {
		if len(names) < most && is(m) {
			names = append(names, m.name)
		}
	}
	return names
}

// chosen are the instances that Cluster API's provider for Azure deletes, of those that are there, in the order of their age. One that is
// marked goes at once, and while there is one nobody else does. Of too many, those go that are not ready, then those of older models, the
// oldest first. Else ready ones of older models go, as many as may be away at once; not with the gate that skips that. Source: CAPZ,
// SelectMachinesToDelete.
func chosen(all []poolMachine, desired, maxUnavailable int, skips bool) []string {
	if marked := these(all, len(all), isMarked); len(marked) > 0 {
		return marked
	}
	ready := len(these(all, len(all), isReady))
	if over := len(all) - desired; over > 0 {
		names := these(all, over, isAway)
		if !skips {
			names = append(names, these(all, over-len(names), isOlder)...)
		}
		others := slices.DeleteFunc(slices.Clone(all), func(m poolMachine) bool { return slices.Contains(names, m.name) })
		return append(names, these(others, over-len(names), isReady)...)
	}
	if ready < desired || skips {
		return nil
	}
	return these(all, min(maxUnavailable, desired), isOlder)
}
