package runner

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
)

const (
	// eventSource is the reporting controller of events, for controllers and commands.
	eventSource = "kamino"
	// eventWriteTime limits the write of one event.
	eventWriteTime = 10 * time.Second
	// eventFlushTime is the time that a command waits at its end for the writes of events.
	eventFlushTime = 3 * time.Second
	// maxNote limits an event's note, in bytes: the API server refuses a longer note. Source: its validation of
	// events.k8s.io/v1.
	maxNote = 1024
)

// noteLimiter shortens the notes of events. A cloud's error may be longer; the object's status holds the whole text.
type noteLimiter struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (c noteLimiter) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	if more := " …"; len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
	}
	c.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", text)
}

// Journal records the events of a command's captures, equal events once, and tries each event once. The broadcaster only builds
// events: its recording retries for minutes, and offers no wait for the writes.
type Journal struct {
	sink        events.EventSink
	log         logr.Logger
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
	writing     context.Context // ends when no more writes are allowed
	stop        context.CancelFunc
	pending     sync.WaitGroup
	recorded    map[recordedEvent]bool // used by write only
}

// recordedEvent is the identity of an event.
type recordedEvent struct {
	regarding    corev1.ObjectReference
	reason, note string
}

// NewJournal returns a Journal that the caller must close.
func NewJournal(kube kubernetes.Interface, scheme *runtime.Scheme, log logr.Logger) (*Journal, error) {
	j := &Journal{sink: &events.EventSinkImpl{Interface: kube.EventsV1()}, log: log, recorded: map[recordedEvent]bool{}}
	j.broadcaster = events.NewBroadcaster(j.sink)
	if _, err := j.broadcaster.StartEventWatcher(j.write); err != nil {
		return nil, err
	}
	j.recorder = noteLimiter{j.broadcaster.NewRecorder(scheme, eventSource)}
	j.writing, j.stop = context.WithCancel(context.Background())
	return j, nil
}

// Eventf implements events.EventRecorder. Eventf does not block.
func (j *Journal) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	j.pending.Add(1)
	j.recorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// write receives the events in sequence.
func (j *Journal) write(object runtime.Object) {
	defer j.pending.Done()
	event, isEvent := object.(*eventsv1.Event)
	if !isEvent {
		return
	}
	key := recordedEvent{event.Regarding, event.Reason, event.Note}
	key.regarding.ResourceVersion = ""
	if j.recorded[key] {
		return
	}
	ctx, cancel := context.WithTimeout(j.writing, eventWriteTime)
	defer cancel()
	if _, err := j.sink.Create(ctx, event); err != nil {
		j.log.V(1).Info("event not recorded", "reason", event.Reason, "error", err.Error())
		return
	}
	j.recorded[key] = true
}

// Close waits a short time for the writes of recorded events. Record no events after Close.
func (j *Journal) Close() {
	written := make(chan struct{})
	go func() {
		j.pending.Wait()
		close(written)
	}()
	limit := time.NewTimer(eventFlushTime)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C:
		j.log.V(1).Info("events are lost: the API server takes too long")
	}
	j.stop()
	j.broadcaster.Shutdown()
}
