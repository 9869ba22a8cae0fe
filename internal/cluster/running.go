package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Running is what runs in a cluster.
type Running struct {
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes"`
	// Controllers of Kamino's in its namespace.
	Controllers []Controller `json:"controllers"`
}

// Controller is a Deployment of Kamino's controller.
type Controller struct {
	// Deployment as NAMESPACE/NAME.
	Deployment string `json:"deployment"`
	Image      string `json:"image"`
	Ready      int32  `json:"ready"`
	Replicas   int32  `json:"replicas"`
}

// Running tells what runs in the cluster, with the controllers of a namespace.
func (c *Connection) Running(ctx context.Context, namespace string) (*Running, error) {
	body, err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var seen struct{ GitVersion string }
	if err := json.Unmarshal(body, &seen); err != nil {
		return nil, fmt.Errorf("the API server's version: %w", err)
	}
	// By what both the chart and the manifests call it: a release may have any name.
	deployments, err := c.Kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	if err != nil {
		return nil, fmt.Errorf("list deployments in namespace %s: %w", namespace, err)
	}
	found := &Running{Kubernetes: seen.GitVersion, Controllers: []Controller{}}
	for _, d := range deployments.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			if slices.Contains(container.Args, "controller") {
				found.Controllers = append(found.Controllers, Controller{
					Deployment: d.Namespace + "/" + d.Name, Image: container.Image, Ready: d.Status.ReadyReplicas, Replicas: *d.Spec.Replicas,
				})
			}
		}
	}
	return found, nil
}

// NodeOrigin is what a Node says of where it comes from.
type NodeOrigin struct {
	ProviderID string
	// Cluster of Cluster API's that its Machine is of; empty if it says nothing of one.
	Cluster types.NamespacedName
	// Created is when the Node was.
	Created time.Time
}

// Origins are those of the cluster's first nodes, as many as limit says.
func (c *Connection) Origins(ctx context.Context, limit int64) ([]NodeOrigin, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	origins := make([]NodeOrigin, len(nodes.Items))
	for i := range nodes.Items {
		said := nodes.Items[i].Annotations
		origins[i].ProviderID, origins[i].Created = nodes.Items[i].Spec.ProviderID, nodes.Items[i].CreationTimestamp.Time
		if said[cloud.MachineAnnotation] != "" {
			origins[i].Cluster = types.NamespacedName{Namespace: said[cloud.MachineNamespaceAnnotation], Name: said[cloud.MachineClusterAnnotation]}
		}
	}
	return origins, nil
}

// unsaid is for how long a Node may be there before Cluster API says on it whose it is: its controller does so once the Node has
// joined, and later where another has written on that at the same time.
const unsaid = 10 * time.Minute

// MostlyOf is the Cluster of Cluster API's that more than half of the nodes are of, but for new ones that say nothing yet; empty if
// there is none. What a Node says of itself its kubelet may write: one node, or a few, change nothing for the others.
func MostlyOf(origins []NodeOrigin, now time.Time) types.NamespacedName {
	count, all := map[types.NamespacedName]int{}, 0
	for _, o := range origins {
		switch {
		case o.Cluster.Namespace != "" && o.Cluster.Name != "":
			count[o.Cluster]++
			all++
		case now.Sub(o.Created) > unsaid:
			all++
		}
	}
	for of, n := range count {
		if 2*n > all {
			return of
		}
	}
	return types.NamespacedName{}
}
