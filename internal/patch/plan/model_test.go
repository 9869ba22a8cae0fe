package plan

// model is a small model of a patched node: the observable state, and the truth that only the model knows.
type model struct {
	f Facts

	// fate is what the unit of the patch will report; flaw is the fault of the installed level.
	fate Result
	flaw flaw

	// ill: a DaemonSet is not healthy on the node, whatever the level. healing: the DaemonSet becomes healthy before the patch.
	ill, healing bool

	// unit is the unit of the patch on the host. It needs no pod.
	unit unit
	// disk is the content of the disk, and running whether the node has booted it.
	disk    disk
	running bool
	// booted: the node has started again since the order. said: the pod has signed its report.
	booted, said bool
	// rebooted: a pod of Kamino rebooted the node, or is about to.
	rebooted bool

	finished, closed bool
}

// flaw is a fault of the new patch level.
type flaw int8

const (
	sound    flaw = iota
	noBoot        // the node does not become Ready under the level
	noHealth      // a DaemonSet is not healthy under the level
)

type unit int8

const (
	noUnit unit = iota
	runningUnit
	endedUnit
	killedUnit
)

type disk int8

const (
	oldDisk disk = iota
	halfDisk
	newDisk
)

// starts are the nodes at the begin of a patch.
func starts() []model {
	var worlds []model
	for _, fate := range []Result{Current, Patched, Incomplete, Refused} {
		for _, f := range []flaw{sound, noBoot, noHealth} {
			for _, bad := range []bool{false, true} {
				for _, cordoned := range []bool{false, true} {
					if fate != Patched && (f != sound || bad) {
						continue
					}
					w := model{fate: fate, flaw: f, f: Facts{Lock: Ours, Node: NodeReady, Cordoned: cordoned, Drained: cordoned}}
					w.f.LevelQuarantined = bad
					worlds = append(worlds, w)
					if fate == Patched && f == sound && !bad {
						w.ill = true
						worlds = append(worlds, w)
						w.healing = true
						worlds = append(worlds, w)
					}
				}
			}
		}
	}
	return worlds
}

// observed hides facts that no record holds yet.
func (w model) observed() Facts {
	f := w.f
	f.LevelQuarantined = f.LevelQuarantined && f.hasLevel()
	f.Unhealthy = w.ill && f.Order == NoOrder && f.Node == NodeReady
	f.Reported = w.said && f.PodKnown && f.Order == PatchOrder && f.OrderLeft && f.Result == NoResult
	f.Rebooted = f.Rebooted && f.Order != NoOrder
	return f
}

// effect is the effect of an action on the world.
func (w model) effect(d Decision) model {
	f := &w.f
	switch d.Do {
	case Wait:
	case Cordon:
		f.Cordoned = true
	case Evict:
		f.Drained = true
	case OrderPatch:
		f.Order, f.OrderLeft, f.Overdue, f.Rebooted, w.booted, w.said = PatchOrder, true, false, false, false, false
	case RunPod:
		f.Pod, f.PodKnown = PodActive, false
	case Adopt:
		f.PodKnown, w.said = true, false // a report of an earlier pod is void
	case Believe:
		f.Result, f.Overdue = w.fate, false
	case MarkPending:
		f.PendingMarked = true
	case DeletePod:
		f.Pod, f.PodKnown = NoPod, false
	case DeleteOrder:
		f.OrderLeft = false
	case OrderReboot:
		f.Order, f.OrderLeft, f.Overdue = RebootOrder, true, false
	case MarkPatched:
		f.PatchedMarked, f.PendingMarked, f.FailedMarked = true, false, false
	case Uncordon:
		f.Cordoned, f.Drained = false, false
	case Finish:
		w.finished, w.closed = true, true
	case Fail:
		f.Failure = d.Why
	case Quarantine:
		f.LevelRecorded = true
	case MarkFailed:
		f.FailedMarked, f.PatchedMarked = true, false
	case Close:
		w.closed = true
	}
	return w
}

