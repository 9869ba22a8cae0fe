package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// page is how many nodes are asked for at once: a cluster may have many thousands, of ten kilobytes each.
const page = 250

// Each goes through the cluster's Nodes that the label selector names, all of them where it is empty, a page at a
// time. It ends with the first error, which is the API server's or do's own. A node must not be kept for longer than
// the call but as a copy: it holds its whole page.
//
// It does not use client-go's pager, which asks from a goroutine of its own and holds two pages.
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

// Pages is Each with all nodes of a page at once.
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
