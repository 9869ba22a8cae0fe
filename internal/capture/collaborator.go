package capture

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// Each type below acts on one kind of object and has only the dependencies for that. The types are stateless; callers
// create them for each use.
type (
	// eventRecorder records events and logs for users.
	eventRecorder struct {
		Recorder events.EventRecorder
		Log      logr.Logger
	}
	// prototypes reads Prototypes, and keeps the last one for the next pass.
	prototypes struct {
		Client  client.Client
		Watched func(ctx context.Context, name string) string
		last    *sync.Map
	}
	// statusWriter reads and writes the record and the status of a capture.
	statusWriter struct {
		Client       client.Client
		Kube         kubernetes.Interface
		Log          logr.Logger
		reservations node.Reservations
	}
	// donorReservation manages the reservation of the donor: the Lease, the record, the scale-in protection and the
	// deadlines.
	donorReservation struct {
		statusWriter
		Cloud cloud.Provider
		now   func() time.Time
	}
	// replacements removes leaving donors: the pool grows by a replacement, and the instance is removed with its Node.
	replacements struct {
		donorReservation
		eventRecorder
	}
	// drain evicts the pods of the donor.
	drain struct {
		Kube      kubernetes.Interface
		namespace string
		now       func() time.Time
	}
	// orders creates, reads and removes the Order with its key, and copies the pod's report.
	orders struct {
		statusWriter
		rules     ruleReader
		namespace string
		now       func() time.Time
	}
	// ruleReader reads the user's own rules.
	ruleReader struct {
		Kube      kubernetes.Interface
		namespace string
	}
	// pods creates, reads and removes the pod on the donor.
	pods struct {
		statusWriter
		namespace, image string
		now              func() time.Time
	}
	// artifacts reads the snapshot and the image version.
	artifacts struct{ Cloud cloud.Provider }
	// promotion lets the recipe name the version: save the removed parts, write the recipe, retire versions, grow the
	// pool.
	promotion struct {
		statusWriter
		Cloud     cloud.Provider
		namespace string
	}
	// trials builds nodes from a version, and judges the version.
	trials struct {
		statusWriter
		eventRecorder
		Cloud     cloud.Provider
		tryout    TrialObserver
		promotion promotion
		// given is Engine.GivenCustomData.
		given []byte
		now   func() time.Time
	}
	// failures turns final refusals of a cloud into the failure of the capture.
	failures struct {
		eventRecorder
		now func() time.Time
	}
	// preflight gathers all facts for the admission of a capture.
	preflight struct {
		Client        client.Client
		Kube          kubernetes.Interface
		Cloud         cloud.Provider
		rules         ruleReader
		promotion     promotion
		trials        trials
		preflights    *preflights
		namespace     string
		image         string
		AllowedImages []string
		CheckRules    func(v1alpha1.Profile, map[string][]byte) error
		OwnNode       string
		Kured         string
		Drives        bool
		concurrent    int
		reservations  node.Reservations
		now           func() time.Time
	}
	// leftovers finds and removes the objects of captures that are gone.
	leftovers struct {
		Client    client.Client
		Kube      kubernetes.Interface
		Cloud     cloud.Provider
		trials    trials
		namespace string
		// reservations are the Leases of held nodes.
		reservations node.Reservations
		now          func() time.Time
	}
)

func eventRecorderOf(e *Engine) eventRecorder { return eventRecorder{e.Recorder, e.Log} }

func prototypesOf(e *Engine) prototypes { return prototypes{e.Client, e.Watched, &e.lastPrototypes} }

func statusWriterOf(e *Engine) statusWriter {
	return statusWriter{e.Client, e.Kube, e.Log, e.reservations()}
}

func donorReservationOf(e *Engine) donorReservation {
	return donorReservation{statusWriterOf(e), e.Cloud, e.now}
}

func replacementsOf(e *Engine) replacements {
	return replacements{donorReservationOf(e), eventRecorderOf(e)}
}

func drainOf(e *Engine) drain { return drain{e.Kube, e.podNamespace(), e.now} }

func ordersOf(e *Engine) orders {
	return orders{statusWriterOf(e), ruleReaderOf(e), e.podNamespace(), e.now}
}

func ruleReaderOf(e *Engine) ruleReader { return ruleReader{e.Kube, e.podNamespace()} }

func podsOf(e *Engine) pods { return pods{statusWriterOf(e), e.podNamespace(), e.Image, e.now} }

func artifactsOf(e *Engine) artifacts { return artifacts{e.Cloud} }

func promotionOf(e *Engine) promotion { return promotion{statusWriterOf(e), e.Cloud, e.namespace()} }

func trialsOf(e *Engine) trials {
	return trials{statusWriterOf(e), eventRecorderOf(e), e.Cloud, e.TrialObserver, promotionOf(e), e.GivenCustomData, e.now}
}

func failuresOf(e *Engine) failures { return failures{eventRecorderOf(e), e.now} }

func preflightOf(e *Engine) preflight {
	return preflight{
		Client: e.Client, Kube: e.Kube, Cloud: e.Cloud, rules: ruleReaderOf(e), promotion: promotionOf(e), trials: trialsOf(e), preflights: &e.preflights,
		namespace: e.podNamespace(), image: e.Image, AllowedImages: e.AllowedImages, CheckRules: e.CheckRules, OwnNode: e.OwnNode,
		Kured: e.Kured, Drives: e.Drives, concurrent: e.concurrent(), reservations: e.reservations(), now: e.now,
	}
}

func leftoversOf(e *Engine) leftovers {
	return leftovers{e.Client, e.Kube, e.Cloud, trialsOf(e), e.podNamespace(), e.reservations(), e.now}
}
