package v1alpha1

const (
	// VersionLabel on a Node is the version of the instance's image, as the cloud reports, or VersionGeneric. Run `kubectl
	// get nodes -L kamino.dev/version` to list the label.
	VersionLabel = "kamino.dev/version"

	// VersionGeneric is the value of VersionLabel on a Node with another image than the pool's versions.
	VersionGeneric = "generic"
)

// VersionLabelValue is the value of VersionLabel for a node of this version; an empty version means another image.
func VersionLabelValue(builtFrom string) string {
	if builtFrom == "" {
		return VersionGeneric
	}
	return LabelValue(builtFrom)
}
