package capture

import (
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
)

// recorder records events and logs for users.
type recorder struct {
	events events.EventRecorder // nil: no events
	log    logr.Logger
}

// event records an event on the Prototype and on the Node, if the Node exists.
func (a recorder) event(w *pass, kind, reason, format string, args ...any) {
	if a.events == nil {
		return
	}
	if w.isOrphan {
		a.events.Eventf(w.donor.node, nil, kind, reason, "Return", format, args...)
		return
	}
	if w.donor.node != nil {
		a.events.Eventf(w.donor.node, w.p, kind, reason, "Capture", format, args...)
		a.events.Eventf(w.p, w.donor.node, kind, reason, "Capture", format, args...)
		return
	}
	a.events.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
}

// ofVersion records an event only on the Prototype, because the event does not concern the donor.
func (a recorder) ofVersion(w *pass, kind, reason, format string, args ...any) {
	if a.events != nil {
		a.events.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
	}
}
