package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestDonorWatch: a node that becomes Ready or boots again is news. An unchanged node is no news, nor is a node without a
// permission to watch.
func TestDonorWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		kube := fake.NewClientset(donorNode(corev1.ConditionFalse, "boot-1"))
		watch := newDonorWatch(kube, "donor")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			watch.run(ctx)
		}()
		synctest.Wait()
		for _, step := range []struct {
			name  string
			ready corev1.ConditionStatus
			boot  string
			news  bool
		}{
			{"a new boot", corev1.ConditionFalse, "boot-2", true},
			{"Ready", corev1.ConditionTrue, "boot-2", true},
			{"the same again", corev1.ConditionTrue, "boot-2", false},
			{"not Ready", corev1.ConditionUnknown, "boot-2", true},
		} {
			if _, err := kube.CoreV1().Nodes().Update(ctx, donorNode(step.ready, step.boot), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case <-watch.news:
				if !step.news {
					t.Errorf("%s was news", step.name)
				}
			default:
				if step.news {
					t.Errorf("%s was no news", step.name)
				}
			}
		}
		cancel()
		<-ended
	})
}

// TestDonorWatchAway: a failed watch is repeated with a pause, and ends with its context.
func TestDonorWatchAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, asked := fake.NewClientset(), 0
		kube.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
			asked++
			return true, nil, errors.New("the API server is away")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		watch := newDonorWatch(kube, "donor")
		watch.run(ctx)
		if tries := int(time.Hour / retryDelay); asked > tries+1 || asked < tries/2 {
			t.Errorf("asked %d times in an hour", asked)
		}
	})
}

func donorNode(ready corev1.ConditionStatus, boot string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "donor"}}
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

// TestDonorWatchForbidden: without permission, the watch is not repeated.
func TestDonorWatchForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, asked := fake.NewClientset(), 0
		kube.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
			asked++
			return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "donor", errors.New("no"))
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		newDonorWatch(kube, "donor").run(ctx)
		if asked != 1 || ctx.Err() != nil {
			t.Errorf("asked %d times, until %v", asked, ctx.Err())
		}
	})
}
