package admission

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/selection"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func readyNode(name string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{ProviderID: "memory:///" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// sound is a case without a refusal, with settings that need every question.
func sound() *Case {
	donor := readyNode("donor")
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.14", UID: "uid", CreationTimestamp: metav1.NewTime(noon)}}
	p.Spec = v1alpha1.PrototypeSpec{
		Pool:    "pool1",
		PoolID:  "memory:///pool1",
		Version: "2026.03.14",
		Donor:   v1alpha1.Donor{NodeName: "donor", ProviderID: donor.Spec.ProviderID},
	}
	p.Spec.Settings = p.Spec.Settings.Defaulted()
	p.Spec.Settings.Generalize.Rules = "ours"
	p.Spec.Settings.Drain.Force = true
	p.Spec.Settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: "copy"}
	return &Case{
		Now: noon, Prototype: p, Pool: "memory:///pool1", PoolName: "pool1",
		Process: Process{Image: "kamino:v1", Namespace: "ours", OwnNode: "elsewhere"},
		Queued:  Found(false), Others: Found[[]OtherCapture](nil), Donor: Found(Donor{Node: &donor}),
		PoolNodes: Found(PoolNodes{Of: cloud.Membership{Pool: "memory:///pool1"}, OfName: "pool1", Peers: []corev1.Node{readyNode("peer")}}),
		Pods:      Found(Pods{}), ClockAhead: Found(time.Duration(0)), BuiltFrom: Found(cloud.Image{}),
		Account: Found(true), RightLacking: Found(""), OrderRefused: Found(""), PodRefused: Found(""),
		Rules: Found(
			Rules{},
		), CustomData: Found(CustomData{}), MayDelete: Found(true), InPlace: true,
		Cloud: Found[[]cloud.Refusal](nil), Recipe: Found(cloud.Pool{ID: "memory:///pool1"}), Images: Found(Images{}),
	}
}

// looks fail a look of a case, by the field.
var looks = map[string]func(*Case, error){
	"Queued":       func(c *Case, err error) { c.Queued = Unread[bool](err) },
	"Others":       func(c *Case, err error) { c.Others = Unread[[]OtherCapture](err) },
	"Donor":        func(c *Case, err error) { c.Donor = Unread[Donor](err) },
	"PoolNodes":    func(c *Case, err error) { c.PoolNodes = Unread[PoolNodes](err) },
	"Pods":         func(c *Case, err error) { c.Pods = Unread[Pods](err) },
	"ClockAhead":   func(c *Case, err error) { c.ClockAhead = Unread[time.Duration](err) },
	"BuiltFrom":    func(c *Case, err error) { c.BuiltFrom = Unread[cloud.Image](err) },
	"Account":      func(c *Case, err error) { c.Account = Unread[bool](err) },
	"RightLacking": func(c *Case, err error) { c.RightLacking = Unread[string](err) },
	"OrderRefused": func(c *Case, err error) { c.OrderRefused = Unread[string](err) },
	"PodRefused":   func(c *Case, err error) { c.PodRefused = Unread[string](err) },
	"Rules":        func(c *Case, err error) { c.Rules = Unread[Rules](err) },
	"CustomData":   func(c *Case, err error) { c.CustomData = Unread[CustomData](err) },
	"MayDelete":    func(c *Case, err error) { c.MayDelete = Unread[bool](err) },
	"Cloud":        func(c *Case, err error) { c.Cloud = Unread[[]cloud.Refusal](err) },
	"Recipe":       func(c *Case, err error) { c.Recipe = Unread[cloud.Pool](err) },
	"NoToken":      func(c *Case, err error) { c.NoToken = Unread[bool](err) },
	"Images":       func(c *Case, err error) { c.Images = Unread[Images](err) },
}

// masking is one problem.
type masking struct {
	name string
	// reason of the only refusal, and words of its message.
	reason, words string
	spoil         func(*Case)
	// of are the looks that show the problem.
	of []string
	// strays: the donor is gone or in another pool, so that no further question about the donor follows.
	strays bool
	// alone hides later problems with the same word.
	alone string
}

