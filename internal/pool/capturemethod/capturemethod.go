// Package capturemethod chooses how the disk of a donor becomes an image, if the settings of a policy or a command name no
// method. Each Prototype has the chosen method in its settings.
//
// The package is pure. Package admission decides whether a capture with the method may begin.
package capturemethod

import "github.com/kamino-dev/kamino/api/v1alpha1"

// Facts are the facts for the choice.
type Facts struct {
	Donor   v1alpha1.DonorSettings
	Profile v1alpha1.Profile
	// CanCopy: the cloud copies disks in use (cloud.Provider.CanCopy), and OnRequest: only if a user asks for it.
	CanCopy, OnRequest bool
	// InPlace: the cloud powers donors off (cloud.Pools.CapturesInPlace).
	InPlace bool
}

// Cloud has the calls of a cloud.Provider for the choice.
type Cloud interface {
	CanCopy() bool
	CopiesOnRequest() bool
	CapturesInPlace() bool
}

// In chooses the method in a cloud.
func In(c Cloud, settings v1alpha1.Settings) Answer {
	return Of(Facts{Donor: settings.Donor, Profile: settings.Profile(), CanCopy: c.CanCopy(), OnRequest: c.CopiesOnRequest(), InPlace: c.CapturesInPlace()})
}

// Answer is how the disk of a donor becomes an image.
type Answer struct {
	Method v1alpha1.CaptureMethod `json:"method,omitempty"`
	// Why is a sentence with the reason; empty if the settings name the method.
	Why string `json:"message,omitempty"`
}

// Of chooses the method. A setting for one of the methods chooses it, also in a cloud that cannot copy: the preflight or the API
// server then refuses the capture, and no setting is without effect.
func Of(f Facts) Answer {
	switch d := f.Donor; {
	case d.Method != "":
		return Answer{Method: d.Method}
	case d.Freeze != "":
		return byCopy("settings.donor.freeze is for captures by copy")
	case d.WorkshopType != "":
		return byCopy("settings.donor.workshopType is for captures by copy")
	case !f.Profile.Traits().DonorMayReturn:
		return byCopy("in place, the node would lose the credential with which it joins")
	case !f.InPlace:
		return byCopy("Kamino powers off no node in this cloud")
	case !f.CanCopy:
		return inPlace("Kamino cannot copy a disk in use in this cloud")
	case f.OnRequest:
		return inPlace("in this cloud, captures by copy are unverified, and need settings.donor.method: Copy")
	}
	return byCopy("Kamino can copy a disk in use in this cloud")
}

func inPlace(why string) Answer { return Answer{v1alpha1.MethodInPlace, why} }

func byCopy(why string) Answer { return Answer{v1alpha1.MethodCopy, why} }

// Recall returns the method of a Prototype, and the reason as far as its settings have one. A method in place without such a setting
// was named, or the cloud copied no disk in use.
func Recall(spec v1alpha1.PrototypeSpec) Answer {
	settings := spec.Settings.Donor
	settings.Method = ""
	a := Of(Facts{Donor: settings, Profile: spec.Settings.Profile(), CanCopy: true, InPlace: true})
	switch copies := spec.Settings.CopiesDonor(); {
	case copies == (a.Method == v1alpha1.MethodCopy):
		return a
	case copies:
		return Answer{Method: v1alpha1.MethodCopy}
	}
	return Answer{Method: v1alpha1.MethodInPlace}
}
