package history

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// pool is a pool that changes apply to, as a provider applies changes.
type pool struct {
	images  []cloud.Image
	current string
}

func (p *pool) history() History { return historyOf(p.current, slices.Clone(p.images)...) }

func (p *pool) tag(version string, tags map[string]string) {
	for i := range p.images {
		if p.images[i].Version == version {
			for key, value := range tags {
				p.images[i].Tags[key] = value
			}
		}
	}
}

func (p *pool) find(version string) *cloud.Image {
	for i := range p.images {
		if p.images[i].Version == version {
			return &p.images[i]
		}
	}
	return nil
}

func (p *pool) usable(version string) bool {
	image := p.find(version)
	return image != nil && image.State == cloud.Complete && image.Tags[cloud.TagQuarantined] == ""
}

var pools = rapid.Custom(func(t *rapid.T) *pool {
	p := &pool{}
	for day := range rapid.IntRange(0, 7).Draw(t, "versions") {
		i := image(fmt.Sprintf("2026.03.%02d", day+1))
		i.State = rapid.SampledFrom([]cloud.State{cloud.Complete, cloud.Complete, cloud.Complete, cloud.Pending, cloud.Failed, cloud.Deleting}).Draw(t, "state")
		if rapid.IntRange(0, 3).Draw(t, "quarantined") == 0 {
			i.Tags[cloud.TagQuarantined] = "bad"
		}
		if rapid.IntRange(0, 3).Draw(t, "rolled back") == 0 {
			i.Tags[cloud.TagRolledBackTo] = versions.Draw(t, "to")
		}
		p.images = append(p.images, i)
	}
	p.current = rapid.OneOf(versions, rapid.Just("")).Draw(t, "current")
	return p
})

var versions = rapid.Custom(func(t *rapid.T) string {
	return fmt.Sprintf("2026.03.%02d", rapid.IntRange(1, 8).Draw(t, "day"))
})

// TestRollbackProperties: the target is complete, not quarantined and not current. A newer version that the pool leaves
// is quarantined.
//
// An interrupted run, repeated, ends in the same state. A second run changes nothing.
func TestRollbackProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pools.Draw(t, "pool")
		to := rapid.OneOf(rapid.Just(""), versions).Draw(t, "to")
		r, refusals := p.history().Rollback(to, "why")
		if refusals != nil || r.Done {
			return
		}
		switch {
		case !p.usable(r.To):
			t.Fatalf("goes to %s, which can't be used", r.To)
		case r.To == p.current || r.From != p.current:
			t.Fatalf("goes from %s to %s, and %s is current", r.From, r.To, p.current)
		case to != "" && r.To != to:
			t.Fatalf("goes to %s, not to %s", r.To, to)
		case to == "" && imageversion.Compare(r.To, r.From) > 0:
			t.Fatalf("goes forward to %s automatically", r.To)
		}
		p.tag(r.From, r.Tags)
		if rapid.Bool().Draw(t, "broken off") && len(r.Tags) > 0 {
			again, refusals := p.history().Rollback("", "another reason")
			if refusals != nil || again.To != r.To || again.Tags[cloud.TagQuarantined] != p.find(r.From).Tags[cloud.TagQuarantined] {
				t.Fatalf("going on: %+v %+v, after %+v", again, refusals, r)
			}
		}
		p.current = r.To
		if !p.usable(p.current) {
			t.Fatalf("the pool ends at %s, which can't be used", p.current)
		}
		if len(r.Tags) > 0 {
			if again, refusals := p.history().Rollback("", "why"); refusals != nil || !again.Done {
				t.Fatalf("the same once more: %+v %+v", again, refusals)
			}
		}
	})
}

// TestRetireProperties: no retired version is current or the target of a rollback. So a possible rollback stays
// possible.
func TestRetireProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pools.Draw(t, "pool")
		before, refused := p.history().Rollback("", "why")
		for range rapid.IntRange(1, 8).Draw(t, "tries") {
			r, refusals := p.history().Retire(versions.Draw(t, "version"))
			if refusals != nil || r.Done {
				continue
			}
			if r.Version == p.current || refused == nil && !before.Done && r.Version == before.To {
				t.Fatalf("retires %s; current is %s, and a rollback goes to %s", r.Version, p.current, before.To)
			}
			p.images = slices.DeleteFunc(p.images, func(i cloud.Image) bool { return i.Version == r.Version })
		}
		after, refusals := p.history().Rollback("", "why")
		if refused == nil && !before.Done && (refusals != nil || after.To != before.To) {
			t.Fatalf("a rollback went to %s, and now: %+v %+v", before.To, after, refusals)
		}
	})
}

// TestVerdictProperties: the next capture never deletes the current or the prior version. Unquarantine undoes a
// quarantine.
func TestVerdictProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pools.Draw(t, "pool")
		h := p.history()
		for _, v := range h.Versions {
			if !v.Keep && (v.Use == Current || v.Version == h.Prior) {
				t.Fatalf("%s %s would be retired", v.Use, v.Version)
			}
			if v.Use == Prior && v.Version != h.Prior {
				t.Fatalf("%s is called prior, and %s is", v.Version, h.Prior)
			}
		}
		name := versions.Draw(t, "version")
		m, refusals := h.Quarantine(name, "why")
		if refusals != nil {
			return
		}
		p.tag(m.Version, m.Tags)
		if p.usable(m.Version) {
			t.Fatalf("%s is quarantined and can be used", m.Version)
		}
		if got := p.history().Prior; got != m.Prior {
			t.Fatalf("prior is %q, and %q was reported", got, m.Prior)
		}
		back, refusals := p.history().Unquarantine(m.Version)
		if refusals != nil || back.Done {
			t.Fatalf("unquarantine %s: %+v %+v", m.Version, back, refusals)
		}
		p.tag(back.Version, back.Tags)
		if p.find(m.Version).Tags[cloud.TagQuarantined] != "" {
			t.Fatalf("%s is still quarantined", m.Version)
		}
	})
}
