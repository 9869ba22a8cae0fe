package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// page is how many nodes are asked for at once: a cluster may have many thousands, of ten kilobytes each.
const page = 250

// Each goes through the cluster's Nodes that the label selector names, all of them where it is empty, a page at a
// time. It ends with the first error, which is the API server's or do's own. A node must not be kept for longer than
// the call but as a copy: it holds its whole page.
func Each(ctx context.Context, kube kubernetes.Interface, selector string, do func(*corev1.Node) error) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := kube.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		return list, nil
	})
	pages.PageSize = page
	pages.PageBufferSize = 0
	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
		return do(o.(*corev1.Node))
	})
}
