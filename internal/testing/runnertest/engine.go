// Package runnertest holds an engine for tests of callers: its captures change nothing, and report phases as real captures
// do.
package runnertest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/selection"
)

// The scripts of a scripted engine.
const (
	GoesWell    = ""
	IsRefused   = "refused"   // by the preview
	IsForbidden = "forbidden" // by the preview, for a missing permission
	IsUnread    = "unread"    // the command's credential may not read all inputs of the preview
	FailsEarly  = "early"     // in the capture's own preflight
	FailsLate   = "late"      // after the donor's return
	Hangs       = "hangs"     // during the drain
)

// Engine runs captures as a list of phases of ten seconds each, in the Prototype's status. Other tests cover real captures.
type Engine struct {
	// Engine is the real engine, which returns orphaned nodes.
	*capture.Engine
	Client client.Client
	Script string
	Now    func() time.Time
	// Passes counts the passes. Pause is the delay after each pass.
	Passes int
	Pause  time.Duration
}

var phases = []v1alpha1.Phase{
	v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting,
}

// DisruptionCost is equal for all nodes.
func (s *Engine) DisruptionCost(context.Context, string, v1alpha1.DrainSettings, bool) (selection.DisruptionCost, error) {
	return selection.DisruptionCost{Evictions: 1}, nil
}

// Refusals returns the refusals of the script.
func (s *Engine) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	preview, err := s.Preview(ctx, p)
	return preview.Refusals, err
}

// Preview returns the preview of the script.
func (s *Engine) Preview(_ context.Context, p *v1alpha1.Prototype) (admission.Preview, error) {
	preview := admission.Preview{
		Evicts: []string{"default/web-0", "default/web-1"},
		Change: &cloud.RecipeChange{
			Pool: cloud.PoolID(p.Spec.PoolID), From: "ubuntu:2204", To: "pool1/versions/" + p.Spec.Version, Backup: fmt.Appendf(nil, `{"pool": %q, "image": "ubuntu:2204"}`, p.Spec.PoolID),
			Removes: []cloud.RecipeField{{Kind: "customData", Unreadable: true}}, Keeps: []cloud.RecipeField{{Kind: "extension", Name: "billing"}},
		},
		Retires: []string{"2026.02.01"}, Irreversible: true,
	}
	if p.Spec.ReplacesDonor() {
		preview.Removal = &admission.RemovalCost{GrowsFirst: p.Spec.GrowsFirst(), Added: p.Spec.AddsDonor(), Nodes: 3}
	}
	switch s.Script {
	case IsRefused:
		preview.Refusals = []cloud.Refusal{
			{Reason: "NotReady", Message: fmt.Sprintf("node %s is not Ready: wait until the node is Ready", p.Spec.Donor.NodeName)},
			{Reason: "EphemeralOSDisk", Message: "pool pool1 has ephemeral OS disks, which can't be captured"},
		}
	case IsForbidden:
		preview.Refusals = []cloud.Refusal{{Reason: "PermissionMissing", Message: "the credential may not write snapshots in group g"}}
	case IsUnread:
		return preview, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "ours", nil)
	}
	return preview, nil
}

// Pass ends the running phase and begins the next phase.
func (s *Engine) Pass(ctx context.Context, name string) (capture.Result, error) {
	s.Passes++
	p := &v1alpha1.Prototype{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, p); apierrors.IsNotFound(err) {
		return capture.Result{Done: true}, nil
	} else if err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() || !p.DeletionTimestamp.IsZero() {
		return s.settle(ctx, p)
	}
	if len(p.Finalizers) == 0 {
		p.Finalizers = []string{v1alpha1.CaptureFinalizer}
		return capture.Result{}, s.Client.Update(ctx, p)
	}
	s.advance(p)
	if err := s.Client.Status().Update(ctx, p); err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() {
		return s.settle(ctx, p)
	}
	return capture.Result{After: s.Pause}, nil
}

// settle removes the finalizer as the last step.
func (s *Engine) settle(ctx context.Context, p *v1alpha1.Prototype) (capture.Result, error) {
	p.Finalizers = nil
	return capture.Result{Done: true}, s.Client.Update(ctx, p)
}

func (s *Engine) advance(p *v1alpha1.Prototype) {
	st := &p.Status
	n := len(st.Steps)
	at := metav1.NewMicroTime(s.Now().Add(time.Duration(n) * 10 * time.Second))
	if n > 0 && s.Script == Hangs && st.Phase == v1alpha1.PhaseDraining {
		st.Progress = "pods left: 1 (default/web-0 is held by budget default/web)"
		return
	}
	if n > 0 {
		st.Steps[n-1].FinishedAt = &at
	}
	st.Progress = ""
	switch {
	case n == 1 && s.Script == FailsEarly:
		st.Phase, st.Failure = v1alpha1.PhaseFailed, &v1alpha1.Failure{Reason: "Windows", Message: "node n runs Windows; only Linux nodes can be captured"}
		return
	case n == 5 && s.Script == FailsLate:
		st.Donor.ReleasedAt = &at
		st.Phase = v1alpha1.PhaseFailed
		st.Failure = &v1alpha1.Failure{Reason: "SnapshotFailed", Message: "the snapshot of the node's disk failed", CloudError: "DiskBusy: try later"}
		return
	case n == len(phases):
		st.Phase, st.Retired = v1alpha1.PhaseSucceeded, []string{"2026.02.01"}
		st.Image = &v1alpha1.ImageStatus{ID: "pool1/versions/" + p.Spec.Version, ReplicationPercent: 100}
		return
	}
	st.Phase = phases[n]
	st.Steps = append(st.Steps, v1alpha1.Step{Phase: st.Phase, StartedAt: at})
	switch st.Phase {
	case v1alpha1.PhaseReserving:
		st.Donor = &v1alpha1.DonorStatus{ReservedAt: &at}
	case v1alpha1.PhaseDraining:
		st.Progress = "pods left: 2"
	case v1alpha1.PhasePublishing:
		st.Donor.ReleasedAt = &at
		st.Progress = "replicating 40%"
	default: // other phases report no progress
	}
}