// progress is the change of the world without adversities. It returns the same world if no change is pending.
func (w model) progress() model {
	f := &w.f
	patching := f.Pod == PodActive && f.OrderLeft && f.Order == PatchOrder && !w.booted
	switch {
	case w.healing:
		w.ill, w.healing = false, false
	case f.Off:
	case w.unit == runningUnit:
		w = w.installed()
	case patching && w.unit == noUnit && f.Node == NodeReady:
		w.unit = runningUnit
		if w.fate == Patched || w.fate == Incomplete {
			w.disk = halfDisk
		}
	case patching && w.unit == endedUnit && f.PodKnown && !w.said && f.Node == NodeReady:
		w.said = true
	case f.Pod == PodActive && f.OrderLeft && f.Order == RebootOrder && !w.booted && f.Node == NodeReady:
		w.rebooted = true
		w = w.boot()
	case w.booted && f.Node != NodeGone && !w.hangs() && (!f.Rebooted || f.Node != NodeReady):
		f.Node, f.Rebooted, f.Overdue = NodeReady, true, false
		if f.Pod == PodActive {
			f.Pod = PodFailed // the pod died with its boot
		}
	case !w.booted && f.Node == NodeNotReady && !w.hangs():
		f.Node = NodeReady
	case f.Rebooted && f.PatchedMarked && !f.Cordoned && f.Node == NodeReady && w.flaw != noHealth && !w.ill && f.Failure == "":
		f.Soaked = true
	}
	return w
}

// installed ends the unit of the patch.
func (w model) installed() model {
	w.unit = endedUnit
	switch w.fate {
	case Patched:
		w.disk = newDisk
	case Incomplete:
		w.disk = halfDisk
	}
	return w
}

// boot starts the node again. A patch in progress is cut off.
func (w model) boot() model {
	if w.unit == runningUnit {
		w.unit = killedUnit
	}
	w.booted, w.running, w.f.Soaked = true, w.disk != oldDisk, false
	if w.f.Node == NodeReady {
		w.f.Node = NodeNotReady
	}
	return w
}

// hangs reports whether the node cannot become Ready.
func (w model) hangs() bool { return w.running && w.disk == newDisk && w.flaw == noBoot }

// adverse are all adversities from outside.
func (w model) adverse() []model {
	var out []model
	add := func(change func(*model)) {
		next := w
		change(&next)
		if next != w {
			out = append(out, next)
		}
	}
	add(func(n *model) { n.f.Ending = true })
	add(func(n *model) { // another client powers the machine off
		if n.f.Off = n.f.Node != NodeGone; n.f.Off {
			n.f.Node, n.f.Soaked = NodeNotReady, false
		}
		if n.unit == runningUnit {
			n.unit = killedUnit
		}
	})
	add(func(n *model) { n.f.Failure = "" }) // the status is lost
	add(func(n *model) { n.f.Overdue = !n.f.Soaked })
	add(func(n *model) { n.f.Node, n.f.Lock, n.f.Cordoned, n.f.Drained = NodeGone, Unlocked, false, true })
	for _, over := range []Lock{Unlocked, Theirs} {
		add(func(n *model) { n.f.Lock = over })
	}
	add(func(n *model) {
		if n.f.Node == NodeReady {
			n.f.Node, n.f.Soaked = NodeNotReady, false
		}
	})
	add(func(n *model) { // another client reboots the node
		if n.f.Node != NodeGone && !n.f.Off {
			*n = n.boot()
		}
	})
	add(func(n *model) { n.f.Pod, n.f.PodKnown = NoPod, false }) // a client deletes the pod
	add(func(n *model) {
		if n.f.Pod == PodActive {
			n.f.Pod = PodFailed
		}
	})
	add(func(n *model) { // a client deletes the key before the pod starts
		if n.f.Pod == PodActive && n.unit == noUnit {
			n.f.Pod = PodStuck
		}
	})
	add(func(n *model) { n.f.OrderLeft = n.f.Order == NoOrder && n.f.Failure == "" }) // or a pass crashed before its record
	add(func(n *model) { n.f.Cordoned = false })
	add(func(n *model) { n.f.Drained = n.f.Drained && n.f.Cordoned })
	add(func(n *model) { n.f.PendingMarked, n.f.PatchedMarked, n.f.FailedMarked = false, false, false })
	return out
}
