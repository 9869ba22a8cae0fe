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
	// announcer records events and logs for users.
	announcer struct {
		Recorder events.EventRecorder
		Log      logr.Logger
	}
	// prototypes reads Prototypes, and keeps the last one for the next pass.
	prototypes struct {
		Client  client.Client
		Watched func(ctx context.Context, name string) string
		left    *sync.Map
	}
	// ledger reads and writes the record and the status of a capture.
	ledger struct {
		Client       client.Client
		Kube         kubernetes.Interface
		Log          logr.Logger
		reservations node.Reservations
	}
	// hold manages the reservation of the donor: the Lease, the record, the scale-in protection and the deadlines.
	hold struct {
		ledger
		Cloud cloud.Provider
		now   func() time.Time
	}
	// departures removes leaving donors: the pool grows by a replacement, and the instance is removed with its Node.
	departures struct {
		hold
		announcer
	}
	// drain evicts the pods of the donor.
	drain struct {
		Kube      kubernetes.Interface
		namespace string
		now       func() time.Time
	}
	// orders creates, reads and removes the Order with its key, and copies the pod's report.
	orders struct {
		ledger
		rules     ruleBook
		namespace string
		now       func() time.Time
	}
	// ruleBook reads the user's own rules.
	ruleBook struct {
		Kube      kubernetes.Interface
		namespace string
	}
	// pods creates, reads and removes the pod on the donor.
	pods struct {
		ledger
		namespace, image string
		now              func() time.Time
	}
	// artifacts reads the snapshot and the image version.
	artifacts struct{ Cloud cloud.Provider }
	// promotion lets the recipe name the version: save the removed parts, write the recipe, retire versions, grow the
	// pool.
	promotion struct {
		ledger
		Cloud     cloud.Provider
		namespace string
	}
	// trials builds nodes from a version, and judges the version.
	trials struct {
		ledger
		announcer
		Cloud  cloud.Provider
		tryout Tryout
		now    func() time.Time
	}
	// ending turns final refusals of a cloud into the failure of the capture.
	ending struct {
		announcer
		now func() time.Time
	}
	// inquiry gathers all facts for the admission of a capture.
	inquiry struct {
		Client        client.Client
		Kube          kubernetes.Interface
		Cloud         cloud.Provider
		rules         ruleBook
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

func announcerOf(e *Engine) announcer { return announcer{e.Recorder, e.Log} }

func prototypesOf(e *Engine) prototypes { return prototypes{e.Client, e.Watched, &e.left} }

func ledgerOf(e *Engine) ledger { return ledger{e.Client, e.Kube, e.Log, e.reservations()} }

func holdOf(e *Engine) hold { return hold{ledgerOf(e), e.Cloud, e.now} }

func departuresOf(e *Engine) departures { return departures{holdOf(e), announcerOf(e)} }

func drainOf(e *Engine) drain { return drain{e.Kube, e.podNamespace(), e.now} }

func ordersOf(e *Engine) orders { return orders{ledgerOf(e), rulesOf(e), e.podNamespace(), e.now} }

func rulesOf(e *Engine) ruleBook { return ruleBook{e.Kube, e.podNamespace()} }

func podsOf(e *Engine) pods { return pods{ledgerOf(e), e.podNamespace(), e.Image, e.now} }

func artifactsOf(e *Engine) artifacts { return artifacts{e.Cloud} }

func promotionOf(e *Engine) promotion { return promotion{ledgerOf(e), e.Cloud, e.namespace()} }

func trialsOf(e *Engine) trials {
	return trials{ledgerOf(e), announcerOf(e), e.Cloud, e.Tryout, e.now}
}

func endingOf(e *Engine) ending { return ending{announcerOf(e), e.now} }

func inquiryOf(e *Engine) inquiry {
	return inquiry{
		Client: e.Client, Kube: e.Kube, Cloud: e.Cloud, rules: rulesOf(e), promotion: promotionOf(e), trials: trialsOf(e), preflights: &e.preflights,
		namespace: e.podNamespace(), image: e.Image, AllowedImages: e.AllowedImages, CheckRules: e.CheckRules, OwnNode: e.OwnNode,
		Kured: e.Kured, Drives: e.Drives, concurrent: e.concurrent(), reservations: e.reservations(), now: e.now,
	}
}

func leftoversOf(e *Engine) leftovers {
	return leftovers{e.Client, e.Kube, e.Cloud, trialsOf(e), e.podNamespace(), e.reservations(), e.now}
}
