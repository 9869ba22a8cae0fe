package v1alpha1

const (
	// VersionLabel stands on a Node: the version that its instance was built from, as the cloud shows it, or
	// VersionGeneric. `kubectl get nodes -L kamino.dev/version` lists it.
	VersionLabel = "kamino.dev/version"

	// VersionGeneric is the value of VersionLabel on a Node that was built from no version of its pool's own.
	VersionGeneric = "generic"
)

// VersionLabelValue is what VersionLabel says of a node that was built from the version; empty stands for none
// of the pool's own.
func VersionLabelValue(builtFrom string) string {
	if builtFrom == "" {
		return VersionGeneric
	}
	return LabelValue(builtFrom)
}
