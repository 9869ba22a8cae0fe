package runner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/process"
)

// donorWatch wakes the driver when the donor's node changes, so that the capture continues at once. Each pass reads the
// node itself: a failed watch costs only time.
type donorWatch struct {
	kube kubernetes.Interface
	node string
	news chan struct{} // with capacity 1, so that a wake-up waits for its receiver
}

func newDonorWatch(kube kubernetes.Interface, node string) *donorWatch {
	return &donorWatch{kube: kube, node: node, news: make(chan struct{}, 1)}
}

// run watches until the context ends, or until the API server denies the watch.
func (w *donorWatch) run(ctx context.Context) {
	var last nodestate.Boot
	for ctx.Err() == nil {
		if err := w.once(ctx, &last); cluster.NotAllowed(err) || process.Wait(ctx, retryDelay) != nil {
			return
		}
	}
}

// once runs one watch, and begins with the current node.
func (w *donorWatch) once(ctx context.Context, last *nodestate.Boot) error {
	ctx, cancel := context.WithTimeout(ctx, watchDuration+10*time.Second)
	defer cancel()
	timeout := int64(watchDuration / time.Second)
	events, err := w.kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.node).String(), TimeoutSeconds: &timeout,
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			w.handle(event, last)
		}
	}
}

func (w *donorWatch) handle(event apiwatch.Event, last *nodestate.Boot) {
	n, isNode := event.Object.(*corev1.Node)
	if !isNode {
		return
	}
	state := nodestate.BootOf(n)
	if state == *last {
		return
	}
	*last = state
	select {
	case w.news <- struct{}{}:
	default:
	}
}
