package drive

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
	// eventSource is who reports events, controller and command alike.
	eventSource = "kamino"
	// eventWriteTime bounds the write of one event.
	eventWriteTime = 10 * time.Second
	// eventFlushTime is how long a command that is done waits until its events are written.
	eventFlushTime = 3 * time.Second
	// maxNote is how many bytes an event's note may have: the API server refuses a longer one, and the event would
	// be lost. Source: its validation of events.k8s.io/v1.
	maxNote = 1024
)

// clipped records events whose notes fit. What a cloud says of a failure may be longer; the whole of it stands in
// the object's status.
type clipped struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (c clipped) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	if more := " …"; len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
	}
	c.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", text)
}

// Journal records the events of the captures that a command drives. Events are for onlookers: they are written
// beside the capture, each is tried once, and one that can't be written is lost. One that was recorded is not
// recorded again, however often its pass is made.
//
// Its broadcaster only makes and queues events. The broadcaster's own recording leaves no way to wait until
// they are written, and tries again for minutes, which is more than a command should wait.
type Journal struct {
	sink        events.EventSink
	log         logr.Logger
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
	writing     context.Context // ends when nothing is written any more
	stop        context.CancelFunc
	pending     sync.WaitGroup
	recorded    map[recordedEvent]bool // only write touches it
}

// recordedEvent is what tells two events apart.
type recordedEvent struct {
	regarding    corev1.ObjectReference
	reason, note string
}

// NewJournal makes one, which must be closed.
func NewJournal(kube kubernetes.Interface, scheme *runtime.Scheme, log logr.Logger) (*Journal, error) {
	j := &Journal{sink: &events.EventSinkImpl{Interface: kube.EventsV1()}, log: log, recorded: map[recordedEvent]bool{}}
	j.broadcaster = events.NewBroadcaster(j.sink)
	if _, err := j.broadcaster.StartEventWatcher(j.write); err != nil {
		return nil, err
	}
	j.recorder = clipped{j.broadcaster.NewRecorder(scheme, eventSource)}
	j.writing, j.stop = context.WithCancel(context.Background())
	return j, nil
}

// Eventf implements events.EventRecorder. It does not block.
func (j *Journal) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	j.pending.Add(1)
	j.recorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// write is called with one event after the other.
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

// Close waits until what was recorded is written, but not for long. Nobody may record any more.
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
