package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Publisher of image definitions, as in vmss-prototype. The offer is the resource group and the SKU is the scale set.
const definitionPublisher = "VMSS-Prototype-Pattern"

// Features of an image definition. Source: Azure documentation, "Azure Compute Gallery".
const (
	featureSecurityType    = "SecurityType"
	featureDiskControllers = "DiskControllerTypes"
	securityTrusted        = "TrustedLaunch"
	securityStandard       = "Standard"
)

// definitionTraits are the immutable properties of an image definition that must fit the pool.
type definitionTraits struct {
	diskTraits
	trustedLaunch bool
	// nvme is true if the pool's VMs use NVMe disk controllers.
	nvme bool
}

// wantedTraits merges the disk's properties with the requirements of the pool's next VMs.
func wantedTraits(disk diskTraits, traits map[string]string) definitionTraits {
	return definitionTraits{
		diskTraits:    disk,
		trustedLaunch: traits[TraitSecurityType] == string(armcompute.SecurityTypesTrustedLaunch),
		nvme:          strings.EqualFold(traits[TraitDiskController], "NVMe"),
	}
}

// orDefaults fills empty fields. Azure's defaults are generation 1 and x64.
func (t diskTraits) orDefaults() diskTraits {
	if t.generation == "" {
		t.generation = armcompute.HyperVGenerationV1
	}
	if t.architecture == "" {
		t.architecture = armcompute.ArchitectureX64
	}
	return t
}

// newDefinition sets generation, architecture and security type explicitly. Newer API versions default to V2 and Trusted
// Launch, and the fields are immutable.
func newDefinition(s scaleSet, requirements cloud.ImageRequirements, traits definitionTraits) armcompute.GalleryImage {
	security := securityStandard
	if traits.trustedLaunch {
		security = securityTrusted
	}
	features := []*armcompute.GalleryImageFeature{{Name: to.Ptr(featureSecurityType), Value: to.Ptr(security)}}
	if traits.nvme {
		features = append(features, &armcompute.GalleryImageFeature{Name: to.Ptr(featureDiskControllers), Value: to.Ptr("SCSI, NVMe")})
	}
	disk := traits.orDefaults()
	definition := armcompute.GalleryImage{
		Location: to.Ptr(requirements.Location),
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
	if plan := requirements.Traits[TraitPlan]; plan != "" {
		// VMs from a marketplace image with a plan need the plan forever.
		publisher, rest, _ := strings.Cut(plan, ":")
		product, name, _ := strings.Cut(rest, ":")
		definition.Properties.PurchasePlan = &armcompute.ImagePurchasePlan{Name: to.Ptr(name), Publisher: to.Ptr(publisher), Product: to.Ptr(product)}
	}
	return definition
}

// definitionMismatch returns the refusal of a definition that cannot hold the pool's images; nil if the definition fits.
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
		problem = "is for Windows, but the pool runs Linux"
	case value(properties.OSState) == armcompute.OperatingSystemStateTypesSpecialized:
		problem = "is for specialized disks, but Kamino's disks are generalized"
	case have.generation != want.generation:
		problem = fmt.Sprintf("is for generation %s, but the pool's disks are generation %s", have.generation, want.generation)
	case have.architecture != want.architecture:
		problem = fmt.Sprintf("is for %s, but the pool's disks are %s", have.architecture, want.architecture)
	case wanted.trustedLaunch && !strings.Contains(strings.ToLower(security), "trustedlaunch"):
		problem = "does not support Trusted Launch, but the pool's VMs use Trusted Launch"
	case wanted.trustedLaunch && !strings.EqualFold(security, securityTrusted):
		// Azure accepts a Trusted Launch disk or snapshot only for this type. "Supported" is for images without a VM
		// guest state.
		problem = fmt.Sprintf("has the security type %s, but Azure makes versions of Trusted Launch disks only for %s", security, securityTrusted)
	case !wanted.trustedLaunch && (strings.EqualFold(security, securityTrusted) || strings.HasPrefix(strings.ToLower(security), "confidential")):
		problem = fmt.Sprintf("allows only %s VMs, but the pool has other VMs", security)
	default:
		return nil
	}
	refusal := cloud.Refuse(galleryUnsuitable,
		fmt.Sprintf("image definition %s in gallery %s %s; a definition is immutable", s.definition(), s.gallery(), problem),
		"point the pool at another image, delete the definition and its versions, then try again")
	return &refusal
}

func featureOf(definition armcompute.GalleryImage, name string) string {
	for _, feature := range definition.Properties.Features {
		if feature != nil && strings.EqualFold(value(feature.Name), name) {
			return value(feature.Value)
		}
	}
	return ""
}

// snapshotTraits returns the snapshot's properties from the source disk. The properties never change and are cached.
func snapshotTraits(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, id string) (diskTraits, error) {
	if seen, found := p.traits.Load(strings.ToLower(id)); found {
		return seen.(diskTraits), nil
	}
	snapshot, err := snapshotAt(ctx, clients, s, id)
	if err != nil {
		return diskTraits{}, err
	}
	return traitsOfSnapshot(snapshot), nil
}

// snapshotAt reads the snapshot of an ID.
func snapshotAt(ctx context.Context, clients *clients, s scaleSet, id string) (armcompute.Snapshot, error) {
	group, name, ok := groupAndName(id, "snapshots")
	if !ok {
		return armcompute.Snapshot{}, &cloud.Error{Kind: cloud.Invalid, Op: "make an image of", Resource: s.String(),
			Message: fmt.Sprintf("%q is not the ID of a snapshot", id)}
	}
	snapshot, err := clients.snapshots.Get(ctx, group, name, nil)
	if err != nil {
		return armcompute.Snapshot{}, fail("read", text("snapshot "+name), err)
	}
	return snapshot.Snapshot, nil
}

func traitsOfSnapshot(snapshot armcompute.Snapshot) diskTraits {
	var traits diskTraits
	if properties := snapshot.Properties; properties != nil {
		traits.generation = value(properties.HyperVGeneration)
		if properties.SupportedCapabilities != nil {
			traits.architecture = value(properties.SupportedCapabilities.Architecture)
		}
	}
	return traits.orDefaults()
}

// groupAndName returns resource group and name from a resource ID of the type.
func groupAndName(id, kind string) (group, name string, ok bool) {
	parts := strings.Split(strings.Trim(id, "/"), "/")
	if len(parts) != 8 || !strings.EqualFold(parts[2], "resourceGroups") || !strings.EqualFold(parts[6], kind) {
		return "", "", false
	}
	return parts[3], parts[7], true
}
