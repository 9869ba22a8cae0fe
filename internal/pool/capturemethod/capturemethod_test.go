package capturemethod

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestOf chooses in place for a setting that only a capture in place has, and by copy wherever the cloud copies disks in use.
func TestOf(t *testing.T) {
	no := false
	for name, test := range map[string]struct {
		facts Facts
		want  v1alpha1.CaptureMethod
		why   string
	}{
		"a cloud with copies":               {Facts{CanCopy: true}, v1alpha1.MethodCopy, "can copy"},
		"a cloud without copies":            {Facts{}, v1alpha1.MethodInPlace, "cannot copy"},
		"named in place":                    {Facts{Donor: v1alpha1.DonorSettings{Method: v1alpha1.MethodInPlace}, CanCopy: true}, v1alpha1.MethodInPlace, ""},
		"named copy":                        {Facts{Donor: v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy}}, v1alpha1.MethodCopy, ""},
		"a pioneer":                         {Facts{Pioneer: true, CanCopy: true}, v1alpha1.MethodInPlace, "pioneer"},
		"a donor that returns":              {Facts{Donor: v1alpha1.DonorSettings{AfterCapture: v1alpha1.ReturnDonor}, CanCopy: true}, v1alpha1.MethodInPlace, "afterCapture"},
		"a donor that leaves":               {Facts{Donor: v1alpha1.DonorSettings{AfterCapture: v1alpha1.RemoveDonor}, CanCopy: true}, v1alpha1.MethodInPlace, "afterCapture"},
		"no growth":                         {Facts{Donor: v1alpha1.DonorSettings{GrowFirst: &no}, CanCopy: true}, v1alpha1.MethodInPlace, "growFirst"},
		"labels for the replacement":        {Facts{Donor: carries(v1alpha1.CarryOver{Labels: []string{"team"}}), CanCopy: true}, v1alpha1.MethodInPlace, "carryOver"},
		"taints for the replacement":        {Facts{Donor: carries(v1alpha1.CarryOver{Taints: []string{"gpu"}}), CanCopy: true}, v1alpha1.MethodInPlace, "carryOver"},
		"a workshop where there are none":   {Facts{Donor: v1alpha1.DonorSettings{WorkshopType: "m7i.large"}}, v1alpha1.MethodCopy, "workshopType"},
		"no freeze where there are none":    {Facts{Donor: v1alpha1.DonorSettings{Freeze: v1alpha1.FreezeNever}}, v1alpha1.MethodCopy, "freeze"},
		"a pioneer, and settings of a copy": {Facts{Donor: v1alpha1.DonorSettings{WorkshopType: "m7i.large"}, Pioneer: true, CanCopy: true}, v1alpha1.MethodInPlace, "pioneer"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(test.facts)
			if got.Method != test.want || (got.Why == "") != (test.why == "") || !strings.Contains(got.Why, test.why) {
				t.Errorf("got %+v, want %s because of %q", got, test.want, test.why)
			}
		})
	}
}

func carries(c v1alpha1.CarryOver) v1alpha1.DonorSettings {
	return v1alpha1.DonorSettings{CarryOver: c}
}

// TestRecall names the reason of a stored method only if the choice would be the same.
func TestRecall(t *testing.T) {
	method := func(m v1alpha1.CaptureMethod) v1alpha1.PrototypeSpec {
		return v1alpha1.PrototypeSpec{Settings: v1alpha1.Settings{Donor: v1alpha1.DonorSettings{Method: m}}}
	}
	for name, test := range map[string]struct {
		spec    v1alpha1.PrototypeSpec
		canCopy bool
		want    Answer
	}{
		"chosen copy":           {method(v1alpha1.MethodCopy), true, byCopy("Kamino can copy a disk in use in this cloud")},
		"chosen in place":       {method(v1alpha1.MethodInPlace), false, inPlace("Kamino cannot copy a disk in use in this cloud")},
		"named in place":        {method(v1alpha1.MethodInPlace), true, Answer{Method: v1alpha1.MethodInPlace}},
		"named copy":            {method(v1alpha1.MethodCopy), false, Answer{Method: v1alpha1.MethodCopy}},
		"stored before methods": {method(""), true, Answer{Method: v1alpha1.MethodInPlace}},
		"a pioneer": {v1alpha1.PrototypeSpec{Pioneer: &v1alpha1.PioneerSettings{}}, true,
			inPlace("a pioneer is drained for its patch, and captured in place")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Recall(test.spec, test.canCopy); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