func inSurroundings(change func(*PoolNodes)) func(*Case) {
	return func(c *Case) {
		around, _ := c.PoolNodes.Get()
		change(&around)
		c.PoolNodes = Found(around)
	}
}

func onNode(change func(*corev1.Node)) func(*Case) {
	return func(c *Case) {
		donor, _ := c.Donor.Get()
		n := donor.Node.DeepCopy()
		change(n)
		c.Donor = Found(Donor{Node: n})
	}
}

func crowd(n int) Images {
	s := imagecount.Count{Limit: 10}
	for i := range n {
		s.Images = append(s.Images, imagecount.Image{Name: string(rune('a' + i)), Instances: []cloud.InstanceID{"memory:///0"}, Count: 1})
	}
	return Images{Spread: s, Names: map[cloud.InstanceID]string{"memory:///0": "oldest"}}
}

func theirs(name, pool, version string, phase v1alpha1.Phase, age time.Duration) OtherCapture {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
	p.Spec.Pool, p.Spec.Version, p.Status.Phase = "pool1", version, phase
	return OtherCapture{Prototype: p, Pool: cloud.PoolID(pool)}
}

// maskings are all possible refusals of a case, in the order of display.
var maskings = []masking{
	{
		name: "yesterday's version", reason: VersionOutOfOrder,
		words: "version 2026.03.11 is not of today (2026.03.14): remove the version",
		spoil: func(c *Case) { c.Prototype.Spec.Version = "2026.03.11" },
	},
	{
		name: "no version", reason: VersionOutOfOrder,
		words: "version tomorrow is not of today",
		spoil: func(c *Case) { c.Prototype.Spec.Version = "tomorrow" },
		alone: "version",
	},
	{
		name: "a clock behind", reason: ClockOff,
		words: "the clock of this process is 6m0s behind the clock of the API server: correct the clock",
		spoil: func(c *Case) { c.Prototype.CreationTimestamp = metav1.NewTime(noon.Add(6 * time.Minute)) },
	},
	{
		name: "left alone", reason: VersionOutOfOrder,
		words: "prototype pool1-2026.03.14 was created 26h0m0s ago and never started: delete the prototype",
		spoil: func(c *Case) { c.Prototype.CreationTimestamp = metav1.NewTime(noon.Add(-26 * time.Hour)) },
		alone: "clock",
	},
	{
		name: "a profile whose donors stay away", reason: SettingUnsupported,
		words: "would delete the credential with which it joins (profile bootstrap): omit settings.donor.method",
		spoil: func(c *Case) { c.Prototype.Spec.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap },
	},
	{
		name: "a cloud that powers off no nodes", reason: SettingUnsupported,
		words: "Kamino does not power off nodes in the cloud of node donor: omit settings.donor.method",
		spoil: func(c *Case) { c.InPlace = false },
	},
	{
		name: "a setting of another cloud", reason: SettingUnsupported,
		words: "settings.azure is a setting of another cloud, not of the cloud of node donor",
		spoil: func(c *Case) { c.Prototype.Spec.Settings.Azure = &v1alpha1.AzureSettings{Replicas: new(int32)} },
	},
	{
		name: "no image", reason: NoImage,
		words: "podman build",
		spoil: func(c *Case) { c.Process.Image = "" },
	},
	{
		name: "an image of theirs", reason: NotAllowed,
		words: "is evil:v1 and would run as root on node donor, but only Kamino's own image (kamino:v1)",
		spoil: func(c *Case) { c.Prototype.Spec.Settings.Generalize.Image = "evil:v1" },
		alone: "image",
	},
	{
		name: "captured today", reason: CapturedToday,
		words: "by prototype other: the default is one version per day: try again tomorrow (UTC), or set --version 2026.03.1402",
		of:    []string{"Others"},
		spoil: func(c *Case) {
			c.Others = Found([]OtherCapture{theirs("other", "memory:///pool1", c.Prototype.Spec.Version, v1alpha1.PhaseSucceeded, 0)})
		},
	},
	{
		name: "in flight", reason: CaptureInFlight,
		words: "prototype other is capturing pool pool1: wait for the end of the capture, or delete the prototype",
		of:    []string{"Others"},
		alone: "others",
		spoil: func(c *Case) {
			c.Others = Found([]OtherCapture{theirs("other", "", "2026.03.13", v1alpha1.PhasePublishing, time.Hour)})
		},
	},
	{
		name: "no such node", reason: NodeNotFound,
		words:  "node donor not found: run `kubectl get nodes`",
		of:     []string{"Donor"},
		strays: true,
		spoil:  func(c *Case) { c.Donor = Found(Donor{}) },
	},
	{
		name: "another instance", reason: NodeNotFound,
		words:  "node donor is now instance memory:///new, not memory:///donor",
		of:     []string{"Donor"},
		strays: true,
		alone:  "donor",
		spoil: func(c *Case) {
			n := readyNode("donor")
			n.Spec.ProviderID = "memory:///new"
			c.Donor = Found(Donor{Node: &n, Replaced: true})
		},
	},
	{
		name: "gone meanwhile", reason: NodeNotFound,
		words:  "node donor no longer exists",
		of:     []string{"Donor", "PoolNodes"},
		strays: true,
		alone:  "donor",
		spoil:  inSurroundings(func(s *PoolNodes) { s.Of = cloud.Membership{} }),
	},
	{
		name: "of no pool", reason: NotInPool,
		words:  "belongs to no supported pool: it is alone; choose",
		of:     []string{"Donor", "PoolNodes"},
		strays: true,
		alone:  "donor",
		spoil:  inSurroundings(func(s *PoolNodes) { s.Of = cloud.Membership{Why: "it is alone"} }),
	},
	{
		name: "of another pool", reason: NotInPool,
		words:  "node donor is in pool pool2 (memory:///pool2), but spec.poolID is memory:///pool1",
		of:     []string{"Donor", "PoolNodes"},
		strays: true,
		alone:  "donor",
		spoil:  inSurroundings(func(s *PoolNodes) { s.Of, s.OfName = cloud.Membership{Pool: "memory:///pool2"}, "pool2" }),
	},
	{
		name: "of another name", reason: NotInPool,
		words: "node donor is in pool blue, not in pool1",
		of:    []string{"Donor", "PoolNodes"},
		alone: "donor",
		spoil: inSurroundings(func(s *PoolNodes) { s.OfName = "blue" }),
	},
	{
		name: "not Ready", reason: selection.NotReady,
		words: "node donor is not Ready",
		of:    []string{"Donor", "PoolNodes"},
		alone: "donor",
		spoil: onNode(func(n *corev1.Node) { n.Status.Conditions = nil }),
	},
	{
		name: "no peer", reason: selection.OnlyReadyNode,
		words: "the only Ready and schedulable node of pool pool1",
		of:    []string{"Donor", "PoolNodes"},
		alone: "donor",
		spoil: inSurroundings(func(s *PoolNodes) { s.Peers = nil }),
	},
	{
		name: "bare pods", reason: UnmanagedPods,
		words: "node donor cannot be drained: a; b; delete these pods",
		of:    []string{"Pods"},
		spoil: func(c *Case) { c.Pods = Found(Pods{Stuck: []string{"a", "b"}}) },
	},
	{
		name: "protected pods", reason: selection.DoNotDisrupt,
		words: "pods of node donor must not be evicted: a, b; choose",
		of:    []string{"Pods"},
		alone: "pods",
		spoil: func(c *Case) { c.Pods = Found(Pods{Protected: []string{"a", "b"}}) },
	},
	{
		name: "a donor ahead", reason: DonorClockOff,
		words: "the clock of node donor is 6m0s ahead of the API server's",
		of:    []string{"ClockAhead"},
		spoil: func(c *Case) { c.ClockAhead = Found(6 * time.Minute) },
	},
	{
		name: "a donor behind", reason: DonorClockOff,
		words: "the clock of node donor is 7m0s behind the API server's",
		of:    []string{"ClockAhead"},
		alone: "ahead",
		spoil: func(c *Case) { c.ClockAhead = Found(-7 * time.Minute) },
	},
	{
		name: "a bad ancestor", reason: history.BuiltFromQuarantined,
		words: "node donor was built from the quarantined version 2026.03.01 (panics)",
		of:    []string{"BuiltFrom"},
		spoil: func(c *Case) {
			c.BuiltFrom = Found(
				cloud.Image{ImageRef: cloud.ImageRef{Version: "2026.03.01"}, Version: "2026.03.01", Tags: map[string]string{cloud.TagQuarantined: "panics"}})
		},
	},
	{
		name: "no account", reason: NotInstalled,
		words: "service account kamino-generalize not found in namespace ours",
		of:    []string{"Account"},
		spoil: func(c *Case) { c.Account = Found(false) },
		alone: "account",
	},
	{
		name: "no right", reason: NotInstalled,
		words: "service account ours/kamino-generalize of the generalize pod may not get nodeorders in its namespace",
		of:    []string{"Account", "RightLacking"},
		spoil: func(c *Case) { c.RightLacking = Found("get nodeorders") },
	},
	{
		name: "no orders", reason: NotInstalled,
		words: "rejects NodeOrders for the generalize pod in namespace ours: no such kind. Install",
		of:    []string{"Account", "OrderRefused"},
		spoil: func(c *Case) { c.OrderRefused = Found("no such kind") },
	},
	{
		name: "no entry", reason: NotInstalled,
		words: "rejects the generalize pod in namespace ours: restricted; fix the named cause",
		of:    []string{"Account", "PodRefused"},
		spoil: func(c *Case) { c.PodRefused = Found("restricted") },
	},
	{
		name: "no rules", reason: RulesInvalid,
		words: "ConfigMap ours/ours of settings",
		of:    []string{"Rules"},
		spoil: func(c *Case) { c.Rules = Found(Rules{Missing: true}) },
	},
	{
		name: "wrong rules", reason: RulesInvalid,
		words: "the rules in ConfigMap ours/ours are invalid: line 1; run",
		of:    []string{"Rules"},
		alone: "rules",
		spoil: func(c *Case) { c.Rules = Found(Rules{Wrong: "line 1"}) },
	},
	{
		name: "no copy", reason: cloud.CustomDataUnusable,
		words: "there is no Secret: create it, or remove the setting",
		of:    []string{"CustomData"},
		spoil: func(c *Case) {
			missing := cloud.Refuse(cloud.CustomDataUnusable, "there is no Secret", "create it")
			c.CustomData = Found(CustomData{Missing: &missing, Needed: true})
		},
	},
	{
		name: "no copy, but another Secret", reason: cloud.CustomDataUnusable,
		words: "it could be any Secret: label it, or remove the setting",
		of:    []string{"CustomData"},
		spoil: func(c *Case) {
			other := cloud.Refuse(cloud.CustomDataUnusable, "it could be any Secret", "label it")
			c.CustomData = Found(CustomData{Missing: &other, Needed: true})
		},
	},
	{
		name: "no force", reason: NotAllowed,
		words: "Kamino may not delete pods",
		of:    []string{"MayDelete"},
		spoil: func(c *Case) { c.MayDelete = Found(false) },
	},
	{
		name: "kured on the node of a pioneer", reason: OtherRebooter,
		words: "DaemonSet kube-system/kured also reboots node donor: keep the DaemonSet off the pool",
		of:    []string{"Pods"},
		alone: "pods",
		spoil: func(c *Case) {
			c.Prototype.Spec.Pioneer, c.Pods = &v1alpha1.PioneerSettings{}, Found(Pods{Rebooter: "kube-system/kured"})
		},
	},
	{
		name: "no instance", reason: NodeNotFound,
		words: "the cloud has no instance for node donor: ",
		of:    []string{"Cloud"},
		alone: "cloud",
		spoil: func(c *Case) { c.Cloud = Unread[[]cloud.Refusal](&cloud.Error{Kind: cloud.NotFound, Message: "gone"}) },
	},
	{
		name: "no cloud of its", reason: NodeNotFound,
		words: "the cloud has no instance for node donor: ",
		of:    []string{"Cloud"},
		alone: "cloud",
		spoil: func(c *Case) {
			c.Cloud = Unread[[]cloud.Refusal](&cloud.Error{Kind: cloud.Unsupported, Message: "theirs"})
		},
	},
	{
		name: "the cloud refuses", reason: "QuotaExceeded",
		words: "the quota is used up",
		of:    []string{"Cloud"},
		spoil: func(c *Case) {
			c.Cloud = Found([]cloud.Refusal{cloud.Refuse("QuotaExceeded", "the quota is used up", "ask for more")})
		},
	},
	{
		name: "the pool refuses", reason: "PoolRolls",
		words: "the pool rolls",
		of:    []string{"Cloud", "Recipe"},
		spoil: func(c *Case) {
			pool, _ := c.Recipe.Get()
			pool.Refusals = []cloud.Refusal{cloud.Refuse("PoolRolls", "the pool rolls", "hold it")}
			c.Recipe = Found(pool)
		},
	},
	{
		name: "a newer recipe", reason: VersionOutOfOrder,
		words: "the recipe of pool pool1 names version 2026.03.1402, newer than",
		of:    []string{"Cloud", "Recipe"},
		spoil: func(c *Case) {
			pool, _ := c.Recipe.Get()
			pool.Recipe.Version = "2026.03.1402"
			c.Recipe = Found(pool)
		},
	},
	{
		name: "too many images", reason: imagecount.TooManyImages,
		words: "The oldest image is image a, on oldest: rebuild",
		of:    []string{"Cloud", "Recipe", "Images"},
		spoil: func(c *Case) { c.Images = Found(crowd(9)) },
	},
}

