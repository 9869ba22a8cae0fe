package azure

import (
	"context"
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
	securityTrusted        = "TrustedLaunch"
	securityStandard       = "Standard"
)

// definitionTraits are those of an image definition that cannot be changed later and must fit the pool.
type definitionTraits struct {
	diskTraits
	trustedLaunch bool
	// nvme: the pool's VMs reach their disks by NVMe.
	nvme bool
}

// wantedTraits joins what the disk says with what the pool's next VMs need.
func wantedTraits(disk diskTraits, traits map[string]string) definitionTraits {
	return definitionTraits{
		diskTraits:    disk,
		trustedLaunch: traits[TraitSecurityType] == string(armcompute.SecurityTypesTrustedLaunch),
		nvme:          strings.EqualFold(traits[TraitDiskController], "NVMe"),
	}
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

// newDefinition says generation, architecture and security type explicitly: newer versions of Azure's API
// fill in V2 and Trusted Launch where they are left out, and none can be changed later.
func newDefinition(s scaleSet, mold cloud.ImageRequirements, traits definitionTraits) armcompute.GalleryImage {
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
		Location: to.Ptr(mold.Location),
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
	if plan := mold.Traits[TraitPlan]; plan != "" {
		// VMs of a marketplace image with a plan keep needing it.
		publisher, rest, _ := strings.Cut(plan, ":")
		product, name, _ := strings.Cut(rest, ":")
		definition.Properties.PurchasePlan = &armcompute.ImagePurchasePlan{Name: to.Ptr(name), Publisher: to.Ptr(publisher), Product: to.Ptr(product)}
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
	case wanted.trustedLaunch && !strings.EqualFold(security, securityTrusted):
		// Azure takes a Trusted Launch disk, or a snapshot of one, for no other kind: "Supported" is for images
		// without a VM guest state.
		problem = fmt.Sprintf("has the security type %s, and Azure makes versions of Trusted Launch disks only where it is %s", security, securityTrusted)
	case !wanted.trustedLaunch && (strings.EqualFold(security, securityTrusted) || strings.HasPrefix(strings.ToLower(security), "confidential")):
		problem = fmt.Sprintf("allows only %s VMs, which the pool's are not", security)
	default:
		return nil
	}
	refusal := cloud.Refuse("DefinitionMismatch", fmt.Sprintf("image definition %s in gallery %s %s; that cannot be changed", s.definition(), s.gallery(), problem),
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

// snapshotTraits is what a snapshot took over from its disk. It never changes, so that what this process has seen suffices.
func snapshotTraits(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, id string) (diskTraits, error) {
	if seen, found := p.traits.Load(strings.ToLower(id)); found {
		return seen.(diskTraits), nil
	}
	group, name, ok := groupAndName(id, "snapshots")
	if !ok {
		return diskTraits{}, &cloud.Error{Kind: cloud.Invalid, Op: "make an image of", Resource: s.String(),
			Message: fmt.Sprintf("%q is not the ID of a snapshot", id)}
	}
	snapshot, err := clients.snapshots.Get(ctx, group, name, nil)
	if err != nil {
		return diskTraits{}, fail("look at", text("snapshot "+name), err)
	}
	return traitsOfSnapshot(snapshot.Snapshot), nil
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

// groupAndName reads resource group and name out of a resource ID of that type.
func groupAndName(id, kind string) (group, name string, ok bool) {
	parts := strings.Split(strings.Trim(id, "/"), "/")
	if len(parts) != 8 || !strings.EqualFold(parts[2], "resourceGroups") || !strings.EqualFold(parts[6], kind) {
		return "", "", false
	}
	return parts[3], parts[7], true
}
