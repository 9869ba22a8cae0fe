package azure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opTrial = "begin the trial in"

// trialPrefix is the beginning of the names of scale sets for trials.
const trialPrefix = "kamino-trial-"

// trialMarkTag on a scale set is the name of its trial, in the pool or apart.
const trialMarkTag = "kamino-trying"

// closedMark is the end of the tag's value after the recipe was restored.
const closedMark = " closed"

// Tags on a pool besides trialMarkTag, for another process that ends the trial: the version, the image to restore, and
// the owner.
const (
	trialVersionTag   = trialMarkTag + "-version"
	trialBeforeTag    = trialMarkTag + "-before"
	trialPrototypeTag = trialMarkTag + "-prototype"
	trialUIDTag       = trialMarkTag + "-uid"
)

// beforeParts hold an image that is too long for a single tag. The ID of a gallery version has up to 400 characters.
// Source: "Naming rules and restrictions for Azure resources" (resource groups 90, galleries and images 80).
var beforeParts = []string{trialBeforeTag + "-1", trialBeforeTag + "-2"}

// longestTag is Azure's limit of a tag's value in characters.
const longestTag = 256

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

// trialMark is the content of trialMarkTag.
type trialMark struct {
	name string
	open bool
}

func markOf(model armcompute.VirtualMachineScaleSet) trialMark {
	for tag, text := range model.Tags {
		if strings.EqualFold(tag, trialMarkTag) {
			name, closed := strings.CutSuffix(value(text), closedMark)
			return trialMark{name, name != "" && !closed}
		}
	}
	return trialMark{}
}

// tagsWithMark returns all tags of a scale set with another mark, because a patch may or may not merge tags. An empty mark is
// absent.
func tagsWithMark(model armcompute.VirtualMachineScaleSet, text string) map[string]*string {
	tags := map[string]*string{}
	for name, kept := range model.Tags {
		if !strings.EqualFold(name, trialMarkTag) {
			tags[name] = kept
		}
	}
	tags[trialMarkTag] = to.Ptr(text)
	return tags
}

// tagsOfOpenTrial returns all tags of a scale set with the tags of a trial.
func tagsOfOpenTrial(model armcompute.VirtualMachineScaleSet, spec cloud.TrialSpec) map[string]*string {
	tags := tagsWithoutTrial(model)
	tags[trialMarkTag] = to.Ptr(spec.Name)
	maps.Copy(tags, toTags(beforeTags(spec.Image)))
	for name, text := range map[string]string{
		trialVersionTag: spec.Version, trialPrototypeTag: spec.Tags[cloud.TagPrototype], trialUIDTag: spec.Tags[cloud.TagUID],
	} {
		if len(text) > longestTag {
			text = ""
		}
		tags[name] = to.Ptr(text)
	}
	return tags
}

// beforeTags returns tags with the image to restore, in a single tag or in parts. Earlier versions of Kamino read only
// the single tag, and treat a cut image as missing. A longer image is not stored.
func beforeTags(image string) map[string]string {
	tags := map[string]string{trialBeforeTag: image}
	for _, name := range beforeParts {
		tags[name] = ""
	}
	if len(image) <= longestTag {
		return tags
	}
	if tags[trialBeforeTag] = ""; len(image) > longestTag*len(beforeParts) {
		return tags
	}
	for _, name := range beforeParts {
		n := min(len(image), longestTag)
		tags[name], image = image[:n], image[n:]
	}
	return tags
}

// beforeIn returns the image from the tags of beforeTags.
func beforeIn(tags map[string]string) string {
	if image := tagIn(tags, trialBeforeTag); image != "" {
		return image
	}
	var image strings.Builder
	for _, name := range beforeParts {
		image.WriteString(tagIn(tags, name))
	}
	return image.String()
}

// tagsWithoutTrial returns all tags of a scale set without the tags of a trial.
func tagsWithoutTrial(model armcompute.VirtualMachineScaleSet) map[string]*string {
	tags := tagsWithMark(model, "")
	for name := range tags {
		if len(name) > len(trialMarkTag) && strings.EqualFold(name[:len(trialMarkTag)], trialMarkTag) {
			tags[name] = to.Ptr("")
		}
	}
	return tags
}