// hides reports whether a problem hides the other problem, because both concern one thing.
func (s masking) hides(other masking) bool {
	return s.strays && slices.ContainsFunc(append(other.of, s.of...), func(of string) bool { return of != "Others" && slices.Contains(append(other.of, ""), of) }) ||
		s.reason == SettingUnsupported && other.reason == SettingUnsupported && s.name != "a setting of another cloud" && other.name != "a setting of another cloud" ||
		s.alone == "cloud" && slices.Contains(other.of, "Cloud") ||
		s.alone == "account" && slices.Contains(other.of, "Account")
}

func reasons(v Verdict) (list []string) {
	for _, r := range v.Refusals {
		list = append(list, r.Reason)
	}
	return list
}

func TestASoundCaseIsAdmitted(t *testing.T) {
	if v := sound().Judge(); !v.Admitted() || v.Err() != nil || len(v.Refusals) != 0 {
		t.Errorf("%+v", v)
	}
	if sound().ImageLimitWarning() != "" || sound().Strayed() {
		t.Error("it is crowded, or has strayed")
	}
}

// TestEachRefusalAlone has one refusal with its reason, its message and the remedy.
func TestEachRefusalAlone(t *testing.T) {
	for _, trouble := range maskings {
		t.Run(trouble.name, func(t *testing.T) {
			c := sound()
			trouble.spoil(c)
			v := c.Judge()
			if len(v.Refusals) != 1 || v.Refusals[0].Reason != trouble.reason || !strings.Contains(v.Refusals[0].Message, trouble.words) {
				t.Fatalf("%+v, want %s: %s", v, trouble.reason, trouble.words)
			}
			if v.Refusals[0].Remedy == "" || v.Admitted() || v.Err() != nil {
				t.Errorf("no remedy, or not refused: %+v", v)
			}
			if c.Strayed() != trouble.strays {
				t.Errorf("strayed: %t", c.Strayed())
			}
		})
	}
}

