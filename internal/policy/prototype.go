package policy

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxAttempts is how many failed captures of one pool and day there can be. It ends the search for a free
// name; whoever gets there has another problem.
const maxAttempts = 100

// Pool is a pool as a decision names it.
type Pool struct {
	ID cloud.PoolID
	// Name is the cloud's own name of it.
	Name string
}

// Its are the Prototypes of the pool, out of all with their memberships. Two pools of one name in different resource
// groups are two pools; a Prototype whose donor belongs to no pool that the provider knows is told by its pool's name.
func (p Pool) Its(all []v1alpha1.Prototype, of []cloud.Membership) []v1alpha1.Prototype {
	var its []v1alpha1.Prototype
	for i := range all {
		if of[i].Pool == p.ID || of[i].Pool == "" && all[i].Spec.Pool == p.Name {
			its = append(its, all[i])
		}
	}
	return its
}

// Prototype is the decision to capture the donor, under the first name of the day that no other attempt has
// taken: two who decide the same thing at once compute the same name, and the API server lets one of them win.
func (p Pool) Prototype(donor v1alpha1.Donor, version string, settings v1alpha1.Settings, all []v1alpha1.Prototype) (*v1alpha1.Prototype, error) {
	name, err := p.freeName(version, all)
	if err != nil {
		return nil, err
	}
	prototype := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{
		Pool: p.Name, PoolID: string(p.ID), Version: version, Donor: donor, Settings: settings.Defaulted(),
	}}
	prototype.Name = name
	if label := v1alpha1.ObjectName(p.Name); len(label) <= 63 {
		prototype.Labels = map[string]string{v1alpha1.PoolLabel: label}
	}
	return prototype, nil
}

func (p Pool) freeName(version string, all []v1alpha1.Prototype) (string, error) {
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		name := v1alpha1.PrototypeName(p.Name, version, attempt)
		if !slices.ContainsFunc(all, func(other v1alpha1.Prototype) bool { return other.Name == name }) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%d captures of pool %s as version %s exist already: delete the failed ones (`kubectl get prototypes`) "+
		"once you know why they failed", maxAttempts, p.Name, version)
}

// HoldsDonor tells whether a capture holds a node or is going to: it has neither ended nor given its donor
// back. An image that is still being replicated keeps no node away.
func HoldsDonor(p *v1alpha1.Prototype) bool {
	return !p.Status.Terminal() && (p.Status.Donor == nil || p.Status.Donor.ReleasedAt == nil)
}
