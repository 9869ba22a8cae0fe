package capture

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
)

// rooms are the parts of a capture: preflight, donor, disk, image, trial and promotion. Each part has its own clients.
type rooms struct {
	events   recorder
	failures failures
	store    store

	preflight preflight
	patchSets patchSets

	// The donor: its reservation, its pods, and the patch of a pioneer.
	donors   donorReader
	locks    locks
	hold     hold
	drain    drain
	patching patching

	// The disk: the pod that inspects or generalizes the disk, and its NodeOrder.
	pods   pods
	orders orders

	// The copy of a donor in service, and the workshop where the copy is cleaned.
	copying copying

	images      images
	trialReader trialReader
	trials      trials
	promotion   promotion
}

// rooms gives each part the clients that it needs.
func (e *Engine) rooms() rooms {
	leases, podNamespace := e.reservations(), e.podNamespace()
	record := recorder{events: e.Recorder, log: e.Log}
	kept := store{client: e.Client, leases: leases}
	missing := witness{cloud: e.Cloud, store: kept, now: e.now}
	image := podImages{fallback: e.Image, allowed: e.AllowedImages}
	data := customDataReader{kube: e.Kube, namespace: leases.Namespace}
	patcher := func(p *v1alpha1.Prototype) nodepatch.Patcher {
		return nodepatch.Patcher{
			Client: e.Client, Kube: e.Kube, Reservations: leases, Namespace: podNamespace,
			Image: image.of(p), MayRun: func() error { return image.mayRun(p) }, Now: e.now,
		}
	}
	rules := ruleReader{kube: e.Kube, podNamespace: podNamespace, check: e.CheckRules}

	r := rooms{events: record, failures: failures{events: record, now: e.now}, store: kept}
	r.trialReader = trialReader{cloud: e.Cloud, observer: e.TrialObserver, witness: missing, events: record, now: e.now}
	r.trials = trials{cloud: e.Cloud, reader: r.trialReader, customData: data, given: e.GivenCustomData, store: kept, events: record, now: e.now}
	r.preflight = preflight{
		kube: e.Kube, client: e.Client, cloud: e.Cloud, leases: leases, rules: rules, kured: e.Kured, concurrent: e.concurrent, now: e.now,
		process: admission.Process{
			Image: e.Image, AllowedImages: e.AllowedImages, Namespace: podNamespace, OwnNode: e.OwnNode, Drives: e.Drives,
		},
		clusterChecks: clusterChecks{kube: e.Kube, client: e.Client, image: image, podNamespace: podNamespace, now: e.now},
		cloudChecks:   cloudChecks{cloud: e.Cloud, trials: r.trials, customData: data, memory: &e.preflights, now: e.now},
	}
	r.patchSets = patchSets{kube: e.Kube, client: e.Client, cloud: e.Cloud, patcher: patcher, store: kept, events: record, now: e.now}
	r.drain = drain{kube: e.Kube, podNamespace: podNamespace, now: e.now}
	r.pods = pods{kube: e.Kube, store: kept, preflight: r.preflight, image: image, podNamespace: podNamespace, now: e.now}
	r.locks = locks{client: e.Client, cloud: e.Cloud, leases: leases}
	r.donors = donorReader{
		kube: e.Kube, cloud: e.Cloud, leases: leases, store: kept, witness: missing, locks: r.locks, drain: r.drain, kured: e.Kured, now: e.now,
	}
	r.hold = hold{kube: e.Kube, cloud: e.Cloud, leases: leases, store: kept, pods: r.pods, events: record, now: e.now}
	r.patching = patching{client: e.Client, patcher: patcher, store: kept, events: record, unhealthy: e.Unhealthy, now: e.now}
	r.orders = orders{kube: e.Kube, client: e.Client, store: kept, hold: r.hold, rules: rules, image: image, podNamespace: podNamespace, now: e.now}
	r.copying = copying{
		kube: e.Kube, client: e.Client, cloud: e.Cloud, observer: e.TrialObserver, customData: data, orders: r.orders, pods: r.pods, store: kept,
		witness: missing, events: record, wait: e.sleep, now: e.now,
	}
	r.images = images{cloud: e.Cloud, witness: missing, now: e.now}
	r.promotion = promotion{
		kube: e.Kube, client: e.Client, cloud: e.Cloud, namespace: leases.Namespace, customData: data, trials: r.trials, store: kept, witness: missing,
		waves: e.Waves, log: e.Log,
	}
	return r
}
