package v1alpha1

import "strings"

// azureScheme is the scheme of provider IDs of Azure's nodes. A rule of PrototypeSpec repeats the scheme.
const azureScheme = "azure://"

// awsScheme is the same of AWS's.
const awsScheme = "aws://"

// Replicas returns the replicas of the image version in the settings; 0 without the setting.
func (s Settings) Replicas() int32 {
	if s.Azure == nil || s.Azure.Replicas == nil {
		return 0
	}
	return *s.Azure.Replicas
}

// InitializationRate returns the rate of volumes from the settings, in MiB/s; 0 if absent.
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
