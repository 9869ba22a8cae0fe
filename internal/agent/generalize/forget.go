package generalize

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/store"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// storeAt returns the store at a path found by a rule.
func storeAt(t *tree.Tree, r *rules.Rule, index string, before *DonorValues) store.Store {
	return store.At(t, r.Store, index, before.spared)
}

// withContainers returns the stores with data about containers.
func (a *applied) withContainers(indexes []tree.Match) (found []tree.Match, err error) {
	var problems []error
	for _, index := range indexes {
		what, err := storeAt(a.tree, a.rule, index.Path, a.before).Remembers()
		if err != nil {
			problems = append(problems, err)
		}
		if what != "" {
			found = append(found, index)
		}
	}
	if len(a.before.spared) > 0 && len(indexes) > 0 {
		a.Kept = "the layer of the pod that does this"
	}
	return found, errors.Join(problems...)
}

// forget removes the containers from one store.
func (a *applied) forget(m tree.Match) error {
	removed, err := storeAt(a.tree, a.rule, m.Path, a.before).Forget()
	a.Changed += removed.Files + removed.Dirs
	a.Bytes += removed.Bytes
	return err
}

// whyRemembered returns what the first store with containers still knows.
func whyRemembered(t *tree.Tree, r *rules.Rule, before *DonorValues) (why string, err error) {
	err = search(t, r, func(m tree.Match) error {
		if why != "" {
			return nil
		}
		why, err = storeAt(t, r, m.Path, before).Remembers()
		return err
	})
	return why, err
}

// broken returns a *Refused if a container store must not be copied: unreadable, of an unknown version, or with damaged images.
// On a running machine, stores in use are skipped, because a changing store seems damaged.
func (r *Runner) broken(t *tree.Tree, before *DonorValues, works bool) error {
	var whys []string
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if rule.Action != rules.Forget || !rule.AppliesTo(before.OS) || r.waived(rule) {
			continue
		}
		err := search(t, rule, func(m tree.Match) error {
			s := storeAt(t, rule, m.Path, before)
			if works && s.InUse() {
				return nil
			}
			why, err := s.Broken()
			if works && errors.Is(err, store.ErrInUse) {
				return nil
			}
			if err != nil {
				why = err.Error()
			}
			if why != "" {
				whys = append(whys, fmt.Sprintf("rule %s: %s", rule.ID, why))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	more, err := elsewhere(t, r.Profile)
	if whys = append(whys, more...); err == nil && len(whys) > 0 {
		return NewRefused(whys...)
	}
	return err
}

// elsewhere names the places of containers that settings name, and no rule covers.
func elsewhere(t *tree.Tree, p *rules.Profile) (whys []string, _ error) {
	places, err := store.Places(t)
	for _, place := range places {
		remedy := "add a rule with the action forget and the store " + string(place.Kind)
		covered := place.Kind != "" && forgets(t, p, place)
		if place.Kind == "" {
			covered = removes(p, t, place.Index)
			remedy = "use the default directory, or add a rule that deletes " + path.Dir("/"+place.Index) + "/*"
		}
		if !covered {
			whys = append(whys, fmt.Sprintf("%s keeps containers in /%s, and no rule covers the directory: %s", place.By, place.Index, remedy))
		}
	}
	return whys, err
}

// forgets reports whether a rule removes the containers of the store.
func forgets(t *tree.Tree, p *rules.Profile, place store.Place) bool {
	return slices.ContainsFunc(p.Rules, func(r rules.Rule) bool {
		if r.Action != rules.Forget || r.Store != place.Kind {
			return false
		}
		found, err := findAll(t, &r)
		return err == nil && slices.ContainsFunc(found, func(m tree.Match) bool { return m.Path == place.Index })
	})
}

// Stores returns the container stores of a tree that the rules of a profile name.
func Stores(t *tree.Tree, p *rules.Profile) (all []store.Store, _ error) {
	for i := range p.Rules {
		rule := &p.Rules[i]
		if rule.Action != rules.Forget {
			continue
		}
		err := search(t, rule, func(m tree.Match) error {
			all = append(all, storeAt(t, rule, m.Path, &DonorValues{}))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Container is the kind of a finding in a container store: data about containers, or a damaged image.
const Container scan.Kind = "container store"

// LookIntoStores adds findings to a report: data about containers in the stores of a profile's rules, in records and
// free pages, and damaged images.
func LookIntoStores(t *tree.Tree, p *rules.Profile, report *scan.Report) error {
	for i := range p.Rules {
		rule := &p.Rules[i]
		if rule.Action != rules.Forget {
			continue
		}
		err := search(t, rule, func(m tree.Match) error {
			s := storeAt(t, rule, m.Path, &DonorValues{})
			for _, look := range []func() (string, error){s.Remembers, s.Broken} {
				why, err := look()
				if err != nil {
					why = err.Error()
				}
				if why != "" {
					report.Count++
					report.Findings = append(report.Findings, scan.Finding{Path: "/" + m.Path, Kind: Container, What: why, Rule: rule.ID})
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
