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
)

// page is how many nodes of a list are held whole at once.
const page = 250

// InformerOptions add to a manager's cache what a controller of policies keeps: nodes, each stripped and packed as it arrives.
// Who else reads nodes from that cache finds of labels, annotations and conditions what nodecache.Pack leaves.
func InformerOptions(options cache.Options) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	for object, by := range options.ByObject {
		byObject[object] = by
	}
	shared := true
	byObject[&corev1.Node{}] = cache.ByObject{Transform: pack, UnsafeDisableDeepCopy: &shared}
	options.ByObject = byObject
	options.NewInformer = newInformer
	return options
}

// pack is an informer's transformation.
func pack(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		Pack(node)
	}
	return object, nil
}

// newInformer makes an informer that, of nodes, never holds more than a page whole. An API server that streams
// its lists sends one after the other, and each is stripped on arrival; one that doesn't sends them all at once,
// unless it is asked for pages.
func newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, nodes := object.(*corev1.Node); nodes {
		watcher := toolscache.ToListerWatcherWithContext(lw)
		lw = &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return listPacked(ctx, watcher, o)
			},
			WatchFuncWithContext: watcher.WatchWithContext,
		}
	}
	return toolscache.NewSharedIndexInformer(lw, object, resync, indexers)
}

// listPacked lists nodes a page at a time. "As of any time" (resource version 0) is answered from the API
// server's cache in one piece, so that the newest is asked for instead.
func listPacked(ctx context.Context, lister toolscache.ListerWithContext, o metav1.ListOptions) (runtime.Object, error) {
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
		Pack(&nodes.Items[i])
	}
	return nodes, nil
}
