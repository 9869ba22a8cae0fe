package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// followerEnv is a cluster in memory with one Prototype and a follower, inside a synctest bubble with its own time.
type followerEnv struct {
	cluster  *cluster.Connection
	follower *Follower
	engine   *steppedEngine
	said     *printedOnce
	// away makes the API server unreachable for Prototypes, silent fails each look at a Prototype, and mute suppresses the
	// events of watches.
	away, silent, mute atomic.Bool
}

// steppedEngine begins a phase with each pass, and ends the capture after the last phase.
type steppedEngine struct {
	Engine
	objects client.Client
	// passes counts the passes. pause is the delay after each pass.
	passes int
	pause  time.Duration
	// hangs makes the drain endless.
	hangs bool
}

func (e *steppedEngine) Pass(ctx context.Context, name string) (capture.Result, error) {
	e.passes++
	p := &v1alpha1.Prototype{}
	if err := e.objects.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return capture.Result{Done: apierrors.IsNotFound(err), After: time.Second}, client.IgnoreNotFound(err)
	}
	if p.Status.Terminal() || !p.DeletionTimestamp.IsZero() {
		p.Finalizers = nil
		return capture.Result{Done: true}, e.objects.Update(ctx, p)
	}
	phases := []v1alpha1.Phase{v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhasePublishing, v1alpha1.PhaseSucceeded}
	if next := slices.Index(phases, p.Status.Phase) + 1; !e.hangs || p.Status.Phase != v1alpha1.PhaseDraining {
		p.Status.Phase = phases[next]
	}
	return capture.Result{After: e.pause}, e.objects.Status().Update(ctx, p)
}

// printedOnce is a view that records each different output once.
type printedOnce struct {
	lines []string
	last  string
}

func (s *printedOnce) Show(p Progress, _ time.Time) {
	now := ""
	switch {
	case p.Away != nil:
		now = "trouble: " + p.Away.Error()
	case p.Driving != nil && p.Driving.Trouble != nil:
		now = "trouble: " + p.Driving.Trouble.Error()
	case p.Driving != nil && p.Driving.Mine:
		now = "mine"
	case p.Driving != nil:
		now = p.Driving.Holder.String()
	}
	if strings.HasPrefix(s.last, "trouble: ") && !strings.HasPrefix(now, "trouble: ") {
		s.lines = append(s.lines, "the trouble is over")
	}
	if now != s.last {
		s.lines, s.last = append(s.lines, now), now
	}
}

func (s *printedOnce) Close(p Progress, now time.Time) { s.Show(p, now) }

func (s *printedOnce) String() string { return strings.Join(s.lines, "\n") }

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

func newBench(t *testing.T, pause time.Duration) *followerEnv {
	t.Helper()
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.09", UID: "u1"},
		Spec:       v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.09", Donor: v1alpha1.Donor{NodeName: "node-1", ProviderID: "x://1"}},
	}
	b := &followerEnv{said: &printedOnce{}}
	refused := func() error {
		if b.away.Load() {
			return syscallError()
		}
		return nil
	}
	objects := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(p).WithStatusSubresource(p).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, to client.Object, o ...client.GetOption) error {
			if b.silent.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.Join(refused(), c.Get(ctx, key, to, o...))
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (apiwatch.Interface, error) {
			if err := refused(); err != nil {
				return nil, err
			}
			if b.mute.Load() {
				return apiwatch.NewFake(), nil
			}
			return c.Watch(ctx, list, o...)
		},
	}).Build()
	b.cluster = &cluster.Connection{Client: objects, Kube: fake.NewClientset(), Skew: func() (time.Duration, bool) { return 0, false }}
	b.engine = &steppedEngine{objects: objects, pause: pause}
	b.follower = &Follower{
		Cluster: b.cluster, Engine: b.engine, Namespace: "kamino-system", Prototype: p, Now: time.Now, View: b.said,
	}
	return b
}

// syscallError is a client's error without a listening server.
func syscallError() error {
	return &netError{errors.Join(errors.New("dial tcp 127.0.0.1:6443"), syscall.ECONNREFUSED)}
}

