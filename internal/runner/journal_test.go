package runner

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// recordedEvents are the events in the namespace for events of cluster-wide objects.
func recordedEvents(t *testing.T, kube kubernetes.Interface) []string {
	t.Helper()
	list, err := kube.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.ReportingController == eventSource {
			out = append(out, e.Regarding.Kind+" "+e.Type+" "+e.Reason+" by "+e.ReportingController)
		}
	}
	slices.Sort(out)
	return out
}

// journalOf returns a journal that writes to the test's sink, if there is one.
func journalOf(t *testing.T, kube kubernetes.Interface, sink events.EventSink) *Journal {
	t.Helper()
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	j, err := NewJournal(kube, scheme, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if sink != nil {
		j.sink = sink
	}
	return j
}

// sayTwice records one event twice, and another event.
func sayTwice(j *Journal) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "n1"}}
	for _, version := range []string{"1", "2"} {
		n.ResourceVersion = version
		j.Eventf(n.DeepCopy(), nil, corev1.EventTypeNormal, "Promoting", "Capture", "the recipe of pool %s", "pool1")
	}
	j.Eventf(n, nil, corev1.EventTypeNormal, "Promoted", "Capture", "the next nodes of pool %s", "pool1")
}

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

func TestAnEventIsRecordedOnce(t *testing.T) {
	kube := fake.NewClientset()
	j := journalOf(t, kube, nil)
	sayTwice(j)
	j.Close()
	want := []string{"Node Normal Promoted by kamino", "Node Normal Promoting by kamino"}
	if diff := cmp.Diff(want, recordedEvents(t, kube)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestALongNoteIsRecorded: a real API server accepts an event with the longest text of a cloud's error.
func TestALongNoteIsRecorded(t *testing.T) {
	kube, err := kubernetes.NewForConfig(apitest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	j := journalOf(t, kube, nil)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "n1"}}
	j.Eventf(n, nil, corev1.EventTypeWarning, "ImageFailed", "Capture", "%s", strings.Repeat("ü", 2*maxNote))
	j.Close()
	want := []string{"Node Warning ImageFailed by kamino"}
	if diff := cmp.Diff(want, recordedEvents(t, kube)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	list, err := kube.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if len(e.Note) < maxNote-8 || len(e.Note) > maxNote || !strings.HasSuffix(e.Note, " …") {
			t.Errorf("a note of %d bytes that ends with %q", len(e.Note), e.Note[max(0, len(e.Note)-8):])
		}
	}
}

// brokenSink accepts no event: brokenSink returns an error or, without an error, blocks.
type brokenSink struct{ err error }

func (s brokenSink) Create(ctx context.Context, _ *eventsv1.Event) (*eventsv1.Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s brokenSink) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return s.Create(ctx, e)
}

func (s brokenSink) Patch(ctx context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.Create(ctx, e)
}

func TestFailedEventsDelayNoCapture(t *testing.T) {
	for name, c := range map[string]struct {
		sink brokenSink
		want time.Duration
	}{
		"refused":   {brokenSink{errors.New("forbidden")}, 0},
		"no answer": {brokenSink{}, eventFlushTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A client without requests: a fake client would start goroutines outside the bubble.
				kube, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				j := journalOf(t, kube, c.sink)
				began := time.Now()
				sayTwice(j)
				j.Close()
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %s, want %s", took, c.want)
				}
			})
		})
	}
}
