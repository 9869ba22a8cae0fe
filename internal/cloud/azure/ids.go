package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// providerPrefix is the beginning of Node.spec.providerID on Azure: "azure://" and a resource ID.
const providerPrefix = "azure://"

// maxName is the longest name of galleries, image definitions and snapshots, in characters.
const maxName = 80

const (
	typeScaleSet   = "microsoft.compute/virtualmachinescalesets"
	typeScaleSetVM = "microsoft.compute/virtualmachinescalesets/virtualmachines"
	typeVM         = "microsoft.compute/virtualmachines"
)

// scaleSet names a scale set. Azure ignores case and varies the case in answers. The fields are in lower case, so that a
// pool has a single ID.
type scaleSet struct {
	subscription, group, name string
}

// instance names a VM: number and scale set with Uniform orchestration, or the name of a standalone VM without a scale
// set.
type instance struct {
	scaleSet
	number string
}

// isStandalone reports whether the VM is outside any scale set.
func (i instance) isStandalone() bool { return i.name == "" }

// pool returns the scale set's ID; empty for a standalone VM.
func (i instance) pool() cloud.PoolID {
	if i.isStandalone() {
		return ""
	}
	return i.scaleSet.pool()
}

func (s scaleSet) id() string {
	return s.scope() + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + s.name
}

// scope returns the resource group's ID.
func (s scaleSet) scope() string {
	return "/subscriptions/" + s.subscription + "/resourceGroups/" + s.group
}

// family returns the scale set's image family in its resource group.
func (s scaleSet) family() cloud.ImageFamily {
	return cloud.ImageFamily{Place: s.scope(), Name: s.name}
}

// parseFamily converts an image family to a scale set name. All pools, also without a scale set, name images like a scale
// set of the same name.
func parseFamily(family cloud.ImageFamily) (scaleSet, error) {
	parts := strings.Split(strings.Trim(family.Place, "/"), "/")
	if len(parts) != 4 || !strings.EqualFold(parts[0], "subscriptions") || !strings.EqualFold(parts[2], "resourceGroups") || family.Name == "" {
		return scaleSet{}, unsupported(family.Place, "not the ID of a resource group for images")
	}
	return scaleSet{subscription: strings.ToLower(parts[1]), group: strings.ToLower(parts[3]), name: strings.ToLower(family.Name)}, nil
}

func (s scaleSet) pool() cloud.PoolID { return cloud.PoolID(s.id()) }

func (s scaleSet) String() string { return "scale set " + s.name }

func (i instance) String() string {
	if i.isStandalone() {
		return "VM " + i.number
	}
	return "instance " + i.number + " of scale set " + i.name
}

// gallery returns the name of the pool's gallery, as in vmss-prototype, so that Kamino finds older images. Gallery names
// have no dashes.
func (s scaleSet) gallery() string {
	return shorten("SIG_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '_'
	}, s.group))
}

// definition returns the name of the pool's image definition, as in vmss-prototype.
func (s scaleSet) definition() string { return shorten("kamino-" + s.name + "-prototype") }

func (s scaleSet) galleryID() string {
	return s.scope() + "/providers/Microsoft.Compute/galleries/" + s.gallery()
}

func (s scaleSet) definitionID() string { return s.galleryID() + "/images/" + s.definition() }

func (s scaleSet) versionID(version string) string {
	return s.definitionID() + "/versions/" + version
}

// snapshotName returns the resource name of a capture's snapshot.
func snapshotName(name string) string { return shorten("snapshot_" + plainName(name)) }

// plainName replaces what names of disks and snapshots do not allow.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
}

// shorten limits a name to maxName. A digest replaces the end, so that names stay unique.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
}

// parseInstance parses Node.spec.providerID. Any ID outside Uniform scale sets is Unsupported, with a message for people.
func parseInstance(id cloud.InstanceID) (instance, error) {
	found, err := parseVM(id)
	if err == nil && found.isStandalone() {
		return instance{}, unsupported(string(id), fmt.Sprintf(
			"VM %s is standalone or in a scale set with Flexible orchestration; only nodes of scale sets with Uniform orchestration can be captured",
			found.number))
	}
	return found, err
}

// parseVM also accepts standalone VMs, for pools of another PoolProvider.
func parseVM(id cloud.InstanceID) (instance, error) {
	text, isAzure := cutPrefixFold(string(id), providerPrefix)
	if !isAzure {
		return instance{}, unsupported(string(id), "not the provider ID of an Azure VM (azure:///subscriptions/...): name a node that runs on Azure")
	}
	rid, err := arm.ParseResourceID(text)
	if err != nil {
		return instance{}, unsupported(string(id), "not an Azure resource ID: check spec.providerID of the node")
	}
	switch strings.ToLower(rid.ResourceType.String()) {
	case typeScaleSetVM:
		return instance{scaleSet: scaleSetOf(rid.Parent), number: strings.ToLower(rid.Name)}, nil
	case typeVM:
		at := scaleSetOf(rid)
		at.name = ""
		return instance{scaleSet: at, number: strings.ToLower(rid.Name)}, nil
	default:
		return instance{}, unsupported(string(id), "not a VM of a scale set: only nodes of scale sets with Uniform orchestration can be captured")
	}
}

// parsePool parses a pool's ID.
func parsePool(id cloud.PoolID) (scaleSet, error) {
	rid, err := arm.ParseResourceID(string(id))
	if err != nil || strings.ToLower(rid.ResourceType.String()) != typeScaleSet {
		return scaleSet{}, unsupported(string(id), "not the resource ID of a virtual machine scale set")
	}
	return scaleSetOf(rid), nil
}

func scaleSetOf(rid *arm.ResourceID) scaleSet {
	return scaleSet{
		subscription: strings.ToLower(rid.SubscriptionID),
		group:        strings.ToLower(rid.ResourceGroupName),
		name:         strings.ToLower(rid.Name),
	}
}

func unsupported(resource, message string) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "read", Resource: resource, Message: message}
}

// cutPrefixFold is strings.CutPrefix that ignores case.
func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// versionOf returns the version from an image reference's ID. latest is true for the definition itself. ok is false for
// another definition.
func (s scaleSet) versionOf(imageID string) (version string, latest, ok bool) {
	rest, ok := cutPrefixFold(imageID, s.definitionID())
	if !ok {
		return "", false, false
	}
	if rest == "" {
		return "", true, true
	}
	version, ok = cutPrefixFold(rest, "/versions/")
	if !ok || version == "" {
		return "", false, false
	}
	if strings.EqualFold(version, "latest") {
		return "", true, true
	}
	return version, false, true
}

// checkVersion returns an error for a name that Azure refuses. The form is Major.Minor.Patch, each a 32-bit number.
func checkVersion(version string) error {
	texts := strings.Split(version, ".")
	valid := len(texts) == 3
	for _, text := range texts {
		if _, err := strconv.ParseUint(text, 10, 31); err != nil {
			valid = false
		}
	}
	if valid {
		return nil
	}
	return &cloud.Error{Kind: cloud.Invalid, Op: "name image version", Resource: version,
		Message: "not three numbers with dots: use a name such as 2026.11.21"}
}
