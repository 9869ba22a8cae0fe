package admission

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/selection"
)

// copiedDonor is a case without a refusal whose donor stays in service. Facts about the absence of the donor are missing.
func copiedDonor() *Case {
	c := sound()
	c.Prototype.Spec.Settings.Donor = v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy}
	c.CanCopy, c.CopyRightLacking, c.NoToken = true, Found(""), Found(false)
	c.Pods, c.MayDelete = Lookup[Pods]{}, Lookup[bool]{}
	return c
}

// copiedPioneer is a case without a refusal whose donor is drained for its patch, and copied in service.
func copiedPioneer() *Case {
	c, drained := copiedDonor(), sound()
	c.Prototype.Spec.Pioneer, c.Pods, c.MayDelete = &v1alpha1.PioneerSettings{}, drained.Pods, drained.MayDelete
	return c
}

// withoutAbsence are the problems that a donor in service does not have: all of them are about its absence or its return. Every
// other problem still refuses the capture. withoutReturn are those that also a pioneer by copy does not have.
var (
	withoutReturn  = []string{"a profile whose donors stay away", "a cloud that powers off no nodes"}
	withoutAbsence = append([]string{"no peer", "bare pods", "protected pods", "no force"}, withoutReturn...)
)

// TestWhichReasonsApplyToADonorInService plays each problem of a capture in place.
func TestWhichReasonsApplyToADonorInService(t *testing.T) {
	for name, of := range map[string]struct {
		begin   func() *Case
		without []string
	}{"donor": {copiedDonor, withoutAbsence}, "pioneer": {copiedPioneer, withoutReturn}} {
		var unused []string
		for _, trouble := range maskings {
			t.Run(name+" "+trouble.name, func(t *testing.T) {
				c := of.begin()
				trouble.spoil(c)
				want := []string{trouble.reason}
				if slices.Contains(of.without, trouble.name) {
					want, unused = nil, append(unused, trouble.name)
				}
				v := c.Judge()
				if diff := cmp.Diff(want, reasons(v)); diff != "" || v.Err() != nil {
					t.Errorf("%v, reasons (-want +got):\n%s", v.Err(), diff)
				}
			})
		}
		for _, problem := range of.without {
			if !slices.Contains(unused, problem) {
				t.Errorf("there is no problem %s", problem)
			}
		}
	}
}

// TestWhatACopyNeeds refuses a capture by copy, and no capture in place.
func TestWhatACopyNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		spoil         func(*Case)
		reason, words string
	}{
		"a cloud without copies": {func(c *Case) { c.CanCopy = false }, SettingUnsupported, "in the cloud of node donor: omit settings.donor.method"},
		"no token":               {func(c *Case) { c.NoToken = Found(true) }, BootstrapTokenExpired, "no bootstrap token of the cluster is valid"},
		"no word to the pod": {func(c *Case) { c.CopyRightLacking = Found("patch nodeorders.kamino.dev") }, NotInstalled,
			"Kamino may not patch nodeorders.kamino.dev, which a capture by copy needs: restore the role"},
	} {
		t.Run(name, func(t *testing.T) {
			c := copiedDonor()
			test.spoil(c)
			if v := c.Judge(); !slices.Equal(reasons(v), []string{test.reason}) || !strings.Contains(v.Refusals[0].Message, test.words) {
				t.Errorf("by copy: %+v", v)
			}
			c = sound()
			test.spoil(c)
			if v := c.Judge(); !v.Admitted() {
				t.Errorf("in place: %+v", v)
			}
		})
	}
}

