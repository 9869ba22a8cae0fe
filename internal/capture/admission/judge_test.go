package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/selection"
)

// TestRepeatedCaseReadsOnlyChangingFacts: after the look at the disk, only the decision, the captures, the donor and its pods
// count.
func TestRepeatedCaseReadsOnlyChangingFacts(t *testing.T) {
	changing := []string{"Others", "Donor", "PoolNodes", "Pods", "Queued"}
	for _, trouble := range maskings {
		c := sound()
		c.Again = true
		trouble.spoil(c)
		asked := !slices.ContainsFunc(trouble.of, func(of string) bool { return !slices.Contains(changing, of) })
		if v := c.Judge(); asked != (len(v.Refusals) == 1) || !asked && !v.Admitted() {
			t.Errorf("%s: %+v", trouble.name, v)
		}
	}
	bare := sound()
	c := &Case{Now: bare.Now, Prototype: bare.Prototype, Pool: bare.Pool, PoolName: bare.PoolName, Process: Process{Image: bare.Process.Image}, Again: true,
		Queued: bare.Queued, Others: bare.Others, Donor: bare.Donor, PoolNodes: bare.PoolNodes, Pods: bare.Pods, InPlace: true}
	if v := c.Judge(); !v.Admitted() {
		t.Errorf("it asks for more: %+v", v)
	}
}

// TestADonorOfNoPool is refused for that first, and for errors of the decision; no other question follows.
func TestADonorOfNoPool(t *testing.T) {
	p := sound().Prototype
	c := &Case{Now: noon, Prototype: p, Unplaced: "it is alone", Process: Process{Image: "kamino:v1"}}
	if v := c.Judge(); !slices.Equal(reasons(v), []string{NotInPool}) || len(v.Unread) != 0 ||
		!strings.Contains(v.Refusals[0].Message, "supported pool: it is alone") {
		t.Errorf("%+v", v)
	}
	c.Process.Image = ""
	if got := reasons(c.Judge()); !slices.Equal(got, []string{NotInPool, NoImage}) {
		t.Errorf("%v", got)
	}
}

// TestUnneededLookupsMayBeMissing: each of these looks may be missing without its question.
func TestUnneededLookupsMayBeMissing(t *testing.T) {
	for name, leave := range map[string]func(*Case){
		"no rules are named": func(c *Case) { c.Prototype.Spec.Settings.Generalize.Rules, c.Rules = "", Lookup[Rules]{} },
		"no copy is named": func(c *Case) {
			c.Prototype.Spec.Settings.Recipe.CustomDataFrom, c.CustomData = nil, Lookup[CustomData]{}
		},
		"nothing is forced": func(c *Case) { c.Prototype.Spec.Settings.Drain.Force, c.MayDelete = false, Lookup[bool]{} },
		"only thought of": func(c *Case) {
			c.Prototype.UID, c.MayDelete = "", Lookup[bool]{}
		},
		"it has to wait": func(c *Case) {
			c.Queued, c.RightLacking, c.OrderRefused, c.PodRefused = Found(true), Lookup[string]{}, Lookup[string]{}, Lookup[string]{}
		},
		"the copy is useless": func(c *Case) { r := cloud.Refuse("X", "y", "z"); c.CustomData = Found(CustomData{Missing: &r}) },
		"its own image":       func(c *Case) { c.Prototype.Spec.Settings.Generalize.Image = c.Process.Image },
		"an image that this process allows": func(c *Case) {
			c.Process.AllowedImages = []string{"ghcr.io/us/"}
			c.Prototype.Spec.Settings.Generalize.Image = "ghcr.io/us/kamino:v2"
		},
		"another rebooter is allowed": func(c *Case) {
			c.Prototype.Spec.Pioneer, c.Pods = &v1alpha1.PioneerSettings{OtherRebooters: v1alpha1.OtherRebootersAllow}, Found(Pods{Rebooter: "kube-system/kured"})
		},
		"another rebooter without a pioneer": func(c *Case) { c.Pods = Found(Pods{Rebooter: "kube-system/kured"}) },
		"pods may go": func(c *Case) {
			c.Prototype.Spec.Settings.Drain.Disrupt = true
			c.Pods = Found(Pods{Protected: []string{"a"}})
		},
	} {
		c := sound()
		leave(c)
		if v := c.Judge(); !v.Admitted() {
			t.Errorf("%s: %+v", name, v)
		}
	}
	c := sound()
	c.Prototype.UID, c.Process.Drives, c.MayDelete = "", true, Found(false)
	if got := reasons(c.Judge()); !slices.Equal(got, []string{NotAllowed}) {
		t.Errorf("other client: %v", got)
	}
	c = sound()
	c.Account, c.RightLacking, c.OrderRefused, c.PodRefused = Found(false), Lookup[string]{}, Lookup[string]{}, Lookup[string]{}
	if v := c.Judge(); !slices.Equal(reasons(v), []string{NotInstalled}) || len(v.Unread) != 0 {
		t.Errorf("without an account nothing is asked of it: %+v", v)
	}
}

