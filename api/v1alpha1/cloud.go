package v1alpha1

import "strings"

// azureScheme is that of the provider IDs of Azure's nodes. A rule of PrototypeSpec names it, too.
const azureScheme = "azure://"

// awsScheme is the same of AWS's.
const awsScheme = "aws://"

// Replicas of the image version that the settings ask for, by either of the setting's names; 0 if they ask for none.
func (s Settings) Replicas() int32 {
	switch {
	case s.Azure != nil && s.Azure.Replicas != nil:
		return *s.Azure.Replicas
	case s.Publish.Replicas != nil:
		return *s.Publish.Replicas
	}
	return 0
}

// InitializationRate of volumes that the settings ask for, in MiB/s; 0 if they ask for none.
func (s Settings) InitializationRate() int32 {
	if s.AWS == nil || s.AWS.VolumeInitializationRate == nil {
		return 0
	}
	return *s.AWS.VolumeInitializationRate
}

// Foreign names the settings of a cloud that a node with the provider ID is not of; empty if there are none.
func (s Settings) Foreign(providerID string) string {
	switch {
	case s.Azure != nil && !strings.HasPrefix(providerID, azureScheme):
		return "settings.azure"
	case s.AWS != nil && !strings.HasPrefix(providerID, awsScheme):
		return "settings.aws"
	}
	return ""
}
