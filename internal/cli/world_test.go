package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// testNow is the time in every transcript.
var testNow = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// The captures that a scripted engine makes.
const (
	goesWell    = ""
	isRefused   = "refused"   // by the preview
	isForbidden = "forbidden" // by the preview, for a missing permission
	isUnread    = "unread"    // by nobody: this command's credential may not read all that the preview asks for
	failsEarly  = "early"     // in its own preflight
	failsLate   = "late"      // with the donor given back
	hangs       = "hangs"     // while it drains
)

// scripted is an engine whose captures are a list of phases, ten seconds each, told in the Prototype's
// status as the real engine tells them. What a capture really does is tested elsewhere.
type scripted struct {
	// Engine is the real one, which gives back what nobody owns.
	*capture.Engine
	client client.Client
	script string
	now    func() time.Time
	// passes that were made, and pause after each.
	passes int
	pause  time.Duration
}

var phases = []v1alpha1.Phase{
	v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting,
}

// Evictions are as many for each node.
func (s *scripted) Evictions(context.Context, string, v1alpha1.DrainSettings) (int, error) {
	return 1, nil
}

// Refusals answers as the script says.
func (s *scripted) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	preview, err := s.Preview(ctx, p)
	return preview.Refusals, err
}

// Preview answers as the script says.
func (s *scripted) Preview(_ context.Context, p *v1alpha1.Prototype) (capture.Preview, error) {
	preview := capture.Preview{
		Evicts:  []string{"default/web-0", "default/web-1"},
		Change:  &cloud.RecipeChange{Pool: "pool1", From: "ubuntu:2204", To: "pool1/versions/" + p.Spec.Version, Removes: []cloud.Part{{Kind: "customData", Unreadable: true}}, Keeps: []cloud.Part{{Kind: "extension", Name: "billing"}}},
		Retires: []string{"2026.02.01"}, NoWayBack: true,
	}
	switch s.script {
	case isRefused:
		preview.Refusals = []cloud.Refusal{
			{Reason: "NotReady", Message: fmt.Sprintf("node %s is not Ready: wait until it is", p.Spec.Donor.NodeName)},
			{Reason: "EphemeralOSDisk", Message: "pool pool1 has ephemeral OS disks, which can't be captured"},
		}
	case isForbidden:
		preview.Refusals = []cloud.Refusal{{Reason: "PermissionMissing", Message: "the credential may not write snapshots in group g"}}
	case isUnread:
		return preview, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "ours", nil)
	}
	return preview, nil
}

// Pass ends the phase that runs and begins the next one.
func (s *scripted) Pass(ctx context.Context, name string) (capture.Result, error) {
	s.passes++
	p := &v1alpha1.Prototype{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, p); apierrors.IsNotFound(err) {
		return capture.Result{Done: true}, nil
	} else if err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() || !p.DeletionTimestamp.IsZero() {
		return s.settle(ctx, p)
	}
	if len(p.Finalizers) == 0 {
		p.Finalizers = []string{v1alpha1.CaptureFinalizer}
		return capture.Result{}, s.client.Update(ctx, p)
	}
	s.advance(p)
	if err := s.client.Status().Update(ctx, p); err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() {
		return s.settle(ctx, p)
	}
	return capture.Result{After: s.pause}, nil
}

// settle removes the finalizer, after which nothing is left to do.
func (s *scripted) settle(ctx context.Context, p *v1alpha1.Prototype) (capture.Result, error) {
	p.Finalizers = nil
	return capture.Result{Done: true}, s.client.Update(ctx, p)
}

func (s *scripted) advance(p *v1alpha1.Prototype) {
	st := &p.Status
	n := len(st.Steps)
	at := metav1.NewMicroTime(s.now().Add(time.Duration(n) * 10 * time.Second))
	if n > 0 && s.script == hangs && st.Phase == v1alpha1.PhaseDraining {
		st.Progress = "pods left: 1 (default/web-0 is held by budget default/web)"
		return
	}
	if n > 0 {
		st.Steps[n-1].FinishedAt = &at
	}
	st.Progress = ""
	switch {
	case n == 1 && s.script == failsEarly:
		st.Phase, st.Failure = v1alpha1.PhaseFailed, &v1alpha1.Failure{Reason: "Windows", Message: "node n runs Windows; only Linux nodes can be captured"}
		return
	case n == 5 && s.script == failsLate:
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
	}
}

// testCommand is the command as transcripts run it: real clients, a scripted engine, a cloud in memory, and
// a clock that stands still.
func testCommand() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	onSignal(func() { cancel(errInterrupted) })
	f := NewFactory()
	f.Now = func() time.Time { return testNow }
	f.Asks = func() bool { return os.Getenv("KAMINO_TEST_ASKS") != "" }
	f.Window = func() (int, int) { return 0, 0 }
	f.Cloud = func(context.Context, *Options) (cloud.Provider, error) {
		return testPast(os.Getenv("KAMINO_TEST_PAST")), nil
	}
	f.Engine = func(c *Cluster, provider cloud.Provider, o *Options) Engine {
		real := &capture.Engine{Client: c.Client, Kube: c.Kube, Cloud: provider, Namespace: o.Namespace, Now: f.Now}
		return &scripted{Engine: real, client: c.Client, script: os.Getenv("KAMINO_TEST_SCRIPT"), now: f.Now, pause: 10 * time.Millisecond}
	}
	return f.Run(ctx, os.Args[1:])
}

// testCloud holds two pools with a history.
func testCloud() *memory.Cloud {
	c := memory.New(memory.Config{Now: func() time.Time { return testNow }})
	first := c.AddPool(memory.PoolSpec{
		Name: "pool1", Capacity: 3, Location: "westeurope", Traits: map[string]string{"generation": "V2"},
		Image: "memory:///pools/pool1/versions/2026.03.01", Bootstrap: []string{"customData"},
	})
	c.AddPool(memory.PoolSpec{Name: "pool2", Capacity: 1, Location: "westeurope", Image: "ubuntu:2204"})
	for i, day := range []string{"2026.02.01", "2026.02.15", "2026.03.01"} {
		at := testNow.AddDate(0, 0, -40+i*14)
		tags := map[string]string{
			cloud.TagBuiltFrom: fmt.Sprintf("node-%d", i), cloud.TagBuiltAt: at.Format(cloud.BuiltAtLayout),
			cloud.TagProof: "static/1/sha256:" + strings.Repeat("a", 8),
		}
		if i == 0 {
			tags[cloud.TagQuarantined] = "its nodes lost their network"
		}
		c.AddVersion(first, memory.VersionSpec{Version: day, Tags: tags, CreatedAt: at})
	}
	return c
}
