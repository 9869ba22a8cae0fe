// Package nodepatch patches one reserved node for a holder: drain, patch, reboot, and observation in service.
//
// A pass reads the node into facts, asks package plan for one action, and does this action. The holder keeps the Record,
// which is written before each effect, so any process can continue. The holder reserves the node before the first pass,
// and releases the node after the last pass.
package nodepatch

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// Patcher patches nodes. A Patcher remembers nothing between two passes.
type Patcher struct {
	// Client reads and writes NodeOrders without a cache.
	Client client.Client
	// Kube reads and writes Nodes, pods and the Secrets of NodeOrders.
	Kube kubernetes.Interface
	// Reservations has the Leases of reserved nodes.
	Reservations node.Reservations
	// Namespace of NodeOrders and pods, and Image of the pods.
	Namespace, Image string
	// MayRun asks, before each pod, whether a pod with the image may run on a node. If nil, every image may run.
	MayRun func() error
	// Unhealthy returns why a Ready node is not healthy in service, such as a DaemonSet without a Ready pod; empty without a
	// problem.
	Unhealthy func(ctx context.Context, node string) (string, error)
	// Now is the clock.
	Now func() time.Time
}

// Task is the patch of one node.
type Task struct {
	// Holder of the node's reservation: a Prototype.
	Holder v1alpha1.Holder
	// Node and its UID.
	Node    string
	NodeUID types.UID
	// Patches are the demanded patches. Drained is set by Kamino.
	Patches v1alpha1.OrderPatches
	Drain   v1alpha1.DrainSettings
	Limits  Limits
	// Quarantined has the patch levels that failed on earlier nodes.
	Quarantined map[string]bool
	// Gone: the instance of the node is removed, whatever the Node shows.
	Gone bool
	// Off: the machine of the node is off, and the holder does not start it.
	Off bool
	// Ending: the holder is deleted or has failed.
	Ending bool
}

// Limits are the times of the phases.
type Limits struct {
	// Patch and Reboot are the time for the patch, and from the order of the reboot to a Ready node.
	Patch, Reboot time.Duration
	// Soak is the time in service without a break, within SoakTimeout.
	Soak, SoakTimeout time.Duration
}

// Record is the lasting state of the patch of one node.
type Record = v1alpha1.PatchRecord

// Store keeps the record of the holder.
type Store interface {
	// Save replaces the record before the effect that follows.
	Save(ctx context.Context, r Record) error
}

// Pass is the result of a pass.
type Pass struct {
	Decision plan.Decision
	// Done: nothing is left to do. Without Record.Failure, the patch succeeded.
	Done bool
}

// Pass observes the node and does one action. The caller repeats passes with the saved record until Done. After an error
// the next pass continues.
func (p *Patcher) Pass(ctx context.Context, t Task, r Record, s Store) (Pass, error) {
	if r.StartedAt.IsZero() {
		r.StartedAt = metav1.NewTime(p.Now())
		if err := s.Save(ctx, r); err != nil {
			return Pass{}, err
		}
	}
	w, err := p.observe(ctx, t, r)
	if err != nil {
		return Pass{}, err
	}
	if err := p.observeSoak(ctx, w, s); err != nil {
		return Pass{}, err
	}
	d := plan.Next(w.facts)
	if err := p.act(ctx, w, d, s); err != nil {
		return Pass{Decision: d}, fmt.Errorf("patch node %s: %w", t.Node, err)
	}
	return Pass{Decision: d, Done: d.Do == plan.Finish || d.Do == plan.Close}, nil
}
