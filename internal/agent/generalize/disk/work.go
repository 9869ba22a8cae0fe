package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Generalize runs the rules on a tree, and also writes the manifest to file if set. A nil manifest means that nothing
// was begun. A manifest with an error describes the work until then.
func Generalize(ctx context.Context, root Root, runner *generalize.Runner, file string) (*generalize.Manifest, error) {
	t, err := root.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	m, failed := runner.Run(ctx, t)
	if m == nil || file == "" {
		return m, failed
	}
	content, err := m.Encode()
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	return m, errors.Join(failed, err)
}

// Preflight returns why the running host in the root cannot be generalized, as far as known before anything stops. The
// note describes the comparison with another host.
func Preflight(ctx context.Context, root Root, runner *generalize.Runner) (note string, err error) {
	t, err := root.Open()
	if err != nil {
		return "", err
	}
	defer t.Close()
	return runner.Preflight(ctx, t)
}

// Summarize returns the files of unknown origin of the running host in the root.
func Summarize(ctx context.Context, root Root, runner *generalize.Runner, key []byte) (*scan.Summary, error) {
	t, err := root.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return runner.Summarize(ctx, t, key)
}

// Order names the Order of a capture for its pod, with the key files and the access for the report.
type Order struct {
	// Name is NAMESPACE/NAME, and UID the UID of the NodeOrder.
	Name, UID string
	Files     host.OrderFiles
	Access    host.Access
}

// GeneralizeHost generalizes the running host in h.Root for a capture's NodeOrder, and powers the host off.
func GeneralizeHost(ctx context.Context, h host.Host, o Order) error {
	// The log has no reader after the container runtime stops; writing must not end the run.
	signal.Ignore(syscall.SIGPIPE)
	var err error
	if h.API, err = host.NewAPI(o.Access); err != nil {
		return refusef("%w; nothing was changed", err)
	}
	if h.Order, err = host.NewOrder(o.Name, types.UID(o.UID), o.Files); err != nil {
		return refusef("%w; nothing was changed", err)
	}
	h.Wait = process.Wait
	return h.Run(ctx)
}

// GeneralizeCopy generalizes a copy of the donor's disk for a capture's NodeOrder, and reports the proof, or why there is none.
func GeneralizeCopy(ctx context.Context, d offline.Disk, o Order, s generalize.RunSubject, profile *rules.Profile) error {
	api, err := host.NewAPI(o.Access)
	if err != nil {
		return refusef("%w; nothing was changed", err)
	}
	order, err := host.NewOrder(o.Name, types.UID(o.UID), o.Files)
	if err != nil {
		return refusef("%w; nothing was changed", err)
	}
	found, err := api.Get(ctx, order, process.Wait)
	if err != nil {
		return err
	}
	if err := order.Check(found, s, profile); err != nil {
		return err
	}
	var facts host.Facts
	var runner *generalize.Runner
	prepare := d.Runner
	d.Runner = func(t *tree.Tree) (*generalize.Runner, error) {
		if runner, err = prepare(t); err == nil {
			runner.Names = append(runner.Names, found.Spec.NodeName)
		}
		return runner, err
	}
	logf := func(format string, args ...any) { _, _ = fmt.Fprintf(d.Log, format+"\n", args...) }
	if err := host.RefuseReboots(ctx, d.MachineRoot); err != nil { // the engine notices a reboot
		logf("this machine may still reboot with the copy attached: %v", err)
	}
	d.Cleaned = func(t *tree.Tree, m *generalize.Manifest) { facts = host.FactsOf(runner, t, m, logf) }
	result, failed := d.Run(ctx)
	var report *v1alpha1.Report
	if failed != nil {
		report = host.Failure(s, order.UID, failed, time.Now())
	} else if report, err = facts.Report(result.Manifest, order.UID, time.Now()); err != nil {
		return err
	}
	// The report also has to arrive after a signal.
	if err := api.Report(context.WithoutCancel(ctx), order, report, process.Wait); err != nil {
		return errors.Join(failed, fmt.Errorf("report on order %s: %w", order, err))
	}
	return failed
}

// TerminationLog is the kubelet's file for the last message of a container.
const TerminationLog = "/dev/termination-log"

// LeaveError writes a refusal into the kubelet's file. Without the message the pod's status would contain the whole log.
func LeaveError(file string, err error) {
	if err != nil {
		LeaveMessage(file, err.Error())
	}
}

// LeaveMessage writes a message into the kubelet's file, if the file exists.
func LeaveMessage(file, message string) {
	if f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		defer f.Close()
		_, _ = f.WriteString(generalize.Printable(message))
	}
}
