package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// TestManyImages: the status shows the count from the last list of instances, and from seven of ten images also the
// condition Degraded. Captures continue, and the count needs no request.
func TestManyImages(t *testing.T) {
	for images, wanted := range map[int]bool{3: false, 6: false, 7: true, 8: true} {
		s := newTestEnv(t)
		pool := s.pool("pool1", 3, 20)
		s.policy("all", nil)
		var instances []cloud.Instance
		for i := range images - 1 {
			instances = append(instances, cloud.Instance{ID: s.cloud.InstanceIDs(pool)[i%3], Image: fmt.Sprintf("image-%d", i)})
		}
		s.decider.PoolCache.Counted(pool, imagecount.Of(cloud.Recipe{}, instances, 10).Brief())
		s.runPass()
		status := s.status("all")
		if got := int(status.Status.Pools[0].Images); got != images {
			t.Errorf("%d images in the status, want %d", got, images)
		}
		degraded := meta.FindStatusCondition(status.Status.Conditions, v1alpha1.ConditionDegraded)
		reported := degraded != nil && degraded.Reason == v1alpha1.PolicyManyImages
		if reported != wanted || reported && !strings.Contains(degraded.Message, "image image-0, on pool1-0") {
			t.Errorf("%d images: %+v", images, degraded)
		}
		if got := s.donors(); len(got) != 1 {
			t.Errorf("donors = %v, want a capture", got)
		}
	}
}
