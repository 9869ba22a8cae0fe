package capture

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// What the engine does to one kind of thing is a type of its own, which has what that needs and no more. They keep
// nothing: each is made where it is used.
type (
	// announcer tells of a pass what people should find later.
	announcer struct {
		Recorder events.EventRecorder
		Log      logr.Logger
	}
	// ledger reads and writes what a capture must not forget, and its status.
	ledger struct {
		Client client.Client
		Kube   kubernetes.Interface
		Log    logr.Logger
	}
	// hold is the capture's hold of its donor: the lock, the record of it, how the pool may treat the instance, and for
	// how long it lasts.
	hold struct {
		ledger
		Cloud cloud.Provider
		now   func() time.Time
	}
	// orders makes, reads and removes the order to generalize with its key, and takes over what is said on it.
	orders struct {
		ledger
		namespace string
		now       func() time.Time
	}
	// pods makes, reads and removes the pod on the donor.
	pods struct {
		ledger
		namespace string
		now       func() time.Time
	}
	// leftovers finds and removes what captures have left that are gone.
	leftovers struct {
		Client    client.Client
		Kube      kubernetes.Interface
		Cloud     cloud.Provider
		namespace string
	}
)

func announcerOf(e *Engine) announcer { return announcer{e.Recorder, e.Log} }

func ledgerOf(e *Engine) ledger { return ledger{e.Client, e.Kube, e.Log} }

func holdOf(e *Engine) hold { return hold{ledgerOf(e), e.Cloud, e.now} }

func ordersOf(e *Engine) orders { return orders{ledgerOf(e), e.podNamespace(), e.now} }

func podsOf(e *Engine) pods { return pods{ledgerOf(e), e.podNamespace(), e.now} }

func leftoversOf(e *Engine) leftovers {
	return leftovers{e.Client, e.Kube, e.Cloud, e.podNamespace()}
}
