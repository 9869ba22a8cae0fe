package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// The identity of an image definition, as the Python original writes it; the offer is the resource group
// and the SKU the scale set.
const definitionPublisher = "VMSS-Prototype-Pattern"

// Features of an image definition. Source: "Azure Compute Gallery" in the public documentation.
const (
	featureSecurityType    = "SecurityType"
	featureDiskControllers = "DiskControllerTypes"
	securitySupported      = "TrustedLaunchSupported"
	securityStandard       = "Standard"
)

// text is a resource's description in errors.
type text string

func (t text) String() string { return string(t) }

// definitionTraits are those of an image definition that cannot be changed later and must fit the pool.
type definitionTraits struct {
	diskTraits
	trustedLaunch bool
	// nvme: the pool's VMs reach their disks by NVMe.
	nvme bool
}

// wantedTraits joins what the disk says with what the pool's next VMs need.
func wantedTraits(disk diskTraits, model armcompute.VirtualMachineScaleSet) definitionTraits {
	out := definitionTraits{diskTraits: disk, trustedLaunch: securityTypeOf(model) == armcompute.SecurityTypesTrustedLaunch}
	if storage := profileOf(model).StorageProfile; storage != nil {
		out.nvme = strings.EqualFold(value(storage.DiskControllerType), "NVMe")
	}
	return out
}

// orDefaults fills what a disk does not say: Azure means generation 1 and x64 then.
func (t diskTraits) orDefaults() diskTraits {
	if t.generation == "" {
		t.generation = armcompute.HyperVGenerationV1
	}
	if t.architecture == "" {
		t.architecture = armcompute.ArchitectureX64
	}
	return t
}

// modelReader reads the pool's model once in a call, and only if somebody asks.
type modelReader func() (armcompute.VirtualMachineScaleSet, error)

// ensureDefinition starts what is missing before a version can be made: the gallery, then the definition.
// ready is false while one of them is still being made. What this process began to make itself is not
// compared with what is wanted.
func (p *Provider) ensureDefinition(ctx context.Context, s scaleSet, model modelReader, snapshotID string) (ready bool, err error) {
	if p.known(p.defined, s.definitionID()) {
		return true, nil
	}
	clients, err := p.in(s)
	if err != nil {
		return false, err
	}
	if there, err := p.ensureGallery(ctx, clients, s, model); err != nil || !there {
		return false, err
	}
	what := text("image definition " + s.definition())
	switch {
	case p.began(s.definitionID()):
		return p.finished(ctx, what, s.definitionID())
	case p.began(s.galleryID()):
		return p.makeDefinition(ctx, clients, s, model, snapshotID)
	}
	definition, err := clients.definitions.Get(ctx, s.group, s.gallery(), s.definition(), nil)
	if isNotFound(err) {
		return p.makeDefinition(ctx, clients, s, model, snapshotID)
	}
	if err != nil {
		return false, fail("look at", what, err)
	}
	if err := checkDefinition(ctx, clients, s, definition.GalleryImage, model, snapshotID); err != nil {
		return false, err
	}
	return p.settled(what, s.definitionID(), definitionState(definition.GalleryImage))
}

func definitionState(definition armcompute.GalleryImage) armcompute.GalleryProvisioningState {
	if definition.Properties == nil {
		return ""
	}
	return value(definition.Properties.ProvisioningState)
}

// checkDefinition compares a definition that was found with what the pool needs.
func checkDefinition(ctx context.Context, clients *clients, s scaleSet, definition armcompute.GalleryImage, model modelReader, snapshotID string) error {
	wanted, _, err := wantedFor(ctx, clients, s, model, snapshotID)
	if err != nil {
		return err
	}
	if refusal := definitionMismatch(s, definition, wanted); refusal != nil {
		return &cloud.Error{Kind: cloud.Invalid, Op: "use", Resource: "image definition " + s.definition(), Code: refusal.Reason, Message: refusal.Message}
	}
	return nil
}

// wantedFor reads pool and snapshot for what their definition must be like.
func wantedFor(ctx context.Context, clients *clients, s scaleSet, model modelReader, snapshotID string) (definitionTraits, armcompute.VirtualMachineScaleSet, error) {
	pool, err := model()
	if err != nil {
		return definitionTraits{}, pool, err
	}
	disk, err := snapshotTraits(ctx, clients, s, snapshotID)
	return wantedTraits(disk, pool), pool, err
}