// TestBothKindsOfPods are reported, pods that cannot be evicted first.
func TestBothKindsOfPods(t *testing.T) {
	c := sound()
	c.Pods = Found(Pods{Stuck: []string{"a"}, Protected: []string{"b"}})
	if got := reasons(c.Judge()); !slices.Equal(got, []string{UnmanagedPods, selection.DoNotDisrupt}) {
		t.Errorf("%v", got)
	}
}

// TestPoolReasonIsReportedOnce by the preflight; a further reason of the pool is added.
func TestPoolReasonIsReportedOnce(t *testing.T) {
	c := sound()
	c.Cloud = Found([]cloud.Refusal{cloud.Refuse("A", "said by the preflight", "x")})
	c.Recipe = Found(cloud.Pool{Refusals: []cloud.Refusal{cloud.Refuse("A", "said by the pool", "x"), cloud.Refuse("B", "said by the pool", "x")}})
	v := c.Judge()
	if !slices.Equal(reasons(v), []string{"A", "B"}) || !strings.HasPrefix(v.Refusals[0].Message, "said by the preflight") {
		t.Errorf("%+v", v)
	}
	if reported, _ := c.Cloud.Get(); len(reported) != 1 {
		t.Errorf("the case was changed: %+v", reported)
	}
}

func TestNewestVersionMayBeMadeAgain(t *testing.T) {
	for current, refused := range map[string]bool{"": false, "2026.03.13": false, "2026.03.14": false, "2026.03.1402": true, "2026.03.15": true} {
		c := sound()
		c.Recipe = Found(cloud.Pool{Recipe: cloud.Recipe{Version: current}})
		if v := c.Judge(); v.Admitted() == refused {
			t.Errorf("the recipe names %q: %+v", current, v)
		}
	}
}

// TestImages: a pool near its limit is reported, a pool at its limit is refused.
func TestImages(t *testing.T) {
	for n := range 11 {
		c := sound()
		c.Images = Found(crowd(n))
		refused := slices.Equal(reasons(c.Judge()), []string{imagecount.TooManyImages})
		if refused != (n >= 9) || (c.ImageLimitWarning() != "") != (n >= 7) {
			t.Errorf("%d images: refused %t, crowded %q", n, refused, c.ImageLimitWarning())
		}
	}
	if got := (Images{}).name("memory:///1"); got != "memory:///1" {
		t.Errorf("an instance without a node is %s", got)
	}
}

// TestTheDayOfAVersion may be the day of the decision, the day before, or the day after, for all time zones.
func TestTheDayOfAVersion(t *testing.T) {
	for version, fine := range map[string]bool{
		"2026.03.11": false, "2026.03.12": false, "2026.03.13": true, "2026.03.14": true, "2026.03.1402": true, "2026.03.15": true, "2026.03.16": false, "": false, "14": false,
	} {
		c := sound()
		c.Prototype.Spec.Version = version
		if got := len(c.Judge().Refusals) == 0; got != fine {
			t.Errorf("version %q: %t", version, got)
		}
	}
}

func TestClocks(t *testing.T) {
	for age, reason := range map[time.Duration]string{
		0: "", -5 * time.Minute: "", -5*time.Minute - time.Second: ClockOff, 24 * time.Hour: "", 24*time.Hour + time.Second: VersionOutOfOrder,
	} {
		c := sound()
		c.Prototype.CreationTimestamp = metav1.NewTime(noon.Add(-age))
		if got := strings.Join(reasons(c.Judge()), " "); got != reason {
			t.Errorf("decided %s ago: %q, want %q", age, got, reason)
		}
		if age < 0 || age > time.Hour {
			continue
		}
		c.Prototype.CreationTimestamp = metav1.Time{}
		if !c.Judge().Admitted() {
			t.Error("one that is only thought of is refused")
		}
	}
	for ahead, fine := range map[time.Duration]bool{0: true, 5 * time.Minute: true, -5 * time.Minute: true, 5*time.Minute + 1: false, -5*time.Minute - 1: false} {
		c := sound()
		c.ClockAhead = Found(ahead)
		if c.Judge().Admitted() != fine {
			t.Errorf("a donor that is %s ahead", ahead)
		}
	}
}

