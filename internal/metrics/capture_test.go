package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

// wholeLife holds the metrics after a successful capture.
var wholeLife = map[string]float64{
	`kamino_captures_total{pool="pool1",reason="",result="succeeded"}`: 1,
	`kamino_donor_out_of_service_seconds_count{pool="pool1"}`:          1,
	`kamino_donor_out_of_service_seconds_sum{pool="pool1"}`:            240,

	`kamino_capture_step_duration_seconds_count{phase="Reserving"}`:    1,
	`kamino_capture_step_duration_seconds_sum{phase="Reserving"}`:      60,
	`kamino_capture_step_duration_seconds_count{phase="Draining"}`:     1,
	`kamino_capture_step_duration_seconds_sum{phase="Draining"}`:       60,
	`kamino_capture_step_duration_seconds_count{phase="Snapshotting"}`: 1,
	`kamino_capture_step_duration_seconds_sum{phase="Snapshotting"}`:   60,
	`kamino_capture_step_duration_seconds_count{phase="Releasing"}`:    1,
	`kamino_capture_step_duration_seconds_sum{phase="Releasing"}`:      60,
	`kamino_capture_step_duration_seconds_count{phase="Publishing"}`:   1,
	`kamino_capture_step_duration_seconds_sum{phase="Publishing"}`:     60,
	`kamino_capture_step_duration_seconds_count{phase="Promoting"}`:    1,
	`kamino_capture_step_duration_seconds_sum{phase="Promoting"}`:      60,
}

func expect(t *testing.T, m *Metrics, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, reported(t, m, "kamino_")); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestCaptureIsCountedInProgress(t *testing.T) {
	m := New(nil, registry.All()...)
	statuses := life()
	for i := 1; i < len(statuses); i++ {
		m.observe(prototype("p", statuses[i-1]), prototype("p", statuses[i]), "pool1")
		m.observe(prototype("p", statuses[i]), prototype("p", statuses[i]), "pool1") // a pass that changes nothing
		phase := statuses[i].Phase
		flying := reported(t, m, "kamino_captures_in_flight")
		want := map[string]float64{}
		if phase != v1alpha1.PhaseSucceeded {
			want[fmt.Sprintf("kamino_captures_in_flight{method=\"InPlace\",phase=%q,pool=\"pool1\"}", phase)] = 1
		}
		if diff := cmp.Diff(want, flying); diff != "" {
			t.Errorf("in flight at %s (-want +got):\n%s", phase, diff)
		}
	}
	expect(t, m, wholeLife)
}

// A new process treats existing objects as counted: the earlier process has counted them.
func TestRestartRepeatsNoCount(t *testing.T) {
	statuses := life()
	for i, found := range statuses {
		m := New(nil, registry.All()...)
		m.observe(prototype("p", found), prototype("p", found), "pool1")
		got := reported(t, m, "kamino_capture")
		delete(got, fmt.Sprintf("kamino_captures_in_flight{method=\"InPlace\",phase=%q,pool=\"pool1\"}", found.Phase))
		if i == 0 {
			delete(got, `kamino_captures_in_flight{method="InPlace",phase="Pending",pool="pool1"}`)
		}
		if len(got) > 0 || len(reported(t, m, "kamino_donor")) > 0 {
			t.Errorf("found in %s, counted %v", found.Phase, got)
		}
	}

	first, second := New(nil, registry.All()...), New(nil, registry.All()...)
	for i := 1; i < len(statuses); i++ {
		process := first
		if i > 3 {
			process = second
		}
		process.observe(prototype("p", statuses[i-1]), prototype("p", statuses[i]), "pool1")
	}
	sum := reported(t, first, "kamino_")
	delete(sum, `kamino_captures_in_flight{method="InPlace",phase="Snapshotting",pool="pool1"}`) // the first one's last word
	for key, value := range reported(t, second, "kamino_") {
		sum[key] += value
	}
	if diff := cmp.Diff(wholeLife, sum); diff != "" {
		t.Errorf("two processes together (-want +got):\n%s", diff)
	}
}

// A status write without an answer is reported as failed. The next pass finds the write done.
func TestAWriteWithoutAnAnswerCounts(t *testing.T) {
	m := New(nil, registry.All()...)
	statuses := life()
	for i := 1; i < len(statuses)-1; i++ {
		m.observe(prototype("p", statuses[i-1]), prototype("p", statuses[i]), "pool1")
	}
	end := prototype("p", statuses[len(statuses)-1])
	m.observe(end, end, "pool1")
	m.observe(end, end, "pool1")
	expect(t, m, wholeLife)
}

// The same name may come again for another capture.
func TestReusedNameIsAnotherCapture(t *testing.T) {
	m := New(nil, registry.All()...)
	old := prototype("p", life()[3])
	m.observe(old, old, "pool1")
	next := prototype("p", v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded})
	next.UID = "another"
	m.observe(next, next, "pool1")
	expect(t, m, map[string]float64{})
}

