package azure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialMarkTag on a scale set of a trial is the name of the trial. On a pool, the tag is from a trial in the pool, which
// earlier versions of Kamino had.
const trialMarkTag = "kamino-trying"

// trials adds the steps of scale sets next to pools, for trials and workshops, to PoolProvider.
type trials struct{ *PoolProvider }

// apartKind is a kind of scale sets next to pools.
type apartKind struct {
	noun, op string
	// prefix begins the names of the scale sets, and host those of their machines.
	prefix, host string
	// mark is the tag with the caller's name.
	mark string
	// feature is Permission.For, and without the remedy that needs no such scale set.
	feature, without string
}

var ofTrial = apartKind{noun: "trial", op: "begin the trial in", prefix: "kamino-trial-", host: "kt", mark: trialMarkTag, feature: cloud.ForTrialApart,
	without: `disable trials (settings.trial.mode: "Off")`}

// apartRef is a scale set next to a pool, with one instance.
type apartRef struct {
	// versionRef has the pool. A workshop has no version: it is built from the present recipe.
	versionRef
	apartKind
	spec cloud.TrialSpec
	// vmSize replaces the VM size of the pool; empty keeps it.
	vmSize string
}

func newTrialRef(spec cloud.TrialSpec) (apartRef, error) {
	r, err := versionOfPool(spec.Pool, spec.Version)
	return apartRef{versionRef: r, apartKind: ofTrial, spec: spec, vmSize: spec.MachineType}, err
}

// digest identifies the scale set in ten characters that every name allows.
func (t apartRef) digest() string {
	sum := sha256.Sum256([]byte(t.scaleSet.id() + " " + t.spec.Name))
	return hex.EncodeToString(sum[:5])
}

// ownScaleSet returns the scale set next to the pool.
func (t apartRef) ownScaleSet() scaleSet {
	return scaleSet{subscription: t.subscription, group: t.group, name: t.prefix + t.digest()}
}

// matches reports whether an image reference names the version.
func (t apartRef) matches(image *armcompute.ImageReference) bool {
	return t.version == "" || isVersion(image, t.versionRef)
}

// owns reports whether the mark of a scale set names this trial or workshop.
func (t apartRef) owns(model armcompute.VirtualMachineScaleSet) bool {
	return tagIn(tagsOf(model.Tags), t.mark) == t.spec.Name
}

// is reports whether a scale set's name is of the kind.
func (k apartKind) is(s scaleSet) bool {
	digest, ours := strings.CutPrefix(s.name, k.prefix)
	return ours && digestText.MatchString(digest)
}

var digestText = regexp.MustCompile(`^[0-9a-f]{10}$`)

// markOf returns the content of trialMarkTag.
func markOf(model armcompute.VirtualMachineScaleSet) string {
	return tagIn(tagsOf(model.Tags), trialMarkTag)
}

// Trial implements cloud.PoolProvider.
func (p *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return trials{p}.trialApart(ctx, t)
}

// trialState returns the state of a trial from the scale set of its instances.
func (p trials) trialState(ctx context.Context, at scaleSet, model armcompute.VirtualMachineScaleSet, vms []apartVM) (cloud.Trial, error) {
	var out cloud.Trial
	for _, vm := range vms {
		out.Instances = append(out.Instances, vm.seen)
		if out.Trouble == "" {
			out.Trouble = vm.trouble
		}
	}
	if strings.EqualFold(provisioning(model), "Failed") && len(vms) == 0 {
		var err error
		if out.Trouble, err = p.troubleOf(ctx, at); err != nil {
			return cloud.Trial{}, err
		}
	}
	out.LacksCapacity, out.BlamesImage = isCapacityError(out.Trouble), isImageError(out.Trouble)
	out.State = stateOfTrial(provisioning(model), vms, out.Trouble != "")
	return out, nil
}

// stateOfTrial derives the trial's state from the states of scale set and instances.
func stateOfTrial(set string, vms []apartVM, troubled bool) cloud.State {
	left, runs := 0, false
	for _, vm := range vms {
		if !vm.seen.Removing {
			left++
			runs = runs || vm.seen.Power == cloud.PowerRunning
		}
	}
	switch {
	case strings.EqualFold(set, "Deleting"), len(vms) > 0 && left == 0:
		return cloud.Deleting
	case troubled:
		return cloud.Failed
	case runs:
		return cloud.Complete
	case changing(set) || left > 0:
		return cloud.Pending
	}
	return cloud.Failed
}

func provisioning(model armcompute.VirtualMachineScaleSet) string {
	if model.Properties == nil {
		return ""
	}
	return value(model.Properties.ProvisioningState)
}

// apartVM is an instance of a trial.
type apartVM struct {
	seen    cloud.Instance
	trouble string
}

// apartVM converts an instance of the version.
func (t apartRef) apartVM(ref instance, vm armcompute.VirtualMachineScaleSetVM) apartVM {
	one := apartVM{seen: instanceOf(ref.providerID(), ref, vm)}
	one.seen.Host = hostName(vm)
	if vm.Properties != nil {
		one.seen.SystemUUID = value(vm.Properties.VMID)
	}
	switch {
	case one.seen.BuiltFrom != "":
	case t.version != "":
		one.seen.BuiltFrom = t.version
	case vm.Properties != nil && vm.Properties.StorageProfile != nil:
		one.seen.BuiltFrom = builtFrom(t.scaleSet, vm.Properties.StorageProfile.ImageReference)
	}
	if vm.Properties != nil && strings.EqualFold(value(vm.Properties.ProvisioningState), "Failed") {
		one.trouble = troubleOfVM(vm)
	}
	return one
}

// EnsureTrial implements cloud.PoolProvider.
func (p *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return trials{p}.ensureApart(ctx, t)
}

// asQuotaExceeded converts an error of missing capacity to QuotaExceeded.
func asQuotaExceeded(err error) error {
	var e *cloud.Error
	if errors.As(err, &e) && isCapacityError(e.Code) {
		out := *e
		out.Kind = cloud.QuotaExceeded
		return &out
	}
	return err
}

// EndTrial implements cloud.PoolProvider.
func (p *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Absent, err
	}
	return trials{p}.removeApart(ctx, t)
}

// notOurs is the error of a foreign scale set with the name of the trial or workshop.
func (t apartRef) notOurs(op string) error {
	return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: t.ownScaleSet().String(),
		Message: fmt.Sprintf("tag %s does not name the %s: rename or delete the scale set manually", t.mark, t.noun)}
}
