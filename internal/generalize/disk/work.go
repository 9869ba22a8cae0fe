package disk

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/host"
)

// Generalize runs the rules on a tree, and writes the manifest into a file as well if one is named. The manifest is nil where
// nothing was begun; one that comes with an error tells what was done until then.
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

// Look returns why the host that works in the root could not be generalized, as far as that shows while it works.
func Look(root Root, runner *generalize.Runner) error {
	t, err := root.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	return runner.Look(t)
}

// Order is what a capture told its pod: which Order it carries out, where the pod finds its key, and how it reports.
type Order struct {
	// Name as NAMESPACE/NAME, and the UID of the Order.
	Name, UID string
	Files     host.OrderFiles
	Access    host.Access
}

// GeneralizeHost generalizes the host that works in h.Root by order of a capture, and powers it off.
func GeneralizeHost(ctx context.Context, h host.Host, o Order) error {
	// Once the container runtime is stopped nobody reads what is written, and that must not end the run.
	signal.Ignore(syscall.SIGPIPE)
	var err error
	if h.API, err = host.NewAPI(o.Access); err != nil {
		return refusef("%w; nothing was changed", err)
	}
	if h.Order, err = host.NewOrder(o.Name, types.UID(o.UID), o.Files); err != nil {
		return refusef("%w; nothing was changed", err)
	}
	h.Wait = host.Wait
	return h.Run(ctx)
}

// TerminationLog is where the kubelet has each container leave its last words.
const TerminationLog = "/dev/termination-log"

// LeaveMessage gives the kubelet the sentence of a failure, for what was refused before anything was changed: without it, all
// of the log stands in the pod's status. Where there is no such file, this is no pod, and nobody is told.
func LeaveMessage(file string, err error) {
	if err == nil {
		return
	}
	if f, opened := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0); opened == nil {
		defer f.Close()
		_, _ = f.WriteString(generalize.Printable(err.Error()))
	}
}
