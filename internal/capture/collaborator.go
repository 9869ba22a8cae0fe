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

// What the engine does to one kind of thing is a type of its own, which has what that needs and no more. They keep
// nothing: each is made where it is used.
type (
	// announcer tells of a pass what people should find later.
	announcer struct {
		Recorder events.EventRecorder
		Log      logr.Logger
	}
	// prototypes reads Prototypes, and keeps for the next pass the one that a pass leaves.
	prototypes struct {
		Client  client.Client
		Watched func(ctx context.Context, name string) string
		left    *sync.Map
	}
	// ledger reads and writes what a capture must not forget, and its status.
	ledger struct {
		Client       client.Client
		Kube         kubernetes.Interface
		Log          logr.Logger
		reservations node.Reservations
	}
	// hold is the capture's hold of its donor: the lock, the record of it, how the pool may treat the instance, and for
	// how long it lasts.
	hold struct {
		ledger
		Cloud cloud.Provider
		now   func() time.Time
	}
	// departures has the donors leave that do not return: the pool grows by a successor, and the instance goes with its Node.
	departures struct {
		hold
		announcer
	}
	// drain sees to it that what runs on the donor goes elsewhere.
	drain struct {
		Kube      kubernetes.Interface
		namespace string
		now       func() time.Time
	}
	// orders makes, reads and removes the order to generalize with its key, and takes over what is said on it.
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
	// pods makes, reads and removes the pod on the donor.
	pods struct {
		ledger
		namespace, image string
		now              func() time.Time
	}
	// artifacts looks at what is made of the donor's disk: the snapshot, and the image version.
	artifacts struct{ Cloud cloud.Provider }
	// promotion has the pool's recipe name the version: it keeps what that loses, and retires and grows behind it.
	promotion struct {
		ledger
		Cloud     cloud.Provider
		namespace string
	}
	// trials have a node built from a version, and the version judged by it.
	trials struct {
		ledger
		announcer
		Cloud  cloud.Provider
		tryout Tryout
		now    func() time.Time
	}
	// ending turns what a cloud will not do into the end of a capture.
	ending struct {
		announcer
		now func() time.Time
	}
	// inquiry looks at all that speaks for or against a capture that has not begun.
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
	// leftovers finds and removes what captures have left that are gone.
	leftovers struct {
		Client    client.Client
		Kube      kubernetes.Interface
		Cloud     cloud.Provider
		trials    trials
		namespace string
		// reservations of nodes, and the namespace of their Leases.
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
