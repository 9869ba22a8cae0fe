package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxSizeTag is the scale set's tag with the largest size. Source: the cluster autoscaler's Azure provider, which reads
// the tags "min" and "max".
const maxSizeTag = "max"

// PoolsOf implements cloud.PoolProvider without I/O, because an instance's ID contains the scale set.
func (p *PoolProvider) PoolsOf(_ context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		ref, err := parseInstance(node.ProviderID)
		var none *cloud.Error
		if errors.As(err, &none) {
			found[i].Why = none.Message
			continue
		}
		found[i].Pool = ref.pool()
		for _, kind := range []apartKind{ofTrial, ofWorkshop} {
			if kind.is(ref.scaleSet) {
				found[i] = cloud.Membership{Why: fmt.Sprintf("%s belongs to a %s, not to a pool", ref.scaleSet, kind.noun)}
			}
		}
	}
	return found, nil
}

// PoolName implements cloud.PoolProvider and returns the scale set's name in lower case.
func (p *PoolProvider) PoolName(id cloud.PoolID) string {
	s, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return s.name
}

// Family implements cloud.PoolProvider without I/O.
func (p *PoolProvider) Family(_ context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	s, err := parsePool(id)
	return s.family(), err
}

// Pool implements cloud.PoolProvider.
func (p *PoolProvider) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	s, err := parsePool(id)
	if err != nil {
		return cloud.Pool{}, err
	}
	model, err := p.model(ctx, s)
	if err != nil {
		return cloud.Pool{}, err
	}
	rootDisk := int32(0)
	if storage := profileOf(model).StorageProfile; storage != nil && storage.OSDisk != nil {
		rootDisk = value(storage.OSDisk.DiskSizeGB)
	}
	traits := traitsOf(model)
	return cloud.Pool{
		RootDiskGB: rootDisk,
		RootDisks:  cloud.RootDisks(traits[TraitVMSize]),

		ID:       s.pool(),
		Name:     s.name,
		Location: value(model.Location),
		Capacity: capacityOf(model),
		MaxSize:  maxSizeOf(model),
		Traits:   traits,
		Family:   s.family(),
		Recipe:   recipeOf(s, model),
		Refusals: refusalsOfPool(s, model),
		Cautions: cautionsOfPool(s, model),
	}, nil
}

// cautionsOfPool returns the warnings about a scale set. Source: Terraform's provider azurerm, features,
// virtual_machine_scale_set: roll_instances_when_required is true by default, in each upgrade mode.
func cautionsOfPool(s scaleSet, model armcompute.VirtualMachineScaleSet) []cloud.Refusal {
	tag := cloud.TerraformTag(tagsOf(model.Tags))
	if tag == "" {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.TerraformManaged,
		fmt.Sprintf("%s: tag %s names Terraform; the next apply can name the old image again, and reimage all nodes", s, tag),
		"in Terraform, ignore changes of source_image_id, and set roll_instances_when_required = false: see "+docs+"#terraform")}
}

// modelKey is the key of the scale set's model in the read cache.
func (s scaleSet) modelKey() string { return "model of " + string(s.pool()) }

// model reads the scale set from the read cache or from Azure.
func (p *PoolProvider) model(ctx context.Context, s scaleSet) (armcompute.VirtualMachineScaleSet, error) {
	if listed, found := cloud.ReadCacheOf(ctx).Get(s.modelKey()); found {
		model := listed.(armcompute.VirtualMachineScaleSet)
		p.joined.Store(s, joinsOrReads(model))
		return model, nil
	}
	clients, err := p.in(s)
	if err != nil {
		return armcompute.VirtualMachineScaleSet{}, err
	}
	got, err := clients.scaleSets.Get(ctx, s.group, s.name, nil)
	if err != nil {
		return armcompute.VirtualMachineScaleSet{}, fail("read", s, err)
	}
	p.joined.Store(s, joinsOrReads(got.VirtualMachineScaleSet))
	return got.VirtualMachineScaleSet, nil
}

