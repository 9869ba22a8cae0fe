package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
)

// TestASettingOfAnotherCloud is refused before the capture, and also by the API server: authors of policies may not
// know the pools.
func TestASettingOfAnotherCloud(t *testing.T) {
	five := int32(5)
	s := newStage(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Azure = &v1alpha1.AzureSettings{Replicas: &five} })
	s.refused(admission.SettingOfOtherCloud, "settings.azure is a setting of another cloud", "remove settings.azure")
}

// TestReplicasReachTheCloud by either of their names.
func TestReplicasReachTheCloud(t *testing.T) {
	five := int32(5)
	for name, settings := range map[string]v1alpha1.Settings{
		"the name":        {Azure: &v1alpha1.AzureSettings{Replicas: &five}},
		"the former name": {Publish: v1alpha1.PublishSettings{Replicas: &five}},
	} {
		w := &observed{p: &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Settings: settings}}, proof: &v1alpha1.Proof{}}
		if got := w.imageSpec(noon).Replicas; got != 5 {
			t.Errorf("%s: %d replicas are asked for", name, got)
		}
	}
}
