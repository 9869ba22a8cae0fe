package aws

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// EC2's reasons of states.
const (
	byUser  = "Client.UserInitiatedShutdown: User initiated shutdown"
	byGuest = "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
	bySpot  = "Server.SpotInstanceTermination: Spot instance termination"
)

// powers starts, stops and terminates instances.
type powers struct {
	*backend
	runs      runs
	instances instances
}

func (s powers) actions() []*action {
	return []*action{
		{name: "StartInstances", noun: "instance", handle: s.start},
		{name: "StopInstances", noun: "instance", handle: s.stop},
		{name: "RebootInstances", noun: "instance", handle: s.reboot},
		{name: "TerminateInstances", noun: "instance", handle: s.terminate},
	}
}

func (s powers) turns() map[string]turn {
	return map[string]turn{
		"instance.start": s.on, "instance.stop": s.off, "instance.stopped": s.stopped, "instance.reboot": s.again,
		"spot.end": s.interrupted, "instance.terminate": s.destroy, "instance.terminated": s.terminated, "instance.forget": s.forget,
	}
}

// change is an instance's state before and after a call.
type change struct {
	i      *instance
	before instanceState
}

func changesElement(all []change) query.Element {
	return query.Of("", query.List("instancesSet", "item", all, func(c change) query.Element {
		return query.Of("", query.Text("instanceId", c.i.ID), stateElement("currentState", c.i.State), stateElement("previousState", c.before))
	}))
}

// start starts all stopped instances, or none on an error. Running instances stay unchanged.
func (s powers) start(c *call, st *state) (query.Element, error) {
	all, p := s.instances.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, i := range all {
		if i.State != stopped && i.State != running && i.State != pending {
			return query.Element{}, wrongState(i)
		}
		if i.State != stopped {
			continue
		}
		if i.Spot {
			return query.Element{}, bad("UnsupportedOperation",
				"You can't start the Spot Instance '%s' because the associated Spot Instance request is not persistent.", i.ID)
		}
		if p := s.runs.capacity(st, i.Type, i.Zone); p != nil {
			return query.Element{}, p
		}
	}
	var out []change
	for _, i := range all {
		out = append(out, change{i, i.State})
		if i.State == stopped {
			i.State, i.Reason, i.Launched, i.Fails = pending, "", s.stamp(), c.fails()
			st.plan(st.moment+s.config.Latencies.Start, "instance.start", i.ID, "")
		}
	}
	return changesElement(out), nil
}

// on powers a machine on. A start that fails leaves the instance stopped.
func (s powers) on(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State != pending {
		return nil
	}
	fails := i.Fails
	return &work{
		do: func(ctx context.Context) error {
			if fails != "" {
				return nil
			}
			return s.config.Fleet.PowerOn(ctx, e.Target)
		},
		then: func(st *state, now time.Duration, err error) {
			i := st.Instances[e.Target]
			if i == nil || i.State != pending {
				return
			}
			i.State = running
			if err != nil && fails == "" {
				fails = "Server.InternalError: " + err.Error()
			}
			if fails != "" {
				i.State, i.Reason, i.Fails = stopped, fails, ""
			}
			s.changed(st, i, now)
		},
	}
}

