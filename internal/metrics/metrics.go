package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/notify/delivery"
)

// Buckets, in seconds. A step takes from a second to the hours of a slow replication. A donor is reserved for minutes; a
// call to the cloud ends after a minute.
var (
	stepBuckets    = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800}
	serviceBuckets = []float64{60, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200}
	callBuckets    = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
)

// Metrics holds all metrics of Kamino. Metrics is one prometheus.Collector and safe for concurrent use.
type Metrics struct {
	now func() time.Time
	// clouds are the clouds with counted requests, and refusals the known reasons of refused captures.
	clouds   []cloud.Description
	refusals Refusals

	captures     *prometheus.CounterVec
	steps        *prometheus.HistogramVec
	outOfService *prometheus.HistogramVec
	trials       *prometheus.CounterVec
	trialTimes   prometheus.Histogram
	flights      flights

	passes     prometheus.Counter
	passErrors *prometheus.CounterVec

	calls     *prometheus.CounterVec
	callTimes *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	throttled *prometheus.CounterVec

	joins    *prometheus.HistogramVec
	rebuilds *prometheus.CounterVec
	stalls   stalls

	pools   pools
	tallies tallies
	refused refusedCaptures
	patches patches

	returns  *prometheus.CounterVec
	newNodes newNodes

	notices *prometheus.CounterVec
	// parts are the collectors above.
	parts []prometheus.Collector
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns the metrics of the clouds, all at zero. now is the clock for the age of images; nil means time.Now. Refusals
// of other clouds count as OtherReason.
func New(now func() time.Time, clouds ...cloud.Description) *Metrics {
	if now == nil {
		now = time.Now
	}
	m := &Metrics{
		now:      now,
		clouds:   clouds,
		refusals: RefusalsOf(clouds...),
		captures: counters("captures_total", "Ended captures, by pool, result and failure reason.", "pool", "result", "reason"),
		steps:    histograms("capture_step_duration_seconds", "Duration of capture steps, by phase.", stepBuckets, "phase"),
		outOfService: histograms("donor_out_of_service_seconds", "Time that donors were out of service, from the reservation to the release, by pool.",
			serviceBuckets, "pool"),
		trials: counters("trials_total", "Trial attempts, by pool and result.", "pool", "result"),
		trialTimes: prometheus.NewHistogram(histogramOptions("trial_duration_seconds",
			"Duration of trials until the verdict, including inconclusive attempts.", serviceBuckets)),
		passes: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "passes_total",
			Help: "Passes of the capture engine, including failed passes."}),
		passErrors: counters("pass_errors_total", "Failed passes of the capture engine, by source and kind of the error.", "source", "kind"),
		calls:      counters("cloud_calls_total", "Calls to the cloud provider, by operation and result.", "op", "result"),
		callTimes:  histograms("cloud_call_duration_seconds", "Duration of calls to the cloud provider, including retries, by operation.", callBuckets, "op"),
		requests: counters("cloud_requests_total", "Requests to the cloud, including retries, by cloud, operation and status class.",
			"cloud", "operation", "status"),
		joins: histograms("node_join_seconds", "Time from the creation of an instance to a Ready node, by source of the image.",
			joinBuckets, "built_from"),
		returns:   counters("rollbacks_total", "Automatic rollbacks, by pool.", "pool"),
		rebuilds:  counters("node_rebuilds_total", "Node rebuilds by policies, by result.", "result"),
		notices:   counters("notices_total", "Notices to endpoints, by result.", "result"),
		throttled: counters("cloud_requests_throttled_total", "Requests throttled by the cloud, by cloud and operation.", "cloud", "operation"),
	}
	m.parts = []prometheus.Collector{
		m.captures, m.steps, m.outOfService, m.trials, m.trialTimes, m.passes, m.passErrors, m.calls, m.callTimes, m.requests, m.throttled, m.joins,
		m.rebuilds, m.returns, m.notices,
	}
	m.begin()
	return m
}

// begin sets series with known labels to zero, so that the first event is an increase.
func (m *Metrics) begin() {
	for phase := range inFlightPhases {
		m.steps.WithLabelValues(string(phase))
	}
	for _, built := range []string{fromGeneric, fromPrototype} {
		m.joins.WithLabelValues(built)
	}
	for _, result := range noticeResults {
		m.notices.WithLabelValues(result)
	}
	for _, result := range []string{rebuilt, notRebuilt} {
		m.rebuilds.WithLabelValues(result)
	}
	for _, c := range m.clouds {
		for _, class := range c.Classes {
			m.throttled.WithLabelValues(c.Name, class)
		}
	}
}

// beginPool sets the series of a pool to zero, without the many reasons of refusals: alerts read failures and trials.
func (m *Metrics) beginPool(pool string) {
	m.captures.WithLabelValues(pool, Succeeded, "")
	m.captures.WithLabelValues(pool, Cancelled, "")
	m.captures.WithLabelValues(pool, Failed, OtherReason)
	for reason := range failureReasons {
		m.captures.WithLabelValues(pool, Failed, reason)
	}
	for _, result := range trialResults {
		m.trials.WithLabelValues(pool, result)
	}
	m.outOfService.WithLabelValues(pool)
}

// Register adds the metrics to a registry. A process has one Metrics: a second call with the same registry returns the
// first Metrics.
func Register(registry prometheus.Registerer, now func() time.Time, clouds ...cloud.Description) (*Metrics, error) {
	m := New(now, clouds...)
	err := registry.Register(m)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if first, ours := already.ExistingCollector.(*Metrics); ours {
			return first, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, part := range m.parts {
		part.Describe(descriptions)
	}
	for _, d := range []*prometheus.Desc{
		inFlightDesc, poolAgeDesc, poolInfoDesc, poolNodesDesc, poolImagesDesc, poolMaxImagesDesc, poolCandidatesDesc, poolRefusedDesc,
		captureRefusedDesc, policyStalledDesc, poolJoinsDesc, poolRolledBackDesc, poolStaysDesc, pendingPatchesDesc, patchesUncheckedDesc,
		patchesBadDesc,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(samples chan<- prometheus.Metric) {
	for _, part := range m.parts {
		part.Collect(samples)
	}
	m.flights.collect(samples)
	m.pools.collect(samples, m.now())
	m.tallies.collect(samples)
	m.tallies.collectImages(samples)
	m.refused.collect(samples)
	m.patches.collect(samples)
	m.stalls.collect(samples)
	m.newNodes.collect(samples)
}

// Request counts one try of a request to the named cloud, by its class: cloud.Config.OnRequest.
func (m *Metrics) Request(name, class string, status int, throttled bool) {
	m.requests.WithLabelValues(name, class, statusClass(status)).Inc()
	if throttled {
		m.throttled.WithLabelValues(name, class).Inc()
	}
}

// noticeResults are the values of label result of notices.
var noticeResults = []string{delivery.Sent, delivery.Lost, delivery.Dropped}

// Notice counts the result of a notice at an endpoint.
func (m *Metrics) Notice(result string) { m.notices.WithLabelValues(result).Inc() }

// statusClass is 2xx, 3xx, 4xx or 5xx; none without an HTTP answer.
func statusClass(status int) string {
	if class := status / 100; class >= 2 && class <= 5 {
		return fmt.Sprintf("%dxx", class)
	}
	return "none"
}

const namespace = "kamino"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogramOptions(name, help, buckets), labels)
}

func histogramOptions(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}