// TestOthers: an older running capture of the same pool is an obstacle, or a capture that made this version. If the pool of
// a Prototype is unknown, the name counts.
func TestOthers(t *testing.T) {
	const mine, not = "memory:///pool1", "memory:///elsewhere/pool1"
	for _, c := range []struct {
		other  OtherCapture
		reason string
	}{
		{theirs("a", mine, "2026.03.13", v1alpha1.PhasePublishing, time.Hour), CaptureInFlight},
		{theirs("a", mine, "2026.03.13", "", time.Hour), CaptureInFlight},
		{theirs("a", mine, "2026.03.13", v1alpha1.PhaseFailed, time.Hour), ""},
		{theirs("a", mine, "2026.03.13", v1alpha1.PhaseSucceeded, time.Hour), ""},
		{theirs("a", mine, "2026.03.14", v1alpha1.PhaseSucceeded, time.Hour), CapturedToday},
		{theirs("a", mine, "2026.03.14", v1alpha1.PhaseFailed, time.Hour), ""},
		{theirs("a", mine, "2026.03.14", v1alpha1.PhaseDraining, -time.Hour), ""},
		{theirs("a", mine, "2026.03.14", v1alpha1.PhaseDraining, 0), CaptureInFlight},
		{theirs("z", mine, "2026.03.14", v1alpha1.PhaseDraining, 0), ""},
		{theirs("a", not, "2026.03.14", v1alpha1.PhaseDraining, time.Hour), ""},
		{theirs("a", not, "2026.03.14", v1alpha1.PhaseSucceeded, time.Hour), ""},
		{theirs("a", "", "2026.03.14", v1alpha1.PhaseDraining, time.Hour), CaptureInFlight},
	} {
		k := sound()
		k.Others = Found([]OtherCapture{c.other})
		if got := strings.Join(reasons(k.Judge()), " "); got != c.reason {
			t.Errorf("%+v: %q, want %q", c.other.Prototype, got, c.reason)
		}
	}
	k := sound()
	k.Prototype.CreationTimestamp = metav1.Time{}
	k.Others = Found([]OtherCapture{theirs("z", mine, "2026.03.14", "", -time.Hour)})
	if got := reasons(k.Judge()); !slices.Equal(got, []string{CaptureInFlight}) {
		t.Errorf("one that is not created yet is the youngest: %v", got)
	}
	unnamed := theirs("a", "", "2026.03.14", "", time.Hour)
	unnamed.Prototype.Spec.Pool = "pool2"
	k = sound()
	k.Others = Found([]OtherCapture{unnamed})
	if !k.Judge().Admitted() {
		t.Error("one of another name is in the way")
	}
}

// TestAStrangerOfANodeHidesTheCloud: for another donor than the decided donor, no question about pods and the cloud
// follows.
func TestAStrangerOfANodeHidesTheCloud(t *testing.T) {
	for _, stray := range maskings {
		if !stray.strays {
			continue
		}
		bare := sound()
		c := &Case{Now: noon, Prototype: bare.Prototype, Pool: bare.Pool, PoolName: bare.PoolName, Process: Process{Image: bare.Process.Image},
			Queued: bare.Queued, Others: bare.Others, Donor: bare.Donor, PoolNodes: bare.PoolNodes, InPlace: true}
		stray.spoil(c)
		if v := c.Judge(); !slices.Equal(reasons(v), []string{stray.reason}) || len(v.Unread) != 0 {
			t.Errorf("%s: %+v", stray.name, v)
		}
	}
}

func TestAboutNode(t *testing.T) {
	for reason, want := range map[string]bool{
		NodeNotFound: true, DonorClockOff: true, UnmanagedPods: true, selection.DoNotDisrupt: true, selection.NotReady: true,
		VersionOutOfOrder: false, NoImage: false, NotInstalled: false, NotInPool: false, "QuotaExceeded": false, imagecount.TooManyImages: false,
	} {
		if AboutNode(reason) != want || AnotherMayDo([]cloud.Refusal{cloud.Refuse(NoImage, "a", "b"), cloud.Refuse(reason, "a", "b")}) != want {
			t.Errorf("%s speaks of one node: %t", reason, !want)
		}
	}
	if AnotherMayDo(nil) {
		t.Error("nothing is refused")
	}
}

// without runs a test with other questions.
func without(t *testing.T, wrong []func(*Case) ([]cloud.Refusal, error), do func()) {
	t.Helper()
	right := questions
	questions = wrong
	defer func() { questions = right }()
	do()
}