// TestTheOrder: of any two simultaneous problems, both are reported, in the order of the list.
func TestTheOrder(t *testing.T) {
	wrong, pairs := disordered()
	for _, found := range wrong {
		t.Error(found)
	}
	if pairs < 250 {
		t.Errorf("only %d pairs", pairs)
	}
}

// disordered are the pairs in a wrong order, of all possible pairs.
func disordered() (wrong []string, pairs int) {
	for i, one := range maskings {
		for _, two := range maskings[i+1:] {
			alone := two.alone == "" || one.alone == "" && !slices.ContainsFunc(one.of, func(of string) bool { return slices.Contains(two.of, of) })
			if !alone || two.alone != "" || one.hides(two) || two.hides(one) || two.masks(one) {
				continue
			}
			pairs++
			c := sound()
			one.spoil(c)
			two.spoil(c)
			if got := c.Judge().Refusals; len(got) != 2 || !one.is(got[0], two) || !two.is(got[1], one) {
				wrong = append(wrong, fmt.Sprintf("%s, and %s: %+v", one.name, two.name, got))
			}
		}
	}
	return wrong, pairs
}

// is reports whether the refusal is that of the problem, and not that of the other problem.
func (s masking) is(r cloud.Refusal, other masking) bool {
	return r.Reason == s.reason && (s.reason != other.reason || strings.Contains(r.Message, s.words))
}

