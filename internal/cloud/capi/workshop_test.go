package capi

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// copyingDisks is an ImageProvider that copies disks in use, and has no groups.
type copyingDisks struct {
	cloud.ImageStore
	cloud.DiskCopier
}

func (copyingDisks) CanCopyDisks() bool         { return true }
func (copyingDisks) Groups() cloud.PoolProvider { return cloud.PoolProvider{} }

// TestCloudsWithCopies: a provider captures by copy only where the copy is known to reach the instance of a Machine, whatever the
// cloud's other pools can.
func TestCloudsWithCopies(t *testing.T) {
	for name, want := range map[string]bool{"aws": true, "azure": false, "another": false} {
		d, err := Describe(cloud.Description{Name: name, NewDisks: func(context.Context, cloud.Config) (cloud.ImageProvider, string, error) {
			return cloud.ImageProvider{DiskCopier: copyingDisks{}, ImageStore: copyingDisks{}}, "", nil
		}}, &rest.Config{Host: "management"}, types.NamespacedName{Namespace: "fleet", Name: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := d.New(t.Context(), cloud.Config{})
		if err != nil {
			t.Fatal(err)
		}
		spec := cloud.WorkshopSpec{Tags: map[string]string{cloud.TagUID: "u", cloud.TagEndsAt: "e"}}
		_, err = p.EnsureWorkshop(t.Context(), spec)
		if p.CanCopy() != want || !want && !cloud.Is(err, cloud.Unsupported) {
			t.Errorf("%s copies: %t, %v", name, p.CanCopy(), err)
		}
	}
}

// TestRightsOfWorkshops: only clouds with captures by copy need rights for them, and the same as trials.
func TestRightsOfWorkshops(t *testing.T) {
	of := func(machine, purpose string) (names []string) {
		for _, need := range rights(machine) {
			if need.purpose == purpose {
				names = append(names, need.resource)
			}
		}
		return names
	}
	for kind, infra := range infrastructures {
		trial, copied := of(kind, cloud.ForTrialApart), of(kind, cloud.ForCopy)
		if len(trial) == 0 || infra.copies && !slices.Equal(copied, trial) || !infra.copies && len(copied) > 0 {
			t.Errorf("%s: a trial needs %v, and a copy %v", kind, trial, copied)
		}
	}
}