// Trial implements cloud.PoolProvider.
func (p *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	if !spec.InPool {
		return trials{p}.trialApart(ctx, t)
	}
	model, err := p.model(ctx, t.scaleSet)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Trial{}, nil
	case err != nil:
		return cloud.Trial{}, err
	case markOf(model).name != spec.Name:
		return cloud.Trial{}, nil
	}
	vms, err := trials{p}.trialVMs(ctx, t, t.scaleSet)
	if err != nil {
		return cloud.Trial{}, err
	}
	return trials{p}.trialState(ctx, t, t.scaleSet, model, vms)
}

// trialState returns the state of a trial from the scale set of its instances.
func (p trials) trialState(ctx context.Context, t trialRef, at scaleSet, model armcompute.VirtualMachineScaleSet, vms []trialVM) (cloud.Trial, error) {
	out := cloud.Trial{Open: t.spec.InPool && markOf(model).open && t.matches(imageReference(model))}
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
	out.NoRoom, out.Blames = isCapacityError(out.Trouble), isImageError(out.Trouble)
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

// trialVMs lists the instances of the version with instance views.
func (p trials) trialVMs(ctx context.Context, t trialRef, at scaleSet) ([]trialVM, error) {
	ids, err := p.builtFrom(ctx, t, at)
	if err != nil {
		return nil, err
	}
	var out []trialVM
	for _, ref := range ids {
		vm, err := p.vm(ctx, ref)
		if cloud.Is(err, cloud.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t.trialVM(ref, vm))
	}
	return out, nil
}

// trialVM converts an instance of the version.
func (t trialRef) trialVM(ref instance, vm armcompute.VirtualMachineScaleSetVM) trialVM {
	one := trialVM{seen: instanceOf(ref.providerID(), ref, vm)}
	one.seen.Host = hostName(vm)
	if one.seen.BuiltFrom == "" {
		one.seen.BuiltFrom = t.version
	}
	if vm.Properties != nil && strings.EqualFold(value(vm.Properties.ProvisioningState), "Failed") {
		one.trouble = troubleOfVM(vm)
	}
	return one
}

// builtFrom lists the instances of a scale set that were built from the version; none if the scale set is missing.
func (p trials) builtFrom(ctx context.Context, t trialRef, at scaleSet) (out []instance, err error) {
	err = p.eachBuiltFrom(ctx, t, at, nil, func(ref instance, _ armcompute.VirtualMachineScaleSetVM) { out = append(out, ref) })
	if cloud.Is(err, cloud.NotFound) {
		return nil, nil
	}
	return out, err
}

// eachBuiltFrom calls do for each instance of a scale set that was built from the version. NotFound without the scale
// set.
func (p trials) eachBuiltFrom(ctx context.Context, t trialRef, at scaleSet, options *armcompute.VirtualMachineScaleSetVMsClientListOptions,
	do func(instance, armcompute.VirtualMachineScaleSetVM)) error {
	clients, err := p.in(at)
	if err != nil {
		return err
	}
	for pager := clients.instances.NewListPager(at.group, at.name, options); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return fail("list instances of", at, err)
		}
		for _, vm := range page.Value {
			if vm != nil && value(vm.InstanceID) != "" && vm.Properties != nil && vm.Properties.StorageProfile != nil &&
				t.matches(vm.Properties.StorageProfile.ImageReference) {
				do(instance{scaleSet: at, number: value(vm.InstanceID)}, *vm)
			}
		}
	}
	return nil
}

// EnsureTrial implements cloud.PoolProvider.
func (p *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	began := false
	if spec.InPool {
		err = trials{p}.beginInPool(ctx, t)
	} else {
		began, err = trials{p}.buildApart(ctx, t)
	}
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

// CloseTrial implements cloud.PoolProvider.
func (p *PoolProvider) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	t, err := newTrialRef(spec)
	if err != nil || !spec.InPool {
		return err
	}
	model, err := p.modelToWrite(ctx, t.scaleSet)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return nil
	case err != nil:
		return err
	}
	return trials{p}.closeInPool(ctx, t, model)
}

// EndTrial implements cloud.PoolProvider.
func (p *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return cloud.Absent, err
	}
	if spec.InPool {
		return trials{p}.endInPool(ctx, t)
	}
	return trials{p}.removeApart(ctx, t)
}

// notOurs is the error of a foreign scale set with the trial's name.
func notOurs(op string, s scaleSet) error {
	return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: s.String(), Message: fmt.Sprintf("tag %s does not name the trial: rename or delete the scale set manually", trialMarkTag)}
}