type netError struct{ error }

func (netError) Timeout() bool   { return false }
func (netError) Temporary() bool { return true }

// holdLease lets another process hold and renew the Lease until stopped.
func (b *followerEnv) holdLease(ctx context.Context, t *testing.T, who string) {
	t.Helper()
	seconds := int32(LeaseDuration / time.Second)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "kamino-system"}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &who, &seconds
	leases := b.cluster.Kube.CoordinationV1().Leases("kamino-system")
	lease, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for ctx.Err() == nil {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			if lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(retryPeriod):
			}
		}
	}()
}

func (b *followerEnv) holder(t *testing.T) string {
	t.Helper()
	lease, err := b.cluster.Kube.CoordinationV1().Leases("kamino-system").Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestCommandAdvancesCaptureWithoutController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		last, err := b.follower.Run(t.Context())
		if err != nil || !Succeeded(last) {
			t.Fatalf("run: %v, phase %s\n%s", err, last.Status.Phase, b.said)
		}
		if got := b.holder(t); got != "" {
			t.Errorf("the Lease is still held by %q", got)
		}
	})
}

func TestADyingControllerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		life, die := context.WithTimeout(t.Context(), 10*time.Minute)
		defer die()
		b.holdLease(life, t, "controller/c-1/1")
		began := time.Now()
		last, err := b.follower.Run(t.Context())
		if err != nil || !Succeeded(last) {
			t.Fatalf("run: %v, phase %s\n%s", err, last.Status.Phase, b.said)
		}
		if took := time.Since(began); took < 10*time.Minute {
			t.Errorf("the command drove while the controller held the Lease: done after %s", took)
		}
		for _, want := range []string{"the controller c-1", "mine"} {
			if !strings.Contains(b.said.String(), want) {
				t.Errorf("not said: %q in\n%s", want, b.said)
			}
		}
	})
}

func TestAnAPIServerMayBeAwayForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 20*time.Second)
		go func() {
			time.Sleep(30 * time.Second)
			b.away.Store(true)
			time.Sleep(time.Minute)
			b.away.Store(false)
		}()
		last, err := b.follower.Run(t.Context())
		if err != nil || !Succeeded(last) {
			t.Fatalf("run: %v, phase %s\n%s", err, last.Status.Phase, b.said)
		}
		for _, want := range []string{"trouble: ", "the trouble is over"} {
			if !strings.Contains(b.said.String(), want) {
				t.Errorf("not said: %q in\n%s", want, b.said)
			}
		}
	})
}

func TestAnAPIServerThatStaysAwayEndsTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Minute)
		b.away.Store(true)
		began := time.Now()
		last, err := b.follower.Run(t.Context())
		if !errors.Is(err, ErrAway) {
			t.Fatalf("run: %v, want %v", err, ErrAway)
		}
		if took := time.Since(began); took < awayTimeout || took > awayTimeout+time.Minute {
			t.Errorf("gave up after %s, want %s", took, awayTimeout)
		}
		if last == nil {
			t.Error("what was last seen is lost")
		}
	})
}

func TestInterruptReleasesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		b.engine.hangs = true
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Minute)
			cancel(errInterrupted)
		}()
		last, err := b.follower.Run(ctx)
		if !errors.Is(err, errInterrupted) || last.Status.Phase != v1alpha1.PhaseDraining {
			t.Fatalf("run: %v, phase %s", err, last.Status.Phase)
		}
		if got := b.holder(t); got != "" {
			t.Errorf("the Lease is still held by %q", got)
		}
		passes := b.engine.passes
		time.Sleep(time.Minute)
		if b.engine.passes != passes {
			t.Errorf("%d passes after the end", b.engine.passes-passes)
		}
	})
}

// interrupted runs the follower and interrupts it after half a minute, after the event.
func (b *followerEnv) interrupted(t *testing.T, before func()) (*v1alpha1.Prototype, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(30*time.Second, func() {
		before()
		cancel(errInterrupted)
	})
	return b.follower.Run(ctx)
}

func TestAnInterruptedCommandLooksOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		b.engine.hangs = true
		b.mute.Store(true)
		last, err := b.interrupted(t, func() {})
		if !errors.Is(err, errInterrupted) || last.Status.Phase != v1alpha1.PhaseDraining {
			t.Errorf("run: %v, phase %q, want %s", err, last.Status.Phase, v1alpha1.PhaseDraining)
		}
	})
}

func TestACaptureThatEndedWasNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		b.mute.Store(true)
		b.follower.UntilGone = true // so that only the last look can end it
		last, err := b.interrupted(t, func() {
			p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.09"}}
			if err := b.cluster.Client.Delete(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Errorf("run: %v, phase %q, want an end as asked", err, last.Status.Phase)
		}
	})
}

func TestAnInterruptedCommandWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		b.engine.hangs = true
		began := time.Now()
		last, err := b.interrupted(t, func() { b.silent.Store(true) })
		if !errors.Is(err, errInterrupted) || last.Status.Phase != v1alpha1.PhaseDraining {
			t.Errorf("run: %v, phase %q", err, last.Status.Phase)
		}
		if took := time.Since(began); took != 30*time.Second+lastLookTimeout {
			t.Errorf("it ended %s after the interrupt, want %s", took-30*time.Second, lastLookTimeout)
		}
	})
}

func TestTheWishToEndWakesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Hour) // the engine would sleep for an hour between passes
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Minute)
			p := &v1alpha1.Prototype{}
			if err := b.cluster.Client.Get(ctx, client.ObjectKey{Name: "pool1-2026.03.09"}, p); err != nil {
				t.Error(err)
			}
			p.Finalizers = []string{v1alpha1.CaptureFinalizer}
			if err := b.cluster.Client.Update(ctx, p); err != nil {
				t.Error(err)
			}
			if err := b.cluster.Client.Delete(ctx, p); err != nil {
				t.Error(err)
			}
		}()
		before := 0
		time.AfterFunc(30*time.Second, func() { before = b.engine.passes })
		_, _ = b.follower.Run(ctx)
		if b.engine.passes <= before {
			t.Errorf("%d passes before the deletion, %d after", before, b.engine.passes)
		}
	})
}

func TestFollowerNoticesReplacedPrototype(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Hour)
		b.follower.Prototype.UID = "an earlier one"
		if _, err := b.follower.Run(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("run: %v, want %v", err, ErrGone)
		}
	})
}

// A failed pass runs again at the engine's time, and the view shows the error meanwhile.
func TestTroubleOfAPassIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Second)
		broken := &brokenEngine{b.engine, 3}
		b.follower.Engine = broken
		last, err := b.follower.Run(t.Context())
		if err != nil || !Succeeded(last) {
			t.Fatalf("run: %v\n%s", err, b.said)
		}
		if !strings.Contains(b.said.String(), "trouble: the cloud hiccups") {
			t.Errorf("the trouble was not said:\n%s", b.said)
		}
	})
}

type brokenEngine struct {
	*steppedEngine
	failures int
}

func (e *brokenEngine) Pass(ctx context.Context, name string) (capture.Result, error) {
	if e.failures--; e.failures >= 0 {
		return capture.Result{After: 10 * time.Second}, errors.New("the cloud hiccups")
	}
	return e.steppedEngine.Pass(ctx, name)
}

func TestTheLiveViewRedrawsLessOftenInALongStep(t *testing.T) {
	now := testNow
	f := &Follower{Live: true, Now: func() time.Time { return now }, Prototype: &v1alpha1.Prototype{}}
	f.Prototype.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhasePublishing, StartedAt: metav1.NewMicroTime(now)}}
	if got := f.pause(); got != redrawSoon {
		t.Errorf("pause at the beginning of a step = %s, want %s", got, redrawSoon)
	}
	now = now.Add(longStep + time.Second)
	if got := f.pause(); got != redrawLater {
		t.Errorf("pause in a long step = %s, want %s", got, redrawLater)
	}
}