// modelToWrite reads the scale set before a write. A cached model is allowed only with an ETag, which makes the write
// conditional.
func (p *PoolProvider) modelToWrite(ctx context.Context, s scaleSet) (armcompute.VirtualMachineScaleSet, error) {
	model, err := p.model(ctx, s)
	if err == nil && value(model.Etag) == "" {
		return p.model(cloud.WithoutReadCache(ctx), s)
	}
	return model, err
}

func capacityOf(model armcompute.VirtualMachineScaleSet) int64 {
	if model.SKU == nil {
		return 0
	}
	return value(model.SKU.Capacity)
}

// maxSizeOf returns the size of the autoscaler's tag; 0 without a tag. If the pool is larger than the tag, the result is
// the pool's size.
func maxSizeOf(model armcompute.VirtualMachineScaleSet) int64 {
	for name, text := range model.Tags {
		if !strings.EqualFold(name, maxSizeTag) {
			continue
		}
		if size, err := strconv.ParseInt(strings.TrimSpace(value(text)), 10, 64); err == nil && size > 0 {
			return max(size, capacityOf(model))
		}
	}
	return 0
}

// profileOf returns the profile of the scale set's VMs; never nil.
func profileOf(model armcompute.VirtualMachineScaleSet) *armcompute.VirtualMachineScaleSetVMProfile {
	if model.Properties == nil || model.Properties.VirtualMachineProfile == nil {
		return &armcompute.VirtualMachineScaleSetVMProfile{}
	}
	return model.Properties.VirtualMachineProfile
}

// securityTypeOf returns the security type of the pool's next VM; Standard if unset.
func securityTypeOf(model armcompute.VirtualMachineScaleSet) armcompute.SecurityTypes {
	if security := profileOf(model).SecurityProfile; security != nil && value(security.SecurityType) != "" {
		return *security.SecurityType
	}
	return armcompute.SecurityTypesStandard
}

// encryptionSetOf returns the ID of the disk encryption set of the pool's OS disks; empty without a set.
func encryptionSetOf(model armcompute.VirtualMachineScaleSet) string {
	storage := profileOf(model).StorageProfile
	if storage == nil || storage.OSDisk == nil || storage.OSDisk.ManagedDisk == nil || storage.OSDisk.ManagedDisk.DiskEncryptionSet == nil {
		return ""
	}
	return value(storage.OSDisk.ManagedDisk.DiskEncryptionSet.ID)
}

// diskTraits are properties of an OS disk that the image definition must share. The properties never change.
type diskTraits struct {
	generation   armcompute.HyperVGeneration
	architecture armcompute.Architecture
}

// Traits of a pool that images must share. Package capi uses the same names.
const (
	TraitSecurityType   = "securityType"      // as Azure writes the type; Standard if unset
	TraitGeneration     = "generation"        // for people; set only for Trusted Launch, because other models do not name the generation
	TraitVMSize         = "vmSize"            // for people
	TraitDiskController = "diskController"    // absent if unset
	TraitEncryptionSet  = "diskEncryptionSet" // the ID of the disk encryption set of OS disks; absent without a set
	TraitPlan           = "plan"              // publisher:product:name of a marketplace image; absent without a plan
)

func traitsOf(model armcompute.VirtualMachineScaleSet) map[string]string {
	security := securityTypeOf(model)
	out := map[string]string{TraitSecurityType: string(security)}
	if security != armcompute.SecurityTypesStandard {
		out[TraitGeneration] = string(armcompute.HyperVGenerationV2)
	}
	if model.SKU != nil && value(model.SKU.Name) != "" {
		out[TraitVMSize] = *model.SKU.Name
	}
	if storage := profileOf(model).StorageProfile; storage != nil && value(storage.DiskControllerType) != "" {
		out[TraitDiskController] = *storage.DiskControllerType
	}
	if set := encryptionSetOf(model); set != "" {
		out[TraitEncryptionSet] = set
	}
	if plan := model.Plan; plan != nil && value(plan.Name) != "" {
		out[TraitPlan] = strings.Join([]string{value(plan.Publisher), value(plan.Product), *plan.Name}, ":")
	}
	return out
}

