package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
)

// TestASettingOfAnotherCloud is refused before the capture, and also by the API server: authors of policies may not
// know the pools.
func TestASettingOfAnotherCloud(t *testing.T) {
	five := int32(5)
	s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Azure = &v1alpha1.AzureSettings{Replicas: &five} })
	s.refused(admission.SettingOfOtherCloud, "settings.azure is a setting of another cloud", "remove settings.azure")
}

func TestReplicasReachTheCloud(t *testing.T) {
	five := int32(5)
	settings := v1alpha1.Settings{Azure: &v1alpha1.AzureSettings{Replicas: &five}}
	w := &pass{p: &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Settings: settings}}, disk: diskObjects{proof: &v1alpha1.Proof{}}}
	if got := w.imageSpec(noon).Replicas; got != 5 {
		t.Errorf("the cloud gets %d replicas", got)
	}
}