// stop stops all running instances, or none on an error.
func (s powers) stop(c *call, st *state) (query.Element, error) {
	all, p := s.instances.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, i := range all {
		switch {
		case i.State != running && i.State != stopping && i.State != stopped && i.State != pending:
			return query.Element{}, wrongState(i)
		case i.KeepOn && i.State == running:
			return query.Element{}, bad("OperationNotPermitted",
				"The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.ID)
		case i.Spot && i.State == running:
			return query.Element{}, bad("UnsupportedOperation",
				"You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. "+
					"You can only stop Spot Instances associated with persistent Spot Instance requests.", i.ID)
		case i.State == pending:
			return query.Element{}, wrongState(i)
		}
	}
	var out []change
	force := c.in.True("Force")
	for _, i := range all {
		out = append(out, change{i, i.State})
		if i.State == running {
			s.halt(st, i, byUser, force, st.moment)
		}
	}
	return changesElement(out), nil
}

// halt begins the way to stopped.
func (s powers) halt(st *state, i *instance, reason string, hard bool, now time.Duration) {
	i.State, i.Reason, i.Hard = stopping, reason, hard
	i.Settled = now + s.config.Latencies.Stop
	st.plan(now, "instance.stop", i.ID, "")
	s.changed(st, i, now)
}

func (s powers) off(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State != stopping {
		return nil
	}
	hard := i.Hard
	return &work{
		do: func(ctx context.Context) error {
			if s.config.Fleet.Power(e.Target) == fleet.Off {
				return nil
			}
			return s.config.Fleet.PowerOff(ctx, e.Target, hard)
		},
		then: func(st *state, now time.Duration, _ error) {
			if i := st.Instances[e.Target]; i != nil {
				st.plan(max(now, i.Settled), "instance.stopped", e.Target, "")
			}
		},
	}
}

func (s powers) stopped(st *state, e event) *work {
	if i := st.Instances[e.Target]; i != nil && i.State == stopping {
		i.State = stopped
		s.changed(st, i, e.At)
	}
	return nil
}

// reboot reboots the guest; the state stays.
func (s powers) reboot(c *call, st *state) (query.Element, error) {
	all, p := s.instances.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, i := range all {
		if i.State != running {
			return query.Element{}, wrongState(i)
		}
	}
	for _, i := range all {
		st.plan(st.moment, "instance.reboot", i.ID, "")
	}
	return done(), nil
}

func (s powers) again(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State != running {
		return nil
	}
	return &work{
		do: func(ctx context.Context) error {
			if err := s.config.Fleet.PowerOff(ctx, e.Target, false); err != nil {
				return err
			}
			return s.config.Fleet.PowerOn(ctx, e.Target)
		},
		then: func(*state, time.Duration, error) {},
	}
}

// terminate terminates all instances, or none on an error.
func (s powers) terminate(c *call, st *state) (query.Element, error) {
	all, p := s.instances.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, i := range all {
		if i.KeepAlive && i.State != terminated {
			return query.Element{}, bad("OperationNotPermitted",
				"The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
		}
	}
	var out []change
	for _, i := range all {
		out = append(out, change{i, i.State})
		s.end(st, i, byUser, st.moment)
	}
	return changesElement(out), nil
}

// interrupted takes a spot instance away.
func (s powers) interrupted(st *state, e event) *work {
	if i := st.Instances[e.Target]; i != nil {
		s.end(st, i, bySpot, e.At)
	}
	return nil
}

// end begins the way to terminated.
func (w *backend) end(st *state, i *instance, reason string, now time.Duration) {
	if i.State == terminated || i.State == shuttingDown {
		return
	}
	i.State, i.Reason, i.Settled = shuttingDown, reason, now+w.config.Latencies.Terminate
	st.plan(now, "instance.terminate", i.ID, "")
	w.changed(st, i, now)
}

func (s powers) destroy(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State != shuttingDown {
		return nil
	}
	return &work{
		do: func(ctx context.Context) error { return s.config.Fleet.Terminate(ctx, e.Target) },
		then: func(st *state, now time.Duration, _ error) {
			if i := st.Instances[e.Target]; i != nil {
				i.Machine = false
				st.plan(max(now, i.Settled), "instance.terminated", e.Target, "")
			}
		},
	}
}

// terminated deletes the temporary volumes of the instance. The instance stays visible for a while.
func (s powers) terminated(st *state, e event) *work {
	i := st.Instances[e.Target]
	if i == nil || i.State == terminated {
		return nil
	}
	i.State = terminated
	for _, v := range volumesOf(st, i) {
		v.free()
		if v.Temporary {
			delete(st.Volumes, v.ID)
			st.plan(e.At, "volume.drop", v.ID, "")
		}
	}
	st.plan(e.At+s.config.Latencies.Forget, "instance.forget", i.ID, "")
	s.changed(st, i, e.At)
	return nil
}

func (s powers) forget(st *state, e event) *work {
	delete(st.Instances, e.Target)
	return nil
}

// findShutDown finds machines that their guests have shut down. Such an instance stops or terminates.
func (w *backend) findShutDown() {
	var down []string
	w.store.Read(func(st *state) {
		for _, i := range st.Instances {
			if i.State == running && i.Machine && !w.busy(st, i.ID) && w.config.Fleet.Power(i.ID) == fleet.Off {
				down = append(down, i.ID)
			}
		}
	})
	if len(down) == 0 {
		return
	}
	err := w.store.Write(func(st *state) error {
		now := w.time.now()
		st.moment = now
		for _, id := range down {
			i := st.Instances[id]
			switch {
			case i == nil || i.State != running || w.busy(st, id):
			case i.Shutdown == "terminate":
				w.end(st, i, byGuest, now)
			default:
				powers{backend: w}.halt(st, i, byGuest, false, now)
			}
		}
		return nil
	})
	if err != nil {
		w.config.Log.Error("the cloud's state was not saved", "error", err)
	}
}

// busy: work on an instance is due or running, so its power is not the guest's decision.
func (w *backend) busy(st *state, id string) bool {
	for _, e := range st.Events {
		if e.Target == id && (e.Busy || e.At <= w.time.now()) {
			return true
		}
	}
	return false
}

// changed informs the group of an instance about a new state.
func (w *backend) changed(st *state, i *instance, now time.Duration) {
	g, m := memberOf(st, i.ID)
	if g == nil {
		return
	}
	switch {
	case i.State == running && (m.Lifecycle == lifePending || m.Lifecycle == lifeWarmedPending):
		st.plan(now, "member.launched", i.ID, "")
	case i.State == stopped && m.Lifecycle == lifeWarmedPending:
		if m.Lifecycle = lifeWarmedStopped; g.Warm != nil && g.Warm.State == "Hibernated" {
			m.Lifecycle = lifeWarmedAsleep
		}
	case i.State != running && i.State != pending:
		st.plan(now+w.config.Latencies.Health, "member.health", i.ID, "")
	}
}
