package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

var (
	poolAgeDesc  = gauge("pool_image_age_seconds", "Age of the image version in the pool's recipe, by pool.", "pool")
	poolInfoDesc = gauge("pool_image_info", "Always 1: the image version in the pool's recipe, by pool.", "pool", "version")
)

// pools are those that a Prototype was ever written for, as far as this process has seen.
type pools struct {
	mu   sync.Mutex
	byID map[cloud.PoolID]*pool
}

// pool is what is known of one.
type pool struct {
	name string
	// version that the recipe points at; empty if it is none of Kamino's, or if nobody has looked yet.
	version string
	// builtAt is when the version was begun; zero if nobody knows.
	builtAt time.Time
	// due is when the pool is to be looked at; zero for at once.
	due time.Time
	// looked tells that the cloud was asked. From then on an old Prototype tells nothing new.
	looked bool
	// serial counts the promotions seen, so that a look that a promotion overtook can be dropped.
	serial int
}

// meet makes a pool known, and takes over the version of a Prototype that succeeded: at once if that was
// just now, and if it was before this process began, as long as the cloud has not been asked.
func (p *pools) meet(id cloud.PoolID, name string, prototype *v1alpha1.Prototype, justNow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = map[cloud.PoolID]*pool{}
	}
	known := p.byID[id]
	if known == nil {
		known = &pool{name: name}
		p.byID[id] = known
	}
	version := prototype.Spec.Version
	switch {
	case prototype.Status.Phase != v1alpha1.PhaseSucceeded:
		return
	case justNow:
		known.serial++
	case known.looked || known.version != "" && imageversion.Compare(version, known.version) <= 0:
		return
	}
	known.version, known.builtAt = version, history.CapturedAt(prototype)
}

// next is a copy of a pool that is to be looked at now; false if there is none. It is due again only after
// the pause, however the look ends.
func (p *pools) next(now time.Time, pause time.Duration) (id cloud.PoolID, at pool, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.byID {
		if !known.due.After(now) {
			known.due = now.Add(pause)
			return id, *known, true
		}
	}
	return "", pool{}, false
}

// found takes over what a look has shown, unless a promotion was seen meanwhile.
func (p *pools) found(id cloud.PoolID, before pool, version string, builtAt time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byID[id]; known != nil && known.serial == before.serial {
		known.version, known.builtAt, known.looked = version, builtAt, true
	}
}

// lost drops a pool that is gone.
func (p *pools) lost(id cloud.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// collect gives the samples. Of pools that have one name, in two resource groups, the one with the oldest
// image stands for all: a name can be told once.
func (p *pools) collect(samples chan<- prometheus.Metric, now time.Time) {
	p.mu.Lock()
	shown := map[string]pool{}
	for _, known := range p.byID {
		if known.version == "" {
			continue
		}
		if other, taken := shown[known.name]; taken && !worse(*known, other) {
			continue
		}
		shown[known.name] = *known
	}
	p.mu.Unlock()
	for name, known := range shown {
		samples <- prometheus.MustNewConstMetric(poolInfoDesc, prometheus.GaugeValue, 1, name, known.version)
		if !known.builtAt.IsZero() {
			age := max(now.Sub(known.builtAt), 0)
			samples <- prometheus.MustNewConstMetric(poolAgeDesc, prometheus.GaugeValue, age.Seconds(), name)
		}
	}
}

// worse tells whether a pool's image is older than another's; one of an unknown age is the worst.
func worse(a, b pool) bool {
	if a.builtAt.Equal(b.builtAt) {
		return imageversion.Compare(a.version, b.version) < 0
	}
	return a.builtAt.Before(b.builtAt)
}
