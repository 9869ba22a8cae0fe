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

const opTrial = "begin the trial in"

// trialPrefix is the beginning of the names of scale sets for trials.
const trialPrefix = "kamino-trial-"

// trialMarkTag on a scale set of a trial is the name of the trial. On a pool, the tag is from a trial in the pool, which
// earlier versions of Kamino had.
const trialMarkTag = "kamino-trying"

// trials adds the steps of trials to PoolProvider.
type trials struct{ *PoolProvider }

// trialRef is a trial with its pool and version.
type trialRef struct {
	versionRef
	spec cloud.TrialSpec
}

func newTrialRef(spec cloud.TrialSpec) (trialRef, error) {
	r, err := versionOfPool(spec.Pool, spec.Version)
	return trialRef{r, spec}, err
}

// digest identifies the trial in ten characters that every name allows.
func (t trialRef) digest() string {
	sum := sha256.Sum256([]byte(t.scaleSet.id() + " " + t.spec.Name))
	return hex.EncodeToString(sum[:5])
}

// ownScaleSet returns the scale set of the trial.
func (t trialRef) ownScaleSet() scaleSet {
	return scaleSet{subscription: t.subscription, group: t.group, name: trialPrefix + t.digest()}
}

// matches reports whether an image reference names the version.
func (t trialRef) matches(image *armcompute.ImageReference) bool {
	return isVersion(image, t.versionRef)
}

var trialName = regexp.MustCompile(`^` + trialPrefix + `[0-9a-f]{10}$`)

// forTrial reports whether a scale set's name is that of a trial.
func (s scaleSet) forTrial() bool { return trialName.MatchString(s.name) }

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
func (p trials) trialState(ctx context.Context, at scaleSet, model armcompute.VirtualMachineScaleSet, vms []trialVM) (cloud.Trial, error) {
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
func stateOfTrial(set string, vms []trialVM, troubled bool) cloud.State {
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

// trialVM is an instance of a trial.
type trialVM struct {
	seen    cloud.Instance
	trouble string
}

// trialVM converts an instance of the version.
func (t trialRef) trialVM(ref instance, vm armcompute.VirtualMachineScaleSetVM) trialVM {
	one := trialVM{seen: instanceOf(ref.providerID(), ref, vm)}
	one.seen.Host = hostName(vm)
	if vm.Properties != nil {
		one.seen.SystemUUID = value(vm.Properties.VMID)
	}
	if one.seen.BuiltFrom == "" {
		one.seen.BuiltFrom = t.version
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
	began, err := trials{p}.buildApart(ctx, t)
	switch {
	case err != nil:
		return cloud.Trial{}, asQuotaExceeded(err)
	case began:
		return cloud.Trial{State: cloud.Pending}, nil
	}
	return p.Trial(cloud.WithoutReadCache(ctx), spec)
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

// notOurs is the error of a foreign scale set with the trial's name.
func notOurs(op string, s scaleSet) error {
	return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: s.String(),
		Message: fmt.Sprintf("tag %s does not name the trial: rename or delete the scale set manually", trialMarkTag)}
}
