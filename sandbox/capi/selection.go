package capi

import "slices"

// poolMachine has the properties of an instance in a machine pool that decide its deletion.
type poolMachine struct {
	name string
	// ready, of the pool's latest model, and marked to be deleted first.
	ready, latest, marked bool
}

// Properties for the choice.
func isMarked(m poolMachine) bool { return m.marked }
func isReady(m poolMachine) bool  { return m.ready }
func isAway(m poolMachine) bool   { return !m.ready }
func isOlder(m poolMachine) bool  { return m.ready && !m.latest }

// these returns the names of the first machines of a kind, at most most.
func these(all []poolMachine, most int, is func(poolMachine) bool) (names []string) {
	for _, m := range all {
		if len(names) < most && is(m) {
			names = append(names, m.name)
		}
	}
	return names
}

// instancesToDelete returns the instances that CAPZ deletes, oldest first: marked instances alone, then surplus instances, then
// ready instances of older models up to maxUnavailable, unless the gate skips these. Source: CAPZ, SelectMachinesToDelete.
func instancesToDelete(all []poolMachine, desired, maxUnavailable int, skips bool) []string {
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