func TestPassesAreCounted(t *testing.T) {
	m := New(nil, registry.All()...)
	flying := prototype("p", life()[2])
	m.observe(flying, flying, "pool1")
	var result capture.Result
	var err error
	pass := m.Pass(func(context.Context, string) (capture.Result, error) { return result, err })
	run := func(ctx context.Context) {
		got, gotErr := pass(ctx, "p")
		if got != result || !errors.Is(gotErr, err) {
			t.Errorf("the pass gave %+v, %v, want %+v, %v", got, gotErr, result, err)
		}
	}

	run(t.Context())
	err = fmt.Errorf("stop: %w", &cloud.Error{Kind: cloud.Throttled})
	run(t.Context())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	run(over) // the process ends
	err, result = nil, capture.Result{Done: true}
	run(t.Context())
	expect(t, m, map[string]float64{
		"kamino_passes_total": 4,
		`kamino_pass_errors_total{kind="Throttled",source="cloud"}`: 1,
	}) // and nothing is in flight
}

func TestBlame(t *testing.T) {
	prototypes := schema.GroupResource{Group: "kamino.dev", Resource: "prototypes"}
	for _, test := range []struct {
		err    error
		source string
		kind   cloud.Kind
	}{
		{&cloud.Error{Kind: cloud.Denied}, "cloud", cloud.Denied},
		{errors.Join(fmt.Errorf("x: %w", &cloud.Error{Kind: cloud.QuotaExceeded}), apierrors.NewBadRequest("b")), "cloud", cloud.QuotaExceeded},
		{apierrors.NewNotFound(prototypes, "p"), "kubernetes", cloud.NotFound},
		{apierrors.NewConflict(prototypes, "p", nil), "kubernetes", cloud.Conflict},
		{apierrors.NewAlreadyExists(prototypes, "p"), "kubernetes", cloud.Conflict},
		{apierrors.NewUnauthorized("no"), "kubernetes", cloud.Unauthenticated},
		{fmt.Errorf("read: %w", apierrors.NewForbidden(prototypes, "p", nil)), "kubernetes", cloud.Denied},
		{apierrors.NewBadRequest("no"), "kubernetes", cloud.Invalid},
		{apierrors.NewTooManyRequests("slow", 1), "kubernetes", cloud.Throttled},
		{apierrors.NewInternalError(errors.New("x")), "kubernetes", cloud.Unavailable},
		{errors.New("connection refused"), "other", cloud.Unavailable},
	} {
		if source, kind := blame(test.err); source != test.source || kind != test.kind {
			t.Errorf("blame(%v) = %s, %s, want %s, %s", test.err, source, kind, test.source, test.kind)
		}
	}
}

func TestRequestsAreCountedByCloudAndClass(t *testing.T) {
	m := New(nil, registry.All()...)
	for _, r := range []struct {
		class     string
		status    int
		throttled bool
	}{
		{"read", 200, false}, {"read", 404, false}, {"read", 429, true}, {"read", 200, false}, {"write", 201, false},
		{"write", 409, false}, {"write", 202, false}, {"delete", 503, false}, {"delete", 0, false}, {"read", 302, false}, {"read", 999, false},
	} {
		m.Request("azure", r.class, r.status, r.throttled)
	}
	m.Request("aws", "read", 200, false)
	expect(t, m, map[string]float64{
		`kamino_cloud_requests_total{cloud="azure",operation="read",status="2xx"}`:    2,
		`kamino_cloud_requests_total{cloud="azure",operation="read",status="3xx"}`:    1,
		`kamino_cloud_requests_total{cloud="azure",operation="read",status="4xx"}`:    2,
		`kamino_cloud_requests_total{cloud="azure",operation="read",status="none"}`:   1,
		`kamino_cloud_requests_total{cloud="azure",operation="write",status="2xx"}`:   2,
		`kamino_cloud_requests_total{cloud="azure",operation="write",status="4xx"}`:   1,
		`kamino_cloud_requests_total{cloud="azure",operation="delete",status="5xx"}`:  1,
		`kamino_cloud_requests_total{cloud="azure",operation="delete",status="none"}`: 1,
		`kamino_cloud_requests_total{cloud="aws",operation="read",status="2xx"}`:      1,
		`kamino_cloud_requests_throttled_total{cloud="azure",operation="read"}`:       1,
	})
}

// TestReasonsOfCloud: without the cloud's description, its reasons count as OtherReason.
func TestReasonsOfCloud(t *testing.T) {
	after := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{Reason: "ManagedElsewhere"}}
	for want, refusals := range map[string]Refusals{"ManagedElsewhere": RefusalsOf(registry.All()...), OtherReason: RefusalsOf()} {
		if got := refusals.Between(&v1alpha1.PrototypeStatus{}, &after).Ended; got == nil || *got != (CaptureEnd{Refused, want}) {
			t.Errorf("it ended as %+v, want it refused for %s", got, want)
		}
	}
}

func TestAProcessHasOneSetOfMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := Register(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Register(registry, nil)
	if err != nil || first != second {
		t.Errorf("the second registration gave %p, %v, want %p", second, err, first)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "kamino_passes_total", Help: "another owner's"}))
	if m, err := Register(taken, nil); err == nil {
		t.Errorf("a name that is taken was given to %v", m)
	}
}
