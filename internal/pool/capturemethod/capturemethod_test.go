package capturemethod

import (
	"cmp"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestOf chooses by copy wherever the cloud copies disks in use, and wherever a donor could not return.
func TestOf(t *testing.T) {
	const copies, inPlace = v1alpha1.MethodCopy, v1alpha1.MethodInPlace
	for name, test := range map[string]struct {
		donor              v1alpha1.DonorSettings
		profile            v1alpha1.Profile
		canCopy, onRequest bool
		never              bool // the cloud powers off no nodes
		want               v1alpha1.CaptureMethod
		why                string
	}{
		"a cloud with copies":                    {canCopy: true, want: copies, why: "can copy"},
		"a cloud without copies":                 {want: inPlace, why: "cannot copy"},
		"a cloud with unverified copies":         {canCopy: true, onRequest: true, want: inPlace, why: "unverified"},
		"named copy where copies are unverified": {donor: v1alpha1.DonorSettings{Method: copies}, canCopy: true, onRequest: true, want: copies},
		"named in place":                         {donor: v1alpha1.DonorSettings{Method: inPlace}, canCopy: true, want: inPlace},
		"named copy":                             {donor: v1alpha1.DonorSettings{Method: copies}, want: copies},
		"bootstrap without copies":               {profile: v1alpha1.ProfileBootstrap, want: copies, why: "credential"},
		"bootstrap with unverified copies":       {profile: v1alpha1.ProfileBootstrap, canCopy: true, onRequest: true, want: copies, why: "credential"},
		"eks":                                    {profile: v1alpha1.ProfileEKS, canCopy: true, want: copies, why: "can copy"},
		"a cloud that powers off nothing":        {never: true, want: copies, why: "powers off"},
		"a cloud that powers off nothing, named": {donor: v1alpha1.DonorSettings{Method: inPlace}, never: true, want: inPlace},
		"eks with unverified copies":             {profile: v1alpha1.ProfileEKS, canCopy: true, onRequest: true, want: inPlace, why: "unverified"},
		"bootstrap named in place":               {donor: v1alpha1.DonorSettings{Method: inPlace}, profile: v1alpha1.ProfileBootstrap, canCopy: true, want: inPlace},
		"a workshop where there are none":        {donor: v1alpha1.DonorSettings{WorkshopType: "m7i.large"}, want: copies, why: "workshopType"},
		"no freeze where there are none":         {donor: v1alpha1.DonorSettings{Freeze: v1alpha1.FreezeNever}, want: copies, why: "freeze"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(Facts{Donor: test.donor, Profile: cmp.Or(test.profile, v1alpha1.ProfileStatic), CanCopy: test.canCopy, OnRequest: test.onRequest, InPlace: !test.never})
			if got.Method != test.want || (got.Why == "") != (test.why == "") || !strings.Contains(got.Why, test.why) {
				t.Errorf("got %+v, want %s because of %q", got, test.want, test.why)
			}
		})
	}
}

// TestRecall names the reason of a stored method only if its settings have one.
func TestRecall(t *testing.T) {
	with := func(d v1alpha1.DonorSettings) v1alpha1.PrototypeSpec {
		return v1alpha1.PrototypeSpec{Settings: v1alpha1.Settings{Donor: d}}
	}
	for name, test := range map[string]struct {
		spec v1alpha1.PrototypeSpec
		want Answer
	}{
		"by copy":               {with(v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy}), byCopy("Kamino can copy a disk in use in this cloud")},
		"in place":              {with(v1alpha1.DonorSettings{Method: v1alpha1.MethodInPlace}), Answer{Method: v1alpha1.MethodInPlace}},
		"stored before methods": {with(v1alpha1.DonorSettings{}), Answer{Method: v1alpha1.MethodInPlace}},
		"a workshop": {with(v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy, WorkshopType: "m7i.large"}),
			byCopy("settings.donor.workshopType is for captures by copy")},
		"a pioneer": {v1alpha1.PrototypeSpec{
			Pioneer: &v1alpha1.PioneerSettings{}, Settings: v1alpha1.Settings{Donor: v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy}},
		}, byCopy("Kamino can copy a disk in use in this cloud")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Recall(test.spec); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestEachChoiceIsTheSettingOfItsPrototype: the chosen method is named in the Prototype, and a named method is not chosen again, nor
// explained.
func TestEachChoiceIsTheSettingOfItsPrototype(t *testing.T) {
	for _, d := range []v1alpha1.DonorSettings{{}, {Freeze: v1alpha1.FreezeAuto}, {WorkshopType: "m7i.large"}} {
		for _, canCopy := range []bool{true, false} {
			first := Of(Facts{Donor: d, Profile: v1alpha1.ProfileStatic, CanCopy: canCopy, InPlace: true})
			if first.Method == "" || first.Why == "" {
				t.Errorf("%+v: %+v", d, first)
			}
			d.Method = first.Method
			if again := Of(Facts{Donor: d, Profile: v1alpha1.ProfileStatic, CanCopy: !canCopy}); again.Method != first.Method || again.Why != "" {
				t.Errorf("%+v: first %+v, then %+v", d, first, again)
			}
			d.Method = ""
		}
	}
}
