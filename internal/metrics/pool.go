package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
)

var (
	poolAgeDesc  = gauge("pool_image_age_seconds", "Age of the image version in the pool's recipe, by pool.", "pool")
	poolInfoDesc = gauge("pool_image_info", "Always 1: the image version in the pool's recipe, by pool.", "pool", "version")
)

// pools are all pools with a Prototype that this process has seen.
type pools struct {
	mu   sync.Mutex
	byID map[cloud.PoolID]*pool
}

// pool is the known state of a pool.
type pool struct {
	name string
	// version in the recipe; empty for another image, or before the first look.
	version string
	// builtAt is the time of the version; zero if unknown.
	builtAt time.Time
	// due is the time of the next look; zero means at once.
	due time.Time
	// looked reports an answer of the cloud. After that, an old Prototype adds nothing.
	looked bool
	// serial counts the promotions, so that found can drop a look that began before a promotion.
	serial int
}

// meet adds a pool, and takes the version of a successful Prototype: at once for a new success. An earlier success counts
// until the cloud has answered.
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

// next returns a copy of a pool that is due; false if there is none. The pool is due again after the pause, also after an
// error.
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

// found records the result of a look, unless a promotion came in between.
func (p *pools) found(id cloud.PoolID, before pool, version string, builtAt time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byID[id]; known != nil && known.serial == before.serial {
		known.version, known.builtAt, known.looked = version, builtAt, true
	}
}

// lost drops a deleted pool.
func (p *pools) lost(id cloud.PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// collect emits the samples. Pools with equal names, in two resource groups, share a series: the pool with the oldest
// image.
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

// worse reports whether a pool's image is older than the other image; an unknown age is the worst.
func worse(a, b pool) bool {
	if a.builtAt.Equal(b.builtAt) {
		return imageversion.Compare(a.version, b.version) < 0
	}
	return a.builtAt.Before(b.builtAt)
}