// masks reports whether a problem overwrites another problem.
func (s masking) masks(other masking) bool {
	last := func(of []string) string {
		if len(of) == 0 {
			return ""
		}
		return of[len(of)-1]
	}
	return last(s.of) != "" && last(s.of) == last(other.of) && last(s.of) != "Recipe"
}

// TestMissingLookupPreventsCapture: a missing or failed look prevents the capture, and is reported once.
func TestMissingLookupPreventsCapture(t *testing.T) {
	kind := reflect.TypeFor[Case]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		if !strings.HasPrefix(kind.Field(i).Type.Name(), "Lookup[") {
			continue
		}
		if name == "CopyRightLacking" || name == "NoToken" {
			continue // TestAMissingLookPreventsACopy
		}
		if looks[name] == nil {
			t.Fatalf("no test makes look %s fail", name)
		}
		c := sound()
		reflect.ValueOf(c).Elem().Field(i).SetZero()
		if v := c.Judge(); v.Admitted() || len(v.Unread) != 1 || !strings.HasSuffix(v.Err().Error(), errNotLooked.Error()) ||
			v.Err().Error() == errNotLooked.Error() {
			t.Errorf("without a look at %s: %+v", name, v)
		}
		c, away := sound(), errors.New("it is away")
		looks[name](c, away)
		if v := c.Judge(); v.Admitted() || len(v.Refusals) != 0 || len(v.Unread) != 1 || !errors.Is(v.Err(), away) {
			t.Errorf("with a failed look at %s: %+v", name, v)
		}
	}
}