// TestAMissingLookPreventsACopy: each look that a capture by copy needs is reported, and no other look is needed.
func TestAMissingLookPreventsACopy(t *testing.T) {
	absence := []string{"Pods", "MayDelete"}
	away := errors.New("it is away")
	failing := func(c *Case, err error) { c.CopyRightLacking = Unread[string](err) }
	for field := range reflect.TypeFor[Case]().Fields() {
		fail := looks[field.Name]
		if field.Name == "CopyRightLacking" {
			fail = failing
		}
		if !strings.HasPrefix(field.Type.Name(), "Lookup[") {
			continue
		}
		c := copiedDonor()
		fail(c, away)
		if v := c.Judge(); len(v.Refusals) > 0 || errors.Is(v.Err(), away) == slices.Contains(absence, field.Name) {
			t.Errorf("with a failed look at %s: %+v", field.Name, v)
		}
	}
	c := copiedDonor()
	c.Prototype.UID, c.CopyRightLacking = "", Lookup[string]{} // another process may run the capture
	if v := c.Judge(); !v.Admitted() {
		t.Errorf("only thought of: %+v", v)
	}
	c.Process.Drives = true
	if v := c.Judge(); v.Admitted() {
		t.Error("this process would run the capture, and its permissions are unknown")
	}
}

// TestARepeatedCopyReadsOnlyChangingFacts: after the look at the disk, the state of the donor counts, and nothing of the cloud.
func TestARepeatedCopyReadsOnlyChangingFacts(t *testing.T) {
	c := copiedDonor()
	c = &Case{Now: c.Now, Prototype: c.Prototype, Pool: c.Pool, PoolName: c.PoolName, Process: Process{Image: c.Process.Image}, Again: true,
		Queued: c.Queued, Others: c.Others, Donor: c.Donor, PoolNodes: c.PoolNodes}
	if v := c.Judge(); !v.Admitted() {
		t.Errorf("it asks for more: %+v", v)
	}
	onNode(func(n *corev1.Node) { n.Status.Conditions = nil })(c)
	if got := reasons(c.Judge()); !slices.Equal(got, []string{selection.NotReady}) {
		t.Errorf("a donor that is not Ready: %v", got)
	}
}

// TestCopyCost names the machine of the workshop.
func TestCopyCost(t *testing.T) {
	if cost := sound().CopyCost(); cost != nil {
		t.Errorf("in place: %+v", cost)
	}
	for name, test := range map[string]struct {
		change func(*Case)
		want   []string
		never  string
	}{
		"of an unknown type": {func(*Case) {},
			[]string{"no cordon, no eviction, and its disk is frozen", "an instance of the pool's type with"}, "such as"},
		"of the pool's type": {onNode(func(n *corev1.Node) { n.Labels[corev1.LabelInstanceTypeStable] = "m7i.large" }),
			[]string{"an instance of the pool's type, such as m7i.large, with"}, ""},
		"of another type": {func(c *Case) { c.Prototype.Spec.Settings.Donor.WorkshopType = "t3.medium" },
			[]string{"an instance of type t3.medium with"}, "the pool's type"},
		"without a freeze": {func(c *Case) { c.Prototype.Spec.Settings.Donor.Freeze = v1alpha1.FreezeNever },
			[]string{"no cordon, no eviction"}, "frozen"},
		"of a pioneer": {func(c *Case) { c.Prototype.Spec.Pioneer = &v1alpha1.PioneerSettings{} },
			[]string{"of pool pool1 while the patched node serves, and its disk is frozen"}, "no cordon"},
	} {
		c := copiedDonor()
		test.change(c)
		text := strings.Join(c.CopyCost().Sentences("donor", "pool1"), "\n")
		for _, words := range test.want {
			if !strings.Contains(text, words) {
				t.Errorf("%s: %q is missing in:\n%s", name, words, text)
			}
		}
		if test.never != "" && strings.Contains(text, test.never) {
			t.Errorf("%s: %q is in:\n%s", name, test.never, text)
		}
	}
}

// TestCopyCostCountsTheDisk in full GiB: a file system is a little smaller than its disk.
func TestCopyCostCountsTheDisk(t *testing.T) {
	for size, want := range map[string]int64{"": 0, "20893676Ki": 20, "20Gi": 20, "20971521Ki": 21} {
		c := copiedDonor()
		onNode(func(n *corev1.Node) {
			if size != "" {
				n.Status.Capacity = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(size)}
			}
		})(c)
		if got := c.CopyCost().DiskGB; got != want {
			t.Errorf("%q is %d GiB, want %d", size, got, want)
		}
	}
}
