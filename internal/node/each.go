package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// page is the number of Nodes in one request. A cluster may have thousands of Nodes of ten kilobytes.
const page = 250

// Each calls do for every Node that matches the label selector, in pages, until an error. Copy a Node to keep the Node: a Node
// pins the memory of a page. client-go's pager prefetches, and would hold two pages.
func Each(ctx context.Context, kube kubernetes.Interface, selector string, do func(*corev1.Node) error) error {
	return Pages(ctx, kube, selector, func(page []corev1.Node) error {
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Pages calls do for each page of Nodes. Selector and errors are as in Each.
func Pages(ctx context.Context, kube kubernetes.Interface, selector string, do func([]corev1.Node) error) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := kube.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		if err := do(list.Items); err != nil {
			return err
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}
