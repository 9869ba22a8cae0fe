package host

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// Run carries out an API NodeOrder on this machine, and reports on the NodeOrder.
type Run struct {
	Node Node
	// Order is NAMESPACE/NAME, and OrderUID its UID.
	Order, OrderUID string
	Files           host.OrderFiles
	// Access is read again before the report: the kubelet renews the token while the unit runs.
	Access host.Access
}

// Refused is the error of a run that has done nothing.
type Refused struct{ err error }

func (r *Refused) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *Refused) Unwrap() error { return r.err }

// ExitCode is 3, as of every refusal.
func (r *Refused) ExitCode() int { return 3 }

func refused(format string, args ...any) error { return &Refused{fmt.Errorf(format, args...)} }

// Do carries out the NodeOrder and returns nil once the report is on the NodeOrder. The report names the failure of an order
// that was not carried out completely.
func (r *Run) Do(ctx context.Context) error {
	mine, err := host.NewOrder(r.Order, types.UID(r.OrderUID), r.Files)
	if err != nil {
		return refused("%w; nothing was changed", err)
	}
	r.Node.UID = r.OrderUID
	root, err := tree.OpenRunning(r.Node.Root)
	if err != nil {
		return refused("%w", err)
	}
	defer root.Close()
	r.Node.tree = root
	order, err := r.accept(ctx, mine)
	if err != nil {
		return err
	}
	bus, err := host.Dial(context.WithoutCancel(ctx), root)
	if err != nil {
		return refused("systemd of the host cannot be reached: %w; nothing was changed", err)
	}
	defer bus.Close()
	r.Node.Units = systemdUnits{bus}
	report := r.Node.Carry(ctx, order)
	if ctx.Err() != nil {
		return fmt.Errorf("the pod was ended before the order %s was; another pod of the order continues: %w", r.Order, ctx.Err())
	}
	if err := r.send(ctx, mine, report); err != nil {
		return err
	}
	if order.Method == patch.Reboot && report.Failure == nil {
		return r.reboot(ctx)
	}
	return nil
}

// accept reads the NodeOrder, and refuses a NodeOrder that is not for this pod, this boot or these methods.
func (r *Run) accept(ctx context.Context, mine host.Order) (patch.Order, error) {
	api, err := host.NewAPI(r.Access)
	if err != nil {
		return patch.Order{}, refused("%w; nothing was changed", err)
	}
	boot, err := r.Node.readFile(bootIDPath)
	if err != nil {
		return patch.Order{}, refused("the host's boot ID cannot be read: %w", err)
	}
	found, err := api.Get(ctx, mine, r.Node.Wait)
	if err != nil {
		return patch.Order{}, err
	}
	order := patch.OrderOf(found.Spec)
	switch invalid := order.Validate(); {
	case found.UID != mine.UID:
		return order, refused("order %s has the UID %s, and the pod is for %s: another client deleted and recreated the order", mine, found.UID, mine.UID)
	case len(found.Unreadable) > 0:
		return order, refused("order %s cannot be read: %s", mine, found.Unreadable)
	case found.DeletionTimestamp != nil:
		return order, refused("order %s is being deleted", mine)
	case found.Status != (v1alpha1.NodeOrderStatus{}):
		return order, refused("order %s has a report already", mine)
	case found.Spec.Key != mine.Public():
		return order, refused("the key of this pod is not the key of order %s, and Kamino would reject the report", mine)
	case invalid != nil:
		return order, refused("order %s is not valid: %w", mine, invalid)
	case order.Token != boot:
		return order, refused("order %s is for boot %s, and the host's boot is %s: the host was restarted in between", mine, order.Token, boot)
	}
	return order, nil
}

// Carry carries out a valid order and reports. A reboot follows the report, and is not done here.
func (n *Node) Carry(ctx context.Context, order patch.Order) *patch.Report {
	began := n.Now()
	report := &patch.Report{Method: order.Method, Token: order.Token}
	var err error
	if n.tree, err = tree.OpenRunning(n.Root); err != nil {
		report.Failure = nodeFailed(err)
		return report
	}
	defer n.tree.Close()
	if err := n.describe(ctx, report); err != nil {
		report.Failure = nodeFailed(err)
		return report
	}
	if order.Method == patch.Reboot {
		return report
	}
	report.Manager, report.Failure = patch.ManagerOf(n.system, n.exists(ostreeBooted))
	switch report.Manager {
	case patch.APT:
		a := aptNode{Node: n, order: order, report: report, began: began}
		report.Failure = a.carryOut(ctx)
		began = a.began
	case patch.DNF:
		d := dnfNode{Node: n, order: order, report: report, began: began}
		report.Failure = d.carryOut(ctx)
		began = d.began
	}
	report.Seconds = int64(n.Now().Sub(began).Seconds())
	if f := report.Failure; f != nil {
		n.logf("%s: %s", f.Reason, f.Message)
	} else {
		n.logf("done: %d pending, %d installed, %d held", len(report.Pending), len(report.Installed), len(report.Held))
	}
	return report
}

// send signs the report and writes it to the NodeOrder.
func (r *Run) send(ctx context.Context, mine host.Order, report *patch.Report) error {
	text, err := report.Encode()
	if err != nil {
		return err
	}
	api, err := host.NewAPI(r.Access)
	if err != nil {
		return err
	}
	return api.Report(ctx, mine, &v1alpha1.Report{Patch: text}, r.Node.Wait)
}

// reboot reboots the node. The report is on the NodeOrder already.
func (r *Run) reboot(ctx context.Context) error {
	if err := r.Node.Units.Reboot(ctx); err != nil {
		return fmt.Errorf("the report is on the order, but the host cannot be rebooted: %w", err)
	}
	r.Node.logf("ordered the reboot")
	return nil
}