// refusalsOfPool returns the reasons against any capture in the pool.
func refusalsOfPool(s scaleSet, model armcompute.VirtualMachineScaleSet) []cloud.Refusal {
	var out []cloud.Refusal
	add := func(found bool, refusal cloud.Refusal) {
		if found {
			out = append(out, refusal)
		}
	}
	add(isAKS(s, model), cloud.Refuse(cloud.ManagedElsewhere, fmt.Sprintf("%s belongs to AKS; AKS owns the model, and reverts or ignores changes", s),
		"use AKS node image upgrades or node pool snapshots instead"))
	out = append(out, refusalsOfWrite(s, model)...)
	add(securityTypeOf(model) == armcompute.SecurityTypesConfidentialVM, confidential(s))
	profile := profileOf(model)
	if storage := profile.StorageProfile; storage != nil && storage.OSDisk != nil {
		disk := storage.OSDisk
		add(disk.DiffDiskSettings != nil && disk.DiffDiskSettings.Option != nil, ephemeral(s))
		add(value(disk.OSType) == armcompute.OperatingSystemTypesWindows ||
			profile.OSProfile != nil && profile.OSProfile.WindowsConfiguration != nil, windows(s))
	}
	if set := encryptionSetOf(model); set != "" {
		other, outside := outsideSubscription(set, s)
		add(outside, cloud.Refuse(galleryUnsuitable, fmt.Sprintf(
			"the disk encryption set of %s is in subscription %s; an image version needs a set of the same subscription and region", s, other),
			"use a disk encryption set of the pool's subscription"))
	}
	return out
}

// isAKS recognizes a scale set of AKS by the tags of AKS, or by the name of the node resource group:
// MC_<group>_<cluster>_<location>.
func isAKS(s scaleSet, model armcompute.VirtualMachineScaleSet) bool {
	for name := range model.Tags {
		if strings.HasPrefix(strings.ToLower(name), "aks-managed-") {
			return true
		}
	}
	return strings.HasPrefix(s.group, "mc_") && strings.Count(s.group, "_") >= 3
}

// capzTag is the beginning of CAPZ's ownership tags. Source: CAPZ, api/v1beta1/tags.go.
const capzTag = "sigs.k8s.io_cluster-api-provider-azure_"

// isCAPZ recognizes a scale set of a Cluster API machine pool.
func isCAPZ(model armcompute.VirtualMachineScaleSet) bool {
	for name := range model.Tags {
		if strings.HasPrefix(strings.ToLower(name), capzTag) {
			return true
		}
	}
	return false
}

func outsideSubscription(id string, s scaleSet) (subscription string, outside bool) {
	parts := strings.Split(id, "/")
	at := slices.IndexFunc(parts, func(part string) bool { return strings.EqualFold(part, "subscriptions") })
	if at < 0 || at+1 >= len(parts) {
		return "", false
	}
	return parts[at+1], !strings.EqualFold(parts[at+1], s.subscription)
}

func ephemeral(on fmt.Stringer) cloud.Refusal {
	return cloud.Refuse(cloud.DiskUnsupported, fmt.Sprintf("%s has an ephemeral OS disk, which is on the host and cannot be copied", on),
		"use a pool with managed OS disks")
}

func windows(on fmt.Stringer) cloud.Refusal {
	return cloud.Refuse(cloud.SystemUnsupported, fmt.Sprintf("%s runs Windows; only Linux nodes can be captured", on), "leave the pool out")
}

func confidential(on fmt.Stringer) cloud.Refusal {
	return cloud.Refuse(cloud.DiskUnsupported,
		fmt.Sprintf("%s runs confidential VMs; a confidential disk is bound to a single VM and cannot become an image", on),
		"leave the pool out")
}
