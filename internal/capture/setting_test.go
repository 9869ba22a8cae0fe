package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func TestReplicasReachTheCloud(t *testing.T) {
	five := int32(5)
	settings := v1alpha1.Settings{Azure: &v1alpha1.AzureSettings{Replicas: &five}}
	w := &pass{p: &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Settings: settings}}, disk: diskObjects{proof: &v1alpha1.Proof{}}}
	if got := w.imageSpec(noon).Replicas; got != 5 {
		t.Errorf("the cloud gets %d replicas", got)
	}
}
