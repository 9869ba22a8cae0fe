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

// unlabelled selects the nodes without the version label.
const unlabelled = "!" + v1alpha1.VersionLabel

// watch wakes the labeler for each unlabelled node that appears or changes, and returns after the first list. The label
// ends the watch of a node. The watch keeps only the names of nodes.
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
		default: // a wake-up is pending
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
		return errors.New("the watch of the cluster's nodes failed")
	}
	return nil
}

// nameOnly drops all fields of a node except the name, the UID and the resource version.
func nameOnly(object any) (any, error) {
	node, is := object.(*metav1.PartialObjectMetadata)
	if !is {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
	}}, nil
}
