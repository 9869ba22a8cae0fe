package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// driver advances one capture while it holds the Lease, and waits for the Lease while another process holds it.
type driver struct {
	cluster   *cluster.Connection
	engine    Engine
	namespace string
	name      string
	// donor is the name of the captured node.
	donor string
	// work runs while this process holds the Lease, until the work is done or the context ends. Nil advances the one
	// capture.
	work func(ctx context.Context) (done bool)

	// wake ends the wait between two passes early after an event that the engine waits for.
	wake <-chan struct{}
	// notify receives changes for the user. notify must not block for long.
	notify func(ProcessName)
}

// ProcessName names the process that advances captures.
type ProcessName struct {
	// Mine reports that this process holds the Lease. Otherwise Holder holds the Lease; the zero Holder means no process.
	Mine   bool
	Holder Holder
	// Trouble is the error of the last pass; nil after a success.
	Trouble error
}

// run returns nil when the engine reports the end of the capture, and the context's error when the context ends. At the
// return no pass runs any more, and the Lease is released.
func (d *driver) run(ctx context.Context) error {
	lock, err := lock(d.cluster, d.namespace, RoleCommand)
	if err != nil {
		return err
	}
	for {
		done, err := d.term(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: LeaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			ReleaseOnCancel: true, Name: v1alpha1.LeaseName,
		})
		if done {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// term waits for the Lease, and advances the capture until its end, the loss of the Lease, or the end of the context. The
// elector's own context ends after the last pass, so that two processes never act at the same time.
func (d *driver) term(ctx context.Context, config leaderelection.LeaderElectionConfig) (bool, error) {
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var (
		started  = make(chan struct{})
		led      = make(chan struct{}) // closed after the end of leading
		elected  = make(chan struct{})
		identity = config.Lock.Identity()
		done     atomic.Bool // an elector that is stopped while it wins starts leading concurrently
	)
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			close(started)
			defer close(led)
			defer stop()
			if ctx.Err() == nil {
				done.Store(d.lead(ctx, leading))
			}
		},
		OnStoppedLeading: func() {},
		OnNewLeader: func(leader string) {
			if leader != identity {
				d.notify(ProcessName{Holder: parseHolder(leader)})
			}
		},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return false, err
	}
	go func() {
		defer close(elected)
		elector.Run(electing)
	}()

	select {
	case <-started:
		<-led
	case <-elected:
	case <-ctx.Done():
		// Not leading, or about to lead: the passes see the ended context and stop.
		stop()
	}
	<-elected
	select {
	case <-started:
		<-led
	default:
	}
	return done.Load(), ctx.Err()
}

// lead runs passes until the capture is done, or a context ends.
func (d *driver) lead(ctx, leading context.Context) (done bool) {
	passing, cancel := context.WithCancel(leading)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	d.notify(ProcessName{Mine: true})
	if d.work != nil {
		return d.work(passing)
	}
	return d.carryOn(passing)
}

// carryOn runs passes and watches the donor.
func (d *driver) carryOn(ctx context.Context) (done bool) {
	ctx, cancel := context.WithCancel(ctx)
	donor := newDonorWatch(d.cluster.Kube, d.donor)
	var watching sync.WaitGroup
	watching.Go(func() { donor.run(ctx) })
	defer watching.Wait()
	defer cancel()
	return d.passes(ctx, donor.news)
}

// passes advances the capture until its end or the end of the context. After an error, passes waits for the engine's delay
// and tries again: Kamino does not give up a capture that holds a donor.
func (d *driver) passes(ctx context.Context, donor <-chan struct{}) (done bool) {
	troubled, crossed := false, false
	for ctx.Err() == nil {
		result, err := d.engine.Pass(ctx, d.name)
		if ctx.Err() != nil {
			return false
		}
		// Another client wrote the object first, and the next pass reads that write. A single conflict is no trouble.
		again := apierrors.IsConflict(err) && !crossed
		crossed = apierrors.IsConflict(err)
		switch {
		case again:
		case err != nil:
			d.notify(ProcessName{Mine: true, Trouble: err})
			troubled = true
		case result.Done:
			return true
		case troubled:
			d.notify(ProcessName{Mine: true})
			troubled = false
		}
		d.rest(ctx, result.After, donor)
	}
	return false
}

// rest waits between two passes.
func (d *driver) rest(ctx context.Context, delay time.Duration, donor <-chan struct{}) {
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.wake:
	case <-donor:
	}
}