// TestALookThatFailsHidesNothingElse: each problem is still reported as a refusal.
func TestALookThatFailsHidesNothingElse(t *testing.T) {
	for _, trouble := range maskings {
		for name, fail := range looks {
			if slices.Contains(trouble.of, name) {
				continue
			}
			c := sound()
			trouble.spoil(c)
			fail(c, errors.New("it is away"))
			if v := c.Judge(); !slices.Equal(reasons(v), []string{trouble.reason}) || v.Admitted() || v.Err() != nil {
				t.Errorf("%s, with a failed look at %s: %+v", trouble.name, name, v)
			}
		}
	}
}

// TestLookupErrorsAreReportedOnce, and errors.Is finds each cause in the one error.
func TestLookupErrorsAreReportedOnce(t *testing.T) {
	c, throttled := sound(), &cloud.Error{Kind: cloud.Throttled, Op: "look at", Resource: "it", Message: "too many"}
	for name, fail := range looks {
		switch name {
		case "Cloud", "Recipe", "Images", "BuiltFrom":
			fail(c, throttled)
		default:
			fail(c, errors.New("the API server is away"))
		}
	}
	v := c.Judge()
	if len(v.Unread) != 2 || v.Err().Error() != "the API server is away; "+throttled.Error() || !cloud.Is(v.Err(), cloud.Throttled) {
		t.Errorf("%+v", v)
	}
}
