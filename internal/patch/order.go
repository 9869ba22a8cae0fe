package patch

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Method is what the pod does on the node. The API's method InPlace (generalize) is not a method of this package.
type Method string

const (
	// Check reads the repositories and reports the pending patches. Check installs nothing and needs no reservation.
	Check Method = "Check"
	// Patch installs the pending patches on a reserved node, and reports the result. Patch never reboots.
	Patch Method = "Patch"
	// Reboot reports, and then reboots the node in good order. The proof of the reboot is the Node's next boot ID.
	Reboot Method = "Reboot"
)

// Set says which patches are asked for.
type Set string

const (
	// Security is the patches from a security suite (apt) or with a security advisory (dnf), with their dependencies.
	Security Set = "Security"
	// All is every pending update of installed packages. Neither Set removes a package or changes the release.
	All Set = "All"
)

// Limits of a NodeOrder.
const (
	MaxHold        = 64  // patterns
	MaxHoldPattern = 128 // bytes
	maxWord        = 253 // bytes of a name, a UID or a token
)

// DefaultHold has the patterns of packages that Kamino does not patch by default: the kubelet's version belongs to the
// cluster's upgrade, and a runtime's package may restart the runtime under its pods.
func DefaultHold() []string { return v1alpha1.DefaultPatchHold() }

// Holder has reserved the node: a Prototype or a PatchPolicy.
type Holder struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Order is what the pod on a node is asked for. It names no program, argument, file or URL.
type Order struct {
	Method Method `json:"method"`
	// Holder of the node. A Check of a node in service has the asking object.
	Holder Holder `json:"holder"`
	// Token is the boot ID of the node (/proc/sys/kernel/random/boot_id). The order is void for every other boot.
	Token string `json:"token"`
	// Patches and Hold belong to Check and Patch. Hold has regular expressions (RE2) that begin with ^, for names of packages;
	// the node's own holds (apt-mark hold, dnf versionlock and excludes) apply in addition.
	Patches Set      `json:"patches,omitempty"`
	Hold    []string `json:"hold,omitempty"`
	// MinAge is how long a patch must have been available. The node knows only the date of the repository, not of a patch. A
	// caller that has seen the patch for that long orders zero.
	MinAge time.Duration `json:"minAge,omitempty"`
	// Drained: no pod of a workload is on the node. Only then an interrupted package manager is repaired.
	Drained bool `json:"drained,omitempty"`
}

// OrderOf returns the order in the spec of an API NodeOrder.
func OrderOf(spec v1alpha1.NodeOrderSpec) Order {
	o := Order{
		Method: Method(spec.Method), Token: spec.Token,
		Holder: Holder{Kind: string(cmp.Or(spec.Holder.Kind, v1alpha1.HolderPrototype)), Name: spec.Holder.Name, UID: string(spec.Holder.UID)},
	}
	if p := spec.Patch; p != nil {
		o.Patches, o.Hold, o.Drained = Set(p.Patches), p.Hold, p.Drained
		if p.MinAge != nil {
			o.MinAge = p.MinAge.Duration
		}
	}
	return o
}

// bootID is the kernel's format of a boot ID. Source: Linux, drivers/char/random.c (UUID version 4).
var bootID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Validate returns every fault of the order.
func (o Order) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Method{Check, Patch, Reboot}, o.Method) {
		fault("method %q is unknown: want Check, Patch or Reboot", o.Method)
	}
	for _, w := range []struct{ name, value string }{
		{"holder.kind", o.Holder.Kind}, {"holder.name", o.Holder.Name}, {"holder.uid", o.Holder.UID},
	} {
		if w.value == "" || len(w.value) > maxWord {
			fault("%s has %d bytes: want 1 to %d", w.name, len(w.value), maxWord)
		}
	}
	if !bootID.MatchString(o.Token) {
		fault("token %q is not a boot ID", o.Token)
	}
	if o.Method == Reboot {
		if o.Patches != "" || len(o.Hold) > 0 || o.MinAge != 0 {
			fault("method Reboot takes neither patches nor hold nor minAge")
		}
		return errors.Join(faults...)
	}
	if o.Patches != Security && o.Patches != All {
		fault("patches %q is unknown: want Security or All", o.Patches)
	}
	if o.MinAge < 0 {
		fault("minAge %v is negative", o.MinAge)
	}
	if _, err := NewHold(o.Hold); err != nil {
		fault("%w", err)
	}
	return errors.Join(faults...)
}

// Hold matches the names of packages that an order holds.
type Hold struct{ patterns []*regexp.Regexp }

// NewHold compiles the patterns of an order. An empty Hold holds no package.
func NewHold(patterns []string) (Hold, error) {
	if len(patterns) > MaxHold {
		return Hold{}, fmt.Errorf("hold has %d patterns: want at most %d", len(patterns), MaxHold)
	}
	var h Hold
	for _, text := range patterns {
		if !strings.HasPrefix(text, "^") || len(text) > MaxHoldPattern {
			return Hold{}, fmt.Errorf("hold pattern %q must begin with ^ and have at most %d bytes", text, MaxHoldPattern)
		}
		// An alternative would escape the anchor: ^a|b matches b anywhere. The pattern alone must be valid, too: ^a)|(b.
		_, err := regexp.Compile(text)
		pattern, grouped := regexp.Compile("^(?:" + text[1:] + ")")
		if err = cmp.Or(err, grouped); err != nil {
			return Hold{}, fmt.Errorf("hold pattern %q is not a regular expression: %w", text, err)
		}
		h.patterns = append(h.patterns, pattern)
	}
	return h, nil
}

// Matches reports whether the order holds the package.
func (h Hold) Matches(name string) bool {
	return slices.ContainsFunc(h.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}
