package nodelabel

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// unlabelled selects the nodes that this package has something to do for.
const unlabelled = "!" + v1alpha1.VersionLabel

// watch rings the bell for each unlabelled node that appears or changes, and returns once those that are there
// have been seen. A node leaves the watch when it gets its label; of those that stay only names are kept.
func (l *Labeler) watch(ctx context.Context, wake chan<- struct{}) error {
	informer := metadatainformer.NewFilteredMetadataInformer(l.Metadata, corev1.SchemeGroupVersion.WithResource("nodes"),
		metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = unlabelled }).Informer()
	if err := informer.SetTransform(nameOnly); err != nil {
		return err
	}
	ring := func(object any) {
		node, err := meta.Accessor(object)
		if err != nil || !l.interesting(node.GetUID()) {
			return
		}
		select {
		case wake <- struct{}{}:
		default: // it rings already
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    ring,
		UpdateFunc: func(_, node any) { ring(node) },
		DeleteFunc: func(object any) {
			if tombstone, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = tombstone.Obj
			}
			if node, err := meta.Accessor(object); err == nil {
				l.forget(node.GetUID())
			}
		},
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && ctx.Err() == nil {
		return errors.New("the cluster's nodes cannot be watched")
	}
	return nil
}

// nameOnly is all that is kept of a node.
func nameOnly(object any) (any, error) {
	node, is := object.(*metav1.PartialObjectMetadata)
	if !is {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
	}}, nil
}