// settled reads the state of a gallery or a definition, and remembers a definition that is complete.
func (p *Provider) settled(what text, id string, state armcompute.GalleryProvisioningState) (ready bool, err error) {
	switch state {
	case armcompute.GalleryProvisioningStateFailed:
		return false, &cloud.Error{Kind: cloud.Invalid, Op: "use", Resource: what.String(),
			Message: "Azure failed to make it: delete it and try again (its activity log has the reason)"}
	case armcompute.GalleryProvisioningStateCreating, armcompute.GalleryProvisioningStateDeleting:
		return false, nil
	default:
		p.learn(p.defined, id)
		return true, nil
	}
}

// finished asks the operation by which this process makes a gallery or a definition how far it is. One that
// failed is forgotten, so that the next look is at the resource itself.
func (p *Provider) finished(ctx context.Context, what text, id string) (ready bool, err error) {
	done, err := p.ask(ctx, id)
	switch {
	case err != nil:
		p.forget(id)
		return false, fail("make", what, err)
	case done:
		p.learn(p.defined, id)
	}
	return done, nil
}

// housed is false while this process makes the gallery or the definition that a version would be in: then
// there is none.
func (p *Provider) housed(ctx context.Context, s scaleSet) (bool, error) {
	for id, what := range map[string]text{s.galleryID(): text("gallery " + s.gallery()), s.definitionID(): text("image definition " + s.definition())} {
		if !p.began(id) || p.known(p.defined, id) {
			continue
		}
		if ready, err := p.finished(ctx, what, id); err != nil || !ready {
			return false, err
		}
	}
	return true, nil
}

// makeDefinition starts making the definition. Ready is true if Azure was done with it at once.
func (p *Provider) makeDefinition(ctx context.Context, clients *clients, s scaleSet, model modelReader, snapshotID string) (ready bool, err error) {
	wanted, pool, err := wantedFor(ctx, clients, s, model, snapshotID)
	if err != nil {
		return false, err
	}
	poller, err := clients.definitions.BeginCreateOrUpdate(ctx, s.group, s.gallery(), s.definition(), newDefinition(s, pool, wanted), nil)
	if err != nil {
		return false, fail("make", text("image definition "+s.definition()), err)
	}
	remember(p, s.definitionID(), poller)
	if poller.Done() {
		p.learn(p.defined, s.definitionID())
	}
	return poller.Done(), nil
}

// ensureGallery adopts the gallery or starts making it.
func (p *Provider) ensureGallery(ctx context.Context, clients *clients, s scaleSet, model modelReader) (ready bool, err error) {
	if p.known(p.defined, s.galleryID()) {
		return true, nil
	}
	what := text("gallery " + s.gallery())
	if p.began(s.galleryID()) {
		return p.finished(ctx, what, s.galleryID())
	}
	gallery, err := clients.galleries.Get(ctx, s.group, s.gallery(), nil)
	if err == nil {
		state := armcompute.GalleryProvisioningState("")
		if gallery.Properties != nil {
			state = value(gallery.Properties.ProvisioningState)
		}
		return p.settled(what, s.galleryID(), state)
	}
	if !isNotFound(err) {
		return false, fail("look at", what, err)
	}
	pool, err := model()
	if err != nil {
		return false, err
	}
	poller, err := clients.galleries.BeginCreateOrUpdate(ctx, s.group, s.gallery(), armcompute.Gallery{
		Location:   pool.Location,
		Properties: &armcompute.GalleryProperties{Description: to.Ptr("Images of the node pools of resource group " + s.group + ", made by Kamino")},
	}, nil)
	if err != nil {
		return false, nameTaken(fail("make", what, err), s)
	}
	remember(p, s.galleryID(), poller)
	if poller.Done() {
		p.learn(p.defined, s.galleryID())
	}
	return poller.Done(), nil
}

// nameTaken tells the one conflict that no second look will solve: a gallery of that name in another
// resource group. Azure's wording is unverified, so that any that speaks of the name is taken for it.
func nameTaken(err error, s scaleSet) error {
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Kind != cloud.Conflict || !strings.Contains(strings.ToLower(refused.Message), "unique") {
		return err
	}
	refused.Kind = cloud.Invalid
	refused.Message += fmt.Sprintf(" (the pool's images need a gallery of that name in resource group %s: rename or delete the other one)", s.group)
	return refused
}

