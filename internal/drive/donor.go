package drive

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// donorWatch hears of the donor's node, so that the capture goes on the moment that it is back. It only
// wakes: every pass looks for itself, so that a watch which cannot be had, or misses something, costs time
// and nothing else.
type donorWatch struct {
	kube kubernetes.Interface
	node string
	news chan struct{} // of one place: news that nobody has taken yet are still news
}

func newDonorWatch(kube kubernetes.Interface, node string) *donorWatch {
	return &donorWatch{kube: kube, node: node, news: make(chan struct{}, 1)}
}

// run watches until the context ends, or it turns out that nobody is allowed to.
func (w *donorWatch) run(ctx context.Context) {
	var last nodestate.Boot
	for ctx.Err() == nil {
		if err := w.once(ctx, &last); cluster.NotAllowed(err) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// once watches for as long as one watch lasts. It begins with the node as it is.
func (w *donorWatch) once(ctx context.Context, last *nodestate.Boot) error {
	ctx, cancel := context.WithTimeout(ctx, rewatch+10*time.Second)
	defer cancel()
	timeout := int64(rewatch / time.Second)
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
			w.take(event, last)
		}
	}
}

func (w *donorWatch) take(event apiwatch.Event, last *nodestate.Boot) {
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
