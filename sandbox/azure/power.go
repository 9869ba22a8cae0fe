package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// powerActions are the actions on instances, by their names in the path.
var powerActions = []string{"powerOff", "start", "restart", "deallocate", "reimage", "reimageall"}

// powers are the actions on instances.
type powers struct {
	*backend
	machines machines
}

func (s powers) routes() []*route {
	var out []*route
	for _, action := range powerActions {
		handle := func(c *call) (*reply, error) { return s.power(c, action) }
		out = append(out,
			&route{method: http.MethodPost, pattern: instancePath + "/" + action, noun: "instance", operation: action,
				action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/" + action + "/action", handle: handle},
			&route{method: http.MethodPost, pattern: scaleSetPath + "/" + action, noun: "instance", operation: action,
				action: "Microsoft.Compute/virtualMachineScaleSets/" + action + "/action", handle: handle},
			&route{method: http.MethodPost, pattern: vmPath + "/" + action, noun: "vm", operation: action,
				action: "Microsoft.Compute/virtualMachines/" + action + "/action", handle: handle})
	}
	return append(out,
		&route{method: http.MethodPost, pattern: scaleSetPath + "/manualupgrade", noun: "instance", operation: "update",
			action: "Microsoft.Compute/virtualMachineScaleSets/manualUpgrade/action",
			handle: func(c *call) (*reply, error) { return s.power(c, "manualUpgrade") }},
		&route{method: http.MethodPost, pattern: scaleSetPath + "/delete", noun: "instance", operation: "delete",
			action: "Microsoft.Compute/virtualMachineScaleSets/delete/action", handle: s.deleteInstances})
}

func (s powers) work() map[string]job { return map[string]job{"power": {s.run, failPower}} }

// targets returns the instances of a call: the instance in the path, the instances in the body, or all.
func (s powers) targets(st *state, c *call) ([]*instance, *problem) {
	if c.vars["vm"] != "" {
		i := st.Instances[c.vmID().key()]
		if i == nil {
			return nil, notFound(c.vmID())
		}
		return []*instance{i}, nil
	}
	set := st.ScaleSets[c.scaleSetID().key()]
	if set == nil {
		return nil, notFound(c.scaleSetID())
	}
	if c.vars["instance"] != "" {
		i := st.Instances[c.instanceID().key()]
		if i == nil {
			return nil, entityNotFound()
		}
		return []*instance{i}, nil
	}
	all := st.instancesOf(set)
	wanted := list(c.body, "instanceIds")
	if len(wanted) == 0 || len(wanted) == 1 && wanted[0] == "*" {
		return all, nil
	}
	var out []*instance
	for _, w := range wanted {
		i := st.Instances[set.id().child("virtualMachines", fmt.Sprint(w)).key()]
		if i == nil {
			return nil, invalid("instanceIds", "The provided instanceId %v is not an active Virtual Machine Scale Set VM instanceId.", w)
		}
		out = append(out, i)
	}
	return out, nil
}

// power starts an action on instances.
func (s powers) power(c *call, action string) (*reply, error) {
	off := s.powersBefore(c)
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		targets, p := s.targets(st, c)
		if p != nil {
			return p
		}
		target := c.scaleSetID()
		if c.vars["vm"] != "" {
			target = c.vmID()
		}
		op := operation{Kind: "power", Action: action, Target: target.String(), Latency: s.latencyOf(action),
			Flags: map[string]bool{"hard": strings.EqualFold(c.r.URL.Query().Get("skipShutdown"), "true")}}
		for _, i := range targets {
			if i.State == stateDeleting || !i.Launched {
				return conflict("OperationNotAllowed", "The instance '%s' is in provisioning state '%s'.", i.ID, i.State)
			}
			op.Targets, op.Lanes = append(op.Targets, i.ID), append(op.Lanes, i.key())
		}
		for _, i := range targets {
			i.State = stateUpdating
			if changes(action, off[i.key()]) {
				i.Doing = action
			}
		}
		if len(op.Lanes) == 0 {
			op.Lanes = []string{newUUID()}
		}
		rep.operation = c.begin(st, op)
		return nil
	})
	return rep, err
}

// powersBefore asks the fleet which of the call's instances are off, without holding the state.
func (s powers) powersBefore(c *call) map[string]bool {
	var ids []string
	s.store.Read(func(st *state) {
		targets, _ := s.targets(st, c)
		for _, i := range targets {
			ids = append(ids, i.ID)
		}
	})
	off := map[string]bool{}
	for _, id := range ids {
		off[fold(id)] = s.config.Fleet.Power(id) == fleet.Off
	}
	return off
}

