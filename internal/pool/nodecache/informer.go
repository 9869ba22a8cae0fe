package nodecache

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// page is the number of whole nodes in memory at a time during a list.
const page = 250

// InformerOptions extends the options of a manager's cache: the informer strips each node on arrival. Other readers of
// the cache see only the fields that Strip keeps.
func InformerOptions(options cache.Options) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	for object, by := range options.ByObject {
		byObject[object] = by
	}
	shared := true
	byObject[&corev1.Node{}] = cache.ByObject{Transform: strip, UnsafeDisableDeepCopy: &shared}
	options.ByObject = byObject
	options.NewInformer = newInformer
	return options
}

// strip is the transform function of the informer.
func strip(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		membership.Strip(node)
	}
	return object, nil
}

// newInformer returns an informer that holds at most one page of whole nodes. A streaming API server sends nodes one by one,
// and the informer strips each node. Other API servers send pages.
func newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, nodes := object.(*corev1.Node); nodes {
		watcher := toolscache.ToListerWatcherWithContext(lw)
		lw = &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return listStripped(ctx, watcher, o)
			},
			WatchFuncWithContext: watcher.WatchWithContext,
		}
	}
	return toolscache.NewSharedIndexInformer(lw, object, resync, indexers)
}

// listStripped lists nodes in pages. For resource version 0 the API server returns its whole cache in one response.
// listStripped therefore requests the newest version.
func listStripped(ctx context.Context, lister toolscache.ListerWithContext, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	if o.Limit == 0 || o.Limit > page {
		o.Limit = page
	}
	list, err := lister.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	nodes, is := list.(*corev1.NodeList)
	if !is {
		return nil, fmt.Errorf("a list of nodes came as %T", list)
	}
	for i := range nodes.Items {
		membership.Strip(&nodes.Items[i])
	}
	return nodes, nil
}