// newDefinition says generation, architecture and security type explicitly: newer versions of Azure's API
// fill in V2 and Trusted Launch where they are left out, and none can be changed later.
func newDefinition(s scaleSet, model armcompute.VirtualMachineScaleSet, traits definitionTraits) armcompute.GalleryImage {
	security := securityStandard
	if traits.trustedLaunch {
		security = securitySupported
	}
	features := []*armcompute.GalleryImageFeature{{Name: to.Ptr(featureSecurityType), Value: to.Ptr(security)}}
	if traits.nvme {
		features = append(features, &armcompute.GalleryImageFeature{Name: to.Ptr(featureDiskControllers), Value: to.Ptr("SCSI, NVMe")})
	}
	disk := traits.orDefaults()
	definition := armcompute.GalleryImage{
		Location: model.Location,
		Properties: &armcompute.GalleryImageProperties{
			Identifier: &armcompute.GalleryImageIdentifier{
				Publisher: to.Ptr(definitionPublisher), Offer: to.Ptr(s.group), SKU: to.Ptr(s.name),
			},
			OSType:           to.Ptr(armcompute.OperatingSystemTypesLinux),
			OSState:          to.Ptr(armcompute.OperatingSystemStateTypesGeneralized),
			HyperVGeneration: to.Ptr(disk.generation),
			Architecture:     to.Ptr(disk.architecture),
			Features:         features,
		},
	}
	if plan := model.Plan; plan != nil && value(plan.Name) != "" {
		// VMs of a marketplace image with a plan keep needing it.
		definition.Properties.PurchasePlan = &armcompute.ImagePurchasePlan{Name: plan.Name, Publisher: plan.Publisher, Product: plan.Product}
	}
	return definition
}

// definitionMismatch tells why an existing definition cannot hold this pool's images; nil if it can.
func definitionMismatch(s scaleSet, definition armcompute.GalleryImage, wanted definitionTraits) *cloud.Refusal {
	properties := definition.Properties
	if properties == nil {
		return nil
	}
	have := diskTraits{generation: value(properties.HyperVGeneration), architecture: value(properties.Architecture)}.orDefaults()
	want := wanted.orDefaults()
	security := featureOf(definition, featureSecurityType)
	var problem string
	switch {
	case value(properties.OSType) == armcompute.OperatingSystemTypesWindows:
		problem = "is for Windows and the pool runs Linux"
	case value(properties.OSState) == armcompute.OperatingSystemStateTypesSpecialized:
		problem = "is for specialized disks and Kamino's are generalized"
	case have.generation != want.generation:
		problem = fmt.Sprintf("is for generation %s and the pool's disks are generation %s", have.generation, want.generation)
	case have.architecture != want.architecture:
		problem = fmt.Sprintf("is for %s and the pool's disks are %s", have.architecture, want.architecture)
	case wanted.trustedLaunch && !strings.Contains(strings.ToLower(security), "trustedlaunch"):
		problem = "does not support Trusted Launch, which the pool's VMs use"
	case !wanted.trustedLaunch && (strings.EqualFold(security, "TrustedLaunch") || strings.HasPrefix(strings.ToLower(security), "confidential")):
		problem = fmt.Sprintf("allows only %s VMs, which the pool's are not", security)
	default:
		return nil
	}
	return &cloud.Refusal{Reason: "DefinitionMismatch", Message: fmt.Sprintf(
		"image definition %s in gallery %s %s; that cannot be changed: point the pool at another image, delete the definition and its versions, then try again",
		s.definition(), s.gallery(), problem)}
}

func featureOf(definition armcompute.GalleryImage, name string) string {
	for _, feature := range definition.Properties.Features {
		if feature != nil && strings.EqualFold(value(feature.Name), name) {
			return value(feature.Value)
		}
	}
	return ""
}

// snapshotTraits reads what a snapshot took over from its disk.
func snapshotTraits(ctx context.Context, clients *clients, s scaleSet, id string) (diskTraits, error) {
	group, name, ok := groupAndName(id, "snapshots")
	if !ok {
		return diskTraits{}, &cloud.Error{Kind: cloud.Invalid, Op: "make an image of", Resource: s.String(),
			Message: fmt.Sprintf("%q is not the ID of a snapshot", id)}
	}
	snapshot, err := clients.snapshots.Get(ctx, group, name, nil)
	if err != nil {
		return diskTraits{}, fail("look at", text("snapshot "+name), err)
	}
	var traits diskTraits
	if properties := snapshot.Properties; properties != nil {
		traits.generation = value(properties.HyperVGeneration)
		if properties.SupportedCapabilities != nil {
			traits.architecture = value(properties.SupportedCapabilities.Architecture)
		}
	}
	return traits.orDefaults(), nil
}

// groupAndName reads resource group and name out of a resource ID of that type.
func groupAndName(id, kind string) (group, name string, ok bool) {
	parts := strings.Split(strings.Trim(id, "/"), "/")
	if len(parts) != 8 || !strings.EqualFold(parts[2], "resourceGroups") || !strings.EqualFold(parts[6], kind) {
		return "", "", false
	}
	return parts[3], parts[7], true
}
