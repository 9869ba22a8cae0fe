package patch

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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
		"patch": {
			change: func(*Order) {},
			want:   "",
		},
		"check all": {
			change: func(o *Order) { o.Method, o.Patches, o.MinAge = Check, All, 72*time.Hour },
			want:   "",
		},
		"no hold": {
			change: func(o *Order) { o.Hold = nil },
			want:   "",
		},
		"reboot": {
			change: func(o *Order) { o.Method, o.Patches, o.Hold = Reboot, "", nil },
			want:   "",
		},
		"no method": {
			change: func(o *Order) { o.Method = "" },
			want:   `method "" is unknown: want Check, Patch or Reboot`,
		},
		"generalize": {
			change: func(o *Order) { o.Method = "InPlace" },
			want:   `method "InPlace" is unknown: want Check, Patch or Reboot`,
		},
		"no holder": {
			change: func(o *Order) { o.Holder.UID = "" },
			want:   "holder.uid has 0 bytes: want 1 to 253",
		},
		"long name": {
			change: func(o *Order) { o.Holder.Name = strings.Repeat("a", 254) },
			want:   "holder.name has 254 bytes: want 1 to 253",
		},
		"no kind": {
			change: func(o *Order) { o.Holder.Kind = "" },
			want:   "holder.kind has 0 bytes: want 1 to 253",
		},
		"another token": {
			change: func(o *Order) { o.Token = "snap-1" },
			want:   `token "snap-1" is not a boot ID`,
		},
		"no patches": {
			change: func(o *Order) { o.Patches = "" },
			want:   `patches "" is unknown: want Security or All`,
		},
		"other patches": {
			change: func(o *Order) { o.Patches = "security" },
			want:   `patches "security" is unknown: want Security or All`,
		},
		"negative age": {
			change: func(o *Order) { o.MinAge = -time.Second },
			want:   "minAge -1s is negative",
		},
		"reboot patches": {
			change: func(o *Order) { o.Method = Reboot },
			want:   "method Reboot takes neither patches nor hold nor minAge",
		},
		"open pattern": {
			change: func(o *Order) { o.Hold = []string{"kubelet"} },
			want:   `hold pattern "kubelet" must begin with ^ and have at most 128 bytes`,
		},
		"long pattern": {
			change: func(o *Order) { o.Hold = []string{"^" + strings.Repeat("a", 128)} },
			want:   "must begin with ^",
		},
		"no expression": {
			change: func(o *Order) { o.Hold = []string{"^(a"} },
			want:   `hold pattern "^(a" is not a regular expression`,
		},
		"pattern that ends a group": {
			change: func(o *Order) { o.Hold = []string{"^a)|(b"} },
			want:   `hold pattern "^a)|(b" is not a regular expression`,
		},
		"a quote without an end": {
			change: func(o *Order) { o.Hold = []string{"^a\\Q.*"} },
			want:   "is not a regular expression",
		},
		"empty pattern": {
			change: func(o *Order) { o.Hold = []string{""} },
			want:   `hold pattern "" must begin with ^`,
		},
		"spelling of the boot": {
			change: func(o *Order) { o.Token = strings.ToUpper("abcdef00-0000-4000-8000-000000000001") },
			want:   "is not a boot ID",
		},
		"a line after the boot": {
			change: func(o *Order) { o.Token += "\nx" },
			want:   "is not a boot ID",
		},
		"most patterns": {
			change: func(o *Order) { o.Hold = slices.Repeat([]string{"^a"}, 64) },
			want:   "",
		},
		"longest name": {
			change: func(o *Order) { o.Holder.Name = strings.Repeat("a", 253) },
			want:   "",
		},
		"many patterns": {
			change: func(o *Order) { o.Hold = slices.Repeat([]string{"^a"}, 65) },
			want:   "hold has 65 patterns: want at most 64",
		},
	} {
		o := good()
		test.change(&o)
		err := o.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// The API's words are the contract's words.
func TestOrderOf(t *testing.T) {
	spec := v1alpha1.NodeOrderSpec{
		Holder: v1alpha1.Holder{Name: "pool1-2026.11.21", UID: "c0ffee00-0000-4000-8000-000000000002"}, Method: v1alpha1.OrderPatch, Token: boot,
		Patch: &v1alpha1.OrderPatches{Patches: v1alpha1.PatchSecurity, Hold: DefaultHold(), MinAge: &metav1.Duration{Duration: time.Hour}, Drained: true},
	}
	want := good()
	want.MinAge, want.Drained = time.Hour, true
	if got := OrderOf(spec); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for method, valid := range map[v1alpha1.OrderMethod]bool{v1alpha1.OrderCheck: true, v1alpha1.OrderPatch: true, v1alpha1.InPlace: false} {
		if spec.Method = method; (OrderOf(spec).Validate() == nil) != valid {
			t.Errorf("method %s is valid: want %t", method, valid)
		}
	}
	spec.Method, spec.Patch = v1alpha1.OrderReboot, nil
	if err := OrderOf(spec).Validate(); err != nil {
		t.Error(err)
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
func TestOrderHasOnlyWords(t *testing.T) {
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
