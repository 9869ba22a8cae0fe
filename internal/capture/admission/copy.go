package admission

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// CopiesDonor reports whether the donor stays in service, and a copy of its disk is generalized.
func (c *Case) CopiesDonor() bool { return c.Prototype.Spec.Settings.CopiesDonor() }

// StaysInService reports whether the donor is out of service at no time.
func (c *Case) StaysInService() bool { return c.Prototype.Spec.StaysInService() }

// canCopy refuses a method that the cloud does not have.
func canCopy(c *Case) ([]cloud.Refusal, error) {
	if c.CanCopy || c.Strayed() {
		return nil, nil
	}
	return refuse(SettingUnsupported, "omit settings.donor.method, or set InPlace",
		"settings.donor.method is Copy, but Kamino cannot copy a disk in use in the cloud of node %s", c.node()), nil
}

// AsksCopyRight reports whether this process needs the permissions of a capture by copy.
func (c *Case) AsksCopyRight() bool {
	return c.CopiesDonor() && (c.Prototype.UID != "" || c.Process.Drives)
}

// copyRight requires what only a capture by copy needs: a word to the pod on the donor, and a workshop without other pods.
func copyRight(c *Case) ([]cloud.Refusal, error) {
	if !c.AsksCopyRight() || c.Strayed() {
		return nil, nil
	}
	lacking, err := resultOf(c.CopyRightLacking, "the permissions of a capture by copy")
	if err != nil || lacking == "" {
		return nil, err
	}
	return refuse(NotInstalled, "restore the role with `"+manifests+"`, or with helm upgrade",
		"Kamino may not %s, which a capture by copy needs", lacking), nil
}

// CopyCost describes what a capture by copy costs: a workshop, for as long as the copy is made and cleaned.
type CopyCost struct {
	// InstanceType of the workshop, in the words of the cloud; empty if unknown.
	InstanceType string `json:"instanceType,omitempty"`
	// Chosen: the settings name the type. Else it is the type of the donor's pool.
	Chosen bool `json:"chosen,omitempty"`
	// DiskGB is the size of the donor's root file system, in full GiB; 0 if unknown.
	DiskGB int64 `json:"diskGB,omitempty"`
	// Patches: the donor is drained and patched before the copy.
	Patches bool `json:"patches,omitempty"`
	// Freezes: the root file system of the donor is frozen for the moment of the copy, if the node can guard the freeze.
	Freezes bool `json:"freezes"`
}

const gib = 1 << 30

// CopyCost returns the cost of a capture by copy; nil for a capture in place.
func (c *Case) CopyCost() *CopyCost {
	if !c.CopiesDonor() {
		return nil
	}
	settings := c.Prototype.Spec.Settings.Donor
	cost := &CopyCost{InstanceType: settings.WorkshopType, Chosen: settings.WorkshopType != "", Patches: !c.StaysInService(), Freezes: settings.Freeze != v1alpha1.FreezeNever}
	if donor, err := c.Donor.Get(); err == nil && donor.Node != nil {
		cost.InstanceType = cmp.Or(settings.WorkshopType, donor.Node.Labels[corev1.LabelInstanceTypeStable])
		cost.DiskGB = (donor.Node.Status.Capacity.StorageEphemeral().Value() + gib - 1) / gib
	}
	return cost
}

// Sentences returns the cost in sentences.
func (c *CopyCost) Sentences(node, pool string) []string {
	moment := "while the node stays in service: no cordon, no eviction"
	if c.Patches {
		moment = "while the patched node serves"
	}
	if c.Freezes {
		moment += ", and its disk is frozen for less than a second"
	}
	machine := "an instance of the pool's type"
	switch {
	case c.Chosen:
		machine = "an instance of type " + c.InstanceType
	case c.InstanceType != "":
		machine += ", such as " + c.InstanceType + ","
	}
	return []string{
		fmt.Sprintf("copy the disk of node %s of pool %s %s", node, pool, moment),
		fmt.Sprintf("run a workshop outside the pool until the copy is clean: %s with a second disk, "+
			"which the cloud bills until both are removed", machine),
	}
}
