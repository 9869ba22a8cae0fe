package patch

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

const boot = "6d4f8b6e-0000-4000-8000-000000000001"

func good() Order {
	return Order{
		Method: Patch, Holder: Holder{Kind: "Prototype", Name: "pool1-2026.11.21", UID: "c0ffee00-0000-4000-8000-000000000002"},
		Token: boot, Patches: Security, Hold: DefaultHold(),
	}
}

func TestOrderValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *Order)
		want   string
	}{
		"patch":          {func(*Order) {}, ""},
		"check all":      {func(o *Order) { o.Method, o.Patches, o.MinAge = Check, All, 72*time.Hour }, ""},
		"no hold":        {func(o *Order) { o.Hold = nil }, ""},
		"reboot":         {func(o *Order) { o.Method, o.Patches, o.Hold = Reboot, "", nil }, ""},
		"no method":      {func(o *Order) { o.Method = "" }, `method "" is unknown: want Check, Patch or Reboot`},
		"generalize":     {func(o *Order) { o.Method = "InPlace" }, `method "InPlace" is unknown: want Check, Patch or Reboot`},
		"no holder":      {func(o *Order) { o.Holder.UID = "" }, "holder.uid has 0 bytes: want 1 to 253"},
		"long name":      {func(o *Order) { o.Holder.Name = strings.Repeat("a", 254) }, "holder.name has 254 bytes: want 1 to 253"},
		"no kind":        {func(o *Order) { o.Holder.Kind = "" }, "holder.kind has 0 bytes: want 1 to 253"},
		"another token":  {func(o *Order) { o.Token = "snap-1" }, `token "snap-1" is not a boot ID`},
		"no patches":     {func(o *Order) { o.Patches = "" }, `patches "" is unknown: want Security or All`},
		"other patches":  {func(o *Order) { o.Patches = "security" }, `patches "security" is unknown: want Security or All`},
		"negative age":   {func(o *Order) { o.MinAge = -time.Second }, "minAge -1s is negative"},
		"reboot patches": {func(o *Order) { o.Method = Reboot }, "method Reboot takes neither patches nor hold nor minAge"},
		"open pattern":   {func(o *Order) { o.Hold = []string{"kubelet"} }, `hold pattern "kubelet" must begin with ^ and have at most 128 bytes`},
		"long pattern":   {func(o *Order) { o.Hold = []string{"^" + strings.Repeat("a", 128)} }, "must begin with ^"},
		"no expression":  {func(o *Order) { o.Hold = []string{"^(a"} }, `hold pattern "^(a" is not a regular expression`},
		"many patterns":  {func(o *Order) { o.Hold = slices.Repeat([]string{"^a"}, 65) }, "hold has 65 patterns: want at most 64"},
	} {
		o := good()
		test.change(&o)
		err := o.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// All faults are named at once.
func TestOrderNamesEveryFault(t *testing.T) {
	err := Order{}.Validate()
	for _, want := range []string{"method", "holder.kind", "holder.name", "holder.uid", "token", "patches"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// An order has words only: no field of an order can carry a program or an argument.
func TestOrderKeepsItsWords(t *testing.T) {
	text, err := json.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !slices.Contains([]string{"method", "holder", "token", "patches", "hold", "minAge", "drained"}, name) {
			t.Errorf("the field %s is new: may it carry a command?", name)
		}
	}
}

func TestHold(t *testing.T) {
	h, err := NewHold(DefaultHold())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"kubelet": true, "kubeadm": true, "kubectl": true, "containerd": true, "containerd.io": true, "runc": true, "cri-tools": true,
		"kubelet-extra": false, "runc-doc": false, "openssl": false, "linux-image-amd64": false, "my-kubelet": false,
	} {
		if h.Matches(name) != want {
			t.Errorf("%s is held: %t, want %t", name, !want, want)
		}
	}
	// The anchor holds for every alternative.
	either, err := NewHold([]string{"^foo|bar"})
	if err != nil {
		t.Fatal(err)
	}
	if either.Matches("libbar") || !either.Matches("bar2") || !either.Matches("foo") {
		t.Error("the pattern ^foo|bar must be anchored in both alternatives")
	}
	if (Hold{}).Matches("openssl") {
		t.Error("an empty hold holds a package")
	}
}
