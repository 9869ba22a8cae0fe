package capi

// poolMachine is an instance of a machine pool, as far as it is chosen by it.
type poolMachine struct {
	name string
	// ready, of the pool's latest model, and marked to be deleted first.
	ready, latest, marked bool
}

// chosen are the instances that Cluster API's provider for Azure deletes, of those that are there, in the order of their age. One that is
// marked goes at once, and while there is one nobody else does. Of too many, those go that are not ready, then those of older models, the
// oldest first. Else ready ones of older models go, as many as may be away at once; not with the gate that skips that. Source: CAPZ,
// SelectMachinesToDelete.
func chosen(all []poolMachine, desired, maxUnavailable int, skips bool) (names []string) {
	pick := func(most int, is func(poolMachine) bool) {
		for _, m := range all {
			if len(names) < most && is(m) {
				names = append(names, m.name)
			}
		}
	}
	ready := 0
	for _, m := range all {
		if m.ready {
			ready++
		}
	}
	if pick(len(all), func(m poolMachine) bool { return m.marked }); len(names) > 0 {
		return names
	}
	if over := len(all) - desired; over > 0 {
		pick(over, func(m poolMachine) bool { return !m.ready && !m.latest })
		pick(over, func(m poolMachine) bool { return !m.ready && m.latest && ready >= desired })
		if !skips {
			pick(over, func(m poolMachine) bool { return m.ready && !m.latest })
		}
		pick(over, func(m poolMachine) bool { return m.ready && (skips || m.latest) })
		return names
	}
	if ready < desired || skips {
		return nil
	}
	pick(min(maxUnavailable, desired), func(m poolMachine) bool { return m.ready && !m.latest })
	return names
}