// changes reports whether an action changes the power state.
func changes(action string, off bool) bool {
	switch action {
	case "powerOff":
		return !off
	case "start":
		return off
	case "manualUpgrade":
		return false
	}
	return true
}

func (s powers) latencyOf(action string) time.Duration {
	l := s.config.Latencies
	return map[string]time.Duration{"powerOff": l.Stop, "start": l.Start, "restart": l.Restart, "deallocate": l.Deallocate,
		"reimage": l.Reimage, "reimageall": l.Reimage, "manualUpgrade": l.Model}[action]
}

// idle is the latency of a start of running machines.
const idle = 5 * time.Second

// run does an action on its instances.
func (s powers) run(ctx context.Context, op operation) (func(*state), error) {
	f := s.config.Fleet
	var err error
	switch op.Action {
	case "powerOff", "deallocate":
		err = s.stop(ctx, op)
	case "start":
		err = s.powerOn(ctx, op)
	case "restart":
		err = errors.Join(s.all(op, func(id string) error { return f.PowerOff(ctx, id, false) }), s.wait(op, 0.5))
		if err == nil {
			err = errors.Join(s.all(op, func(id string) error { return f.PowerOn(ctx, id) }), s.wait(op, 1))
		}
	case "reimage", "reimageall": // equal, because data disks do not exist
		if err = s.wait(op, 0.5); err == nil {
			err = errors.Join(s.all(op, func(id string) error { return s.machines.reimage(ctx, id) }), s.wait(op, 1))
		}
	case "manualUpgrade":
		if err = s.wait(op, 1); err == nil {
			err = s.machines.upgradeAll(ctx, op.Targets)
		}
	}
	if err != nil {
		return nil, err
	}
	return func(st *state) { settlePower(st, op, nil) }, nil
}

// stop powers off running machines. Azure also takes time if no machine runs.
func (s powers) stop(ctx context.Context, op operation) error {
	busy := op.Action == "deallocate"
	for _, id := range op.Targets {
		busy = busy || s.config.Fleet.Power(id) != fleet.Off
	}
	if !busy {
		op.Latency = min(op.Latency, s.config.Latencies.StopIdle)
		return s.wait(op, 1)
	}
	err := s.all(op, func(id string) error {
		if s.config.Fleet.Power(id) == fleet.Off {
			return nil
		}
		return s.config.Fleet.PowerOff(ctx, id, op.Flags["hard"])
	})
	if err != nil {
		return err
	}
	return s.wait(op, 1)
}

// powerOn boots the machines that are off; the power comes on after a third of the time.
func (s powers) powerOn(ctx context.Context, op operation) error {
	busy := false
	for _, id := range op.Targets {
		busy = busy || s.config.Fleet.Power(id) != fleet.On
	}
	if !busy {
		op.Latency = min(op.Latency, idle)
	}
	if err := s.wait(op, 1.0/3); err != nil {
		return err
	}
	if err := s.all(op, func(id string) error { return s.config.Fleet.PowerOn(ctx, id) }); err != nil {
		return err
	}
	return s.wait(op, 1)
}

// all does something to every target at once.
func (s powers) all(op operation, f func(id string) error) error {
	results := make([]error, len(op.Targets))
	each(op.Targets, func(n int, id string) { results[n] = f(id) })
	return errors.Join(results...)
}

// settlePower records the result of an action.
func settlePower(st *state, op operation, p *problem) {
	for _, id := range op.Targets {
		i := st.Instances[fold(id)]
		if i == nil || i.State == stateDeleting {
			continue
		}
		if i.Doing == op.Action {
			i.Doing = ""
		}
		if i.Doing == "" {
			i.end(p)
		}
		if p == nil {
			i.Deallocated = op.Action == "deallocate" || i.Deallocated && op.Action == "powerOff"
		}
	}
}

func failPower(st *state, op operation, p *problem) { settlePower(st, op, p) }

// deleteInstances deletes the instances in the body.
func (s powers) deleteInstances(c *call) (*reply, error) {
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		if len(list(c.body, "instanceIds")) == 0 {
			return invalid("instanceIds", "Required parameter 'instanceIds' is missing (null).")
		}
		targets, p := s.targets(st, c)
		if p != nil {
			return p
		}
		set := st.ScaleSets[c.scaleSetID().key()]
		op := operation{Kind: "instance.delete", Target: set.ID}
		for _, i := range targets {
			if i.State == stateDeleting {
				continue
			}
			i.State = stateDeleting
			op.Targets, op.Lanes = append(op.Targets, i.ID), append(op.Lanes, i.key())
		}
		set.setCapacity(set.capacity() - int64(len(op.Targets)))
		rep.operation = c.begin(st, op)
		return nil
	})
	return rep, err
}
