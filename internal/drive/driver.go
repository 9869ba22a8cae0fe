package drive

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

// driver carries one capture on for as long as it holds the Lease, and tries to get the Lease while
// somebody else holds it.
type driver struct {
	cluster   *cluster.Connection
	engine    Engine
	namespace string
	name      string
	// donor is the name of the node that is captured.
	donor string
	// work is what is done while the Lease is held, until it is done or the context ends. Nil carries the one
	// capture on.
	work func(ctx context.Context) (done bool)

	// wake ends the wait between two passes early: something happened that the engine waits for.
	wake <-chan struct{}
	// tell is called with what the person who waits should know. It must not block for long.
	tell func(Driving)
}

// Driving is who drives.
type Driving struct {
	// Mine tells that this process holds the Lease; else Holder does, nobody if it is zero.
	Mine   bool
	Holder Holder
	// Trouble is the error of the last pass; nil if it went well.
	Trouble error
}

// run returns nil when the engine says that the capture is done, and the context's error when it ends.
// Either way no pass runs any more and the Lease is given back.
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

// term waits for the Lease and drives until the capture is done, the Lease is lost, or the context ends.
//
// The elector gives the Lease back when its own context ends. That context is ended only once no pass runs,
// so that two processes never act at once.
func (d *driver) term(ctx context.Context, config leaderelection.LeaderElectionConfig) (bool, error) {
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var (
		started  = make(chan struct{})
		led      = make(chan struct{}) // closed once leading has begun and ended
		elected  = make(chan struct{})
		identity = config.Lock.Identity()
		done     atomic.Bool // an elector that is stopped while it wins starts leading behind our back
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
				d.tell(Driving{Holder: parseHolder(leader)})
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
		// Not leading, or just about to: then the passes see the ended context and stop by themselves.
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

// lead makes passes until the capture is done, or either context ends.
func (d *driver) lead(ctx, leading context.Context) (done bool) {
	passing, cancel := context.WithCancel(leading)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	d.tell(Driving{Mine: true})
	if d.work != nil {
		return d.work(passing)
	}
	return d.carryOn(passing)
}

// carryOn makes passes, and hears of the donor meanwhile.
func (d *driver) carryOn(ctx context.Context) (done bool) {
	ctx, cancel := context.WithCancel(ctx)
	donor := newDonorWatch(d.cluster.Kube, d.donor)
	var watching sync.WaitGroup
	watching.Go(func() { donor.run(ctx) })
	defer watching.Wait()
	defer cancel()
	return d.passes(ctx, donor.news)
}

// passes carries the capture on until it is done or the context ends. A pass that ended in an error is
// made again after the time that the engine gives: a capture that holds a donor is not given up on.
func (d *driver) passes(ctx context.Context, donor <-chan struct{}) (done bool) {
	troubled, crossed := false, false
	for ctx.Err() == nil {
		result, err := d.engine.Pass(ctx, d.name)
		if ctx.Err() != nil {
			return false
		}
		// Somebody wrote the same object first, which the next pass takes in; one in a row is no trouble.
		again := apierrors.IsConflict(err) && !crossed
		crossed = apierrors.IsConflict(err)
		switch {
		case again:
		case err != nil:
			d.tell(Driving{Mine: true, Trouble: err})
			troubled = true
		case result.Done:
			return true
		case troubled:
			d.tell(Driving{Mine: true})
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
