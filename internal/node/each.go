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
// pins the memory of a page.
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

// Pages calls do for each page of Nodes, while the API server sends the next page. Selector and errors are as in Each.
func Pages(ctx context.Context, kube kubernetes.Interface, selector string, do func([]corev1.Node) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an error of do ends the request for the next page
	type answer struct {
		list *corev1.NodeList
		err  error
	}
	ask := func(after string) answer {
		list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: page, Continue: after})
		return answer{list, err}
	}
	for got := ask(""); ; {
		if got.err != nil {
			return fmt.Errorf("list nodes: %w", got.err)
		}
		next := make(chan answer, 1)
		if after := got.list.Continue; after != "" {
			go func() { next <- ask(after) }()
		}
		if err := do(got.list.Items); err != nil || got.list.Continue == "" {
			return err
		}
		got = <-next
	}
}
