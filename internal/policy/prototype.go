package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxAttempts limits the failed captures of one pool and day. The limit ends the search for a free name.
const maxAttempts = 100

// PoolRef is a pool with its name and ID.
type PoolRef struct {
	ID cloud.PoolID
	// Name is the cloud's name of the pool.
	Name string
}

// Its returns the Prototypes of the pool; of holds the membership of each Prototype. Equal names in different resource
// groups are different pools. The pool's name decides for a Prototype whose donor belongs to no known pool.
func (p PoolRef) Its(all []v1alpha1.Prototype, of []cloud.Membership) []v1alpha1.Prototype {
	var mine []v1alpha1.Prototype
	for i := range all {
		if of[i].Pool == p.ID || of[i].Pool == "" && all[i].Spec.Pool == p.Name {
			mine = append(mine, all[i])
		}
	}
	return mine
}

// Prototype returns the Prototype for a capture of the donor, with the first free name of the day. Two concurrent deciders
// compute the same name, and the API server accepts one Prototype.
func (p PoolRef) Prototype(donor v1alpha1.Donor, version string, settings v1alpha1.Settings, all []v1alpha1.Prototype) (*v1alpha1.Prototype, error) {
	name, err := p.freeName(version, all)
	if err != nil {
		return nil, err
	}
	prototype := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{
		Pool: p.Name, PoolID: string(p.ID), Version: version, Donor: donor, Settings: settings.Defaulted(),
	}}
	prototype.Name = name
	prototype.Spec.Settings.Trial.Mode = cmp.Or(settings.Trial.Mode, v1alpha1.DefaultTrialMode)
	if label := v1alpha1.ObjectName(p.Name); len(label) <= 63 {
		prototype.Labels = map[string]string{v1alpha1.PoolLabel: label}
	}
	return prototype, nil
}

func (p PoolRef) freeName(version string, all []v1alpha1.Prototype) (string, error) {
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		name := v1alpha1.PrototypeName(p.Name, version, attempt)
		if !slices.ContainsFunc(all, func(other v1alpha1.Prototype) bool { return other.Name == name }) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%d captures of pool %s as version %s exist already: read why with `kubectl get prototypes`, "+
		"then delete the failed captures", maxAttempts, p.Name, version)
}

// HoldsDonor reports whether a capture holds a node or will hold a node: until the end of the capture or the return of the
// donor. An image in replication holds no node.
func HoldsDonor(p *v1alpha1.Prototype) bool {
	return !p.Status.Terminal() && (p.Status.Donor == nil || p.Status.Donor.ReleasedAt == nil)
}
