package world

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

var _ control.World = (*World)(nil)

// Values of control.Machine.State, besides the names of power states.
const (
	stateBooting = "booting"
	stateRunning = "running"
	stateHung    = "hung"
)

// Status implements control.World.
func (w *World) Status(context.Context) (control.Status, error) {
	return control.Status{
		Dir: w.directory.Dir, PID: os.Getpid(), Since: w.since, TimeScale: w.options.TimeScale,
		API: w.plane.URL(), Cloud: w.directory.Cloud, Endpoint: w.servers.Cloud,
	}, nil
}

// Machines implements control.World.
func (w *World) Machines(context.Context) ([]control.Machine, error) {
	nodes := map[string]*corev1.Node{}
	for _, node := range w.nodes.all() {
		nodes[node.Name] = node
	}
	machines := w.fleet.Machines()
	out := make([]control.Machine, 0, len(machines))
	for _, m := range machines {
		out = append(out, w.describe(m, nodes[m.Node]))
	}
	return out, nil
}

// describe combines a machine with its Node, or nil. A Node with another boot ID belongs to a namesake, or to an
// earlier boot of the machine.
func (w *World) describe(m machine.Status, node *corev1.Node) control.Machine {
	out := control.Machine{
		Node: m.Node, Pool: m.Pool, Instance: m.ID, Power: string(m.Power), Image: m.Image,
		Disk: m.Disk, MachineID: m.MachineID, State: string(m.Power),
	}
	for _, spec := range w.pools() {
		if spec.Is(m.Pool) {
			out.Pool = spec.Name
		}
	}
	if node != nil {
		out.Age = time.Since(node.CreationTimestamp.Time).Seconds()
		out.Cordoned = node.Spec.Unschedulable
		out.Ready = string(corev1.ConditionFalse)
		if current := m.Light || node.Status.NodeInfo.BootID == m.BootID; !current {
			out.Ready = string(corev1.ConditionUnknown)
		} else if c := readyCondition(node); c.Status != corev1.ConditionTrue || w.nodes.ready(node) {
			out.Ready = string(c.Status)
		}
	}
	switch {
	case m.Hung:
		out.State = stateHung
	case m.Power == fleet.On && out.Ready == string(corev1.ConditionTrue):
		out.State = stateRunning
	case m.Power == fleet.On:
		out.State = stateBooting
	}
	return out
}

// Requests implements control.World.
func (w *World) Requests(context.Context) ([]requestlog.Request, error) {
	return w.cloud.Requests(), nil
}

// Stats implements control.World.
func (w *World) Stats(context.Context) (requestlog.Stats, error) { return w.cloud.Stats(), nil }

// ResetStats implements control.World.
func (w *World) ResetStats(context.Context) error { w.cloud.ResetStats(); return nil }

// Faults implements control.World.
func (w *World) Faults(context.Context) ([]fault.Fault, error) { return w.cloud.Faults(), nil }

// AddFault implements control.World.
func (w *World) AddFault(_ context.Context, f fault.Fault) (string, error) {
	return w.cloud.AddFault(f)
}

// ClearFaults implements control.World.
func (w *World) ClearFaults(_ context.Context, names []string) error {
	return w.cloud.ClearFaults(names...)
}