// TestNoQuestionIsIdle: without any one question, an obstacle passes, or a missing look stays unnoticed.
func TestNoQuestionIsIdle(t *testing.T) {
	for i := range questions {
		without(t, slices.Delete(slices.Clone(questions), i, i+1), func() {
			missed := 0
			for _, trouble := range maskings {
				c := sound()
				trouble.spoil(c)
				if c.Judge().Admitted() {
					missed++
				}
			}
			for _, fail := range looks {
				c := sound()
				fail(c, errors.New("it is away"))
				if c.Judge().Admitted() {
					missed++
				}
			}
			if missed == 0 {
				t.Errorf("without question %d all is found", i)
			}
		})
	}
}

// TestOrderOfQuestions: an exchange of any two neighbouring questions changes the order of display.
func TestOrderOfQuestions(t *testing.T) {
	for i := range len(questions) - 2 { // the last one, whose turn it is, refuses nothing
		wrong := slices.Clone(questions)
		wrong[i], wrong[i+1] = wrong[i+1], wrong[i]
		without(t, wrong, func() {
			if found, _ := disordered(); len(found) == 0 {
				t.Errorf("questions %d and %d may change places", i, i+1)
			}
		})
	}
}

// TestStrayed: only known facts make a donor stray.
func TestStrayed(t *testing.T) {
	donor, away := readyNode("donor"), errors.New("it is away")
	here := Found(PoolNodes{Of: cloud.Membership{Pool: "memory:///pool1"}})
	elsewhere := Found(PoolNodes{Of: cloud.Membership{Pool: "memory:///pool2"}})
	for name, c := range map[string]struct {
		donor  Lookup[Donor]
		around Lookup[PoolNodes]
		want   bool
	}{
		"no look":                    {want: false},
		"no look possible":           {Unread[Donor](away), Unread[PoolNodes](away), false},
		"there":                      {Found(Donor{Node: &donor}), here, false},
		"there, place unknown":       {Found(Donor{Node: &donor}), Unread[PoolNodes](away), false},
		"there, place not looked at": {Found(Donor{Node: &donor}), Lookup[PoolNodes]{}, false},
		"elsewhere":                  {Found(Donor{Node: &donor}), elsewhere, true},
		"elsewhere, and unread":      {Unread[Donor](away), elsewhere, true},
		"gone":                       {Found(Donor{}), Lookup[PoolNodes]{}, true},
		"gone, and once in the pool": {Found(Donor{}), here, true},
		"another":                    {Found(Donor{Node: &donor, Replaced: true}), here, true},
		"another, place unknown":     {Found(Donor{Node: &donor, Replaced: true}), Unread[PoolNodes](away), true},
	} {
		k := sound()
		k.Donor, k.PoolNodes = c.donor, c.around
		if got := k.Strayed(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestSeen(t *testing.T) {
	away := errors.New("it is away")
	if value, err := Found(7).Get(); value != 7 || err != nil {
		t.Errorf("%d %v", value, err)
	}
	if _, err := Unread[int](away).Get(); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	if _, err := (Lookup[int]{}).Get(); !errors.Is(err, errNotLooked) {
		t.Errorf("%v", err)
	}
	if value, err := LookupOf(7, nil).Get(); value != 7 || err != nil {
		t.Errorf("%d %v", value, err)
	}
	if value, err := LookupOf(7, away).Get(); value != 0 || !errors.Is(err, away) {
		t.Errorf("of a look that failed %d is believed, and %v", value, err)
	}
}

// TestVerdicts: unread facts do not change refusals, and are available next to the refusals.
func TestVerdicts(t *testing.T) {
	refused, away := []cloud.Refusal{cloud.Refuse("A", "b", "c")}, errors.New("it is away")
	for name, c := range map[string]struct {
		verdict  Verdict
		admitted bool
		err      string
		trouble  string
	}{
		"nothing":           {Verdict{}, true, "", ""},
		"refused":           {Verdict{Refusals: refused}, false, "", ""},
		"unread":            {Verdict{Unread: []error{away}}, false, "it is away", "it is away"},
		"twice unread":      {Verdict{Unread: []error{away, errors.New("so is that")}}, false, "it is away; so is that", "it is away; so is that"},
		"unread, refused":   {Verdict{Refusals: refused, Unread: []error{away}}, false, "", "it is away"},
		"unread, refused 2": {Verdict{Refusals: refused, Unread: []error{away, away}}, false, "", "it is away; it is away"},
	} {
		said := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		if v := c.verdict; v.Admitted() != c.admitted || said(v.Err()) != c.err || said(v.Trouble()) != c.trouble {
			t.Errorf("%s: admitted %t, %v, %v", name, v.Admitted(), v.Err(), v.Trouble())
		}
	}
}
