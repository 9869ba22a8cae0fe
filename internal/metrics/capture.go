package metrics

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
)

var inFlightDesc = gauge("captures_in_flight", "Running captures, by pool, method and phase.", "pool", "method", "phase")

// flights are the running captures that this process has seen, with the last counted status.
type flights struct {
	mu   sync.Mutex
	last map[string]flight // by name of the Prototype
}

type flight struct {
	uid    types.UID
	pool   string // the name
	method v1alpha1.CaptureMethod
	status v1alpha1.PrototypeStatus
}

// seen compares a pass with the last counted status, and returns the difference. The last status comes from this process,
// not from the pass, so a write without a confirmation counts exactly once.
func (f *flights) seen(before, after *v1alpha1.Prototype, pool string, refusals Refusals) Observation {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := &before.Status
	if known, found := f.last[after.Name]; found && known.uid == after.UID {
		old = &known.status
	}
	if f.last == nil {
		f.last = map[string]flight{}
	}
	if after.Status.Terminal() {
		delete(f.last, after.Name)
	} else {
		f.last[after.Name] = flight{after.UID, pool, methodOf(after), *after.Status.DeepCopy()}
	}
	changes := refusals.Between(old, &after.Status)
	if changes.OutOfService != nil && after.Spec.Settings.CopiesDonor() {
		*changes.OutOfService = 0 // the donor was reserved, and served
	}
	return changes
}

// gone forgets a Prototype without further passes, after its end or its deletion.
func (f *flights) gone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, name)
}

// methodOf is the method of a capture: in place unless the settings name another.
func methodOf(p *v1alpha1.Prototype) v1alpha1.CaptureMethod {
	return cmp.Or(p.Spec.Settings.Donor.Method, v1alpha1.MethodInPlace)
}

type flightKey struct {
	pool   string
	method v1alpha1.CaptureMethod
	phase  v1alpha1.Phase
}

func (f *flights) collect(samples chan<- prometheus.Metric) {
	count := map[flightKey]int{}
	f.mu.Lock()
	for _, flight := range f.last {
		phase := flight.status.Phase
		if flight.status.HeldBack() {
			phase = v1alpha1.PhasePromoting // no person is asked
		}
		if !inFlightPhases[phase] {
			phase = v1alpha1.PhasePending // no phase was reported yet
		}
		count[flightKey{flight.pool, flight.method, phase}]++
	}
	f.mu.Unlock()
	for key, n := range count {
		samples <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(n), key.pool, string(key.method), string(key.phase))
	}
}

// observe counts the changes of a Prototype in a pass. pool is the pool's name; empty if the pool is unknown.
func (m *Metrics) observe(before, after *v1alpha1.Prototype, pool string) Observation {
	m.beginPool(pool)
	changes := m.flights.seen(before, after, pool, m.refusals)
	for _, step := range changes.Steps {
		m.steps.WithLabelValues(string(step.Phase)).Observe(step.Took.Seconds())
	}
	if tried := changes.TrialEnded; tried != nil {
		m.trials.WithLabelValues(pool, tried.Result).Inc()
		if tried.Took != nil {
			m.trialTimes.Observe(tried.Took.Seconds())
		}
	}
	if changes.OutOfService != nil {
		m.outOfService.WithLabelValues(pool).Observe(changes.OutOfService.Seconds())
	}
	if changes.Ended != nil {
		m.captures.WithLabelValues(pool, changes.Ended.Result, changes.Ended.Reason).Inc()
	}
	return changes
}

// PassFunc is capture.Engine.Pass.
type PassFunc func(ctx context.Context, name string) (capture.Result, error)

// Pass counts the passes of an engine. A pass that the end of the process interrupts counts as a pass and not as an error.
func (m *Metrics) Pass(next PassFunc) PassFunc {
	return func(ctx context.Context, name string) (capture.Result, error) {
		result, err := next(ctx, name)
		m.passes.Inc()
		if err != nil && ctx.Err() == nil {
			source, kind := blame(err)
			m.passErrors.WithLabelValues(source, string(kind)).Inc()
		}
		if result.Done {
			m.flights.gone(name)
		}
		return result, err
	}
}

// Values of label source.
const (
	fromCloud      = "cloud"
	fromKubernetes = "kubernetes"
	fromElsewhere  = "other"
)

// blame returns the source and the kind of an error, in the terms of cloud errors for all sources: the same terms lead an
// operator to the same remedy.
func blame(err error) (source string, kind cloud.Kind) {
	var ofCloud *cloud.Error
	if errors.As(err, &ofCloud) {
		return fromCloud, ofCloud.Kind
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fromElsewhere, cloud.Unavailable
	}
	switch {
	case apierrors.IsNotFound(err):
		return fromKubernetes, cloud.NotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fromKubernetes, cloud.Conflict
	case apierrors.IsUnauthorized(err):
		return fromKubernetes, cloud.Unauthenticated
	case apierrors.IsForbidden(err):
		return fromKubernetes, cloud.Denied
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fromKubernetes, cloud.Invalid
	case apierrors.IsTooManyRequests(err):
		return fromKubernetes, cloud.Throttled
	}
	return fromKubernetes, cloud.Unavailable
}
