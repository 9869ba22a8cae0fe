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

// Running describes the installed software of a cluster.
type Running struct {
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes"`
	// Controllers are Kamino's controllers in the namespace.
	Controllers []Controller `json:"controllers"`
}

// Controller is a Deployment of Kamino's controller.
type Controller struct {
	// Deployment is NAMESPACE/NAME.
	Deployment string `json:"deployment"`
	Image      string `json:"image"`
	Ready      int32  `json:"ready"`
	Replicas   int32  `json:"replicas"`
}

// Running returns the version of the API server and the controllers in the namespace.
func (c *Connection) Running(ctx context.Context, namespace string) (*Running, error) {
	body, err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var seen struct{ GitVersion string }
	if err := json.Unmarshal(body, &seen); err != nil {
		return nil, fmt.Errorf("the API server's version: %w", err)
	}
	// The chart and the manifests both set this label, and a release may have any name.
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

// NodeOrigin describes the origin of a Node.
type NodeOrigin struct {
	ProviderID string
	// Cluster is the Cluster of the Node's Machine or MachinePool in Cluster API; empty without annotations.
	Cluster types.NamespacedName
	// Created is the creation time of the Node.
	Created time.Time
}

// Origins returns the origins of the cluster's first nodes, at most limit.
func (c *Connection) Origins(ctx context.Context, limit int64) ([]NodeOrigin, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	origins := make([]NodeOrigin, len(nodes.Items))
	for i := range nodes.Items {
		annotations := nodes.Items[i].Annotations
		origins[i].ProviderID, origins[i].Created = nodes.Items[i].Spec.ProviderID, nodes.Items[i].CreationTimestamp.Time
		if annotations[cloud.MachineAnnotation] != "" || annotations[cloud.MachineOwnerKindAnnotation] == "MachinePool" {
			origins[i].Cluster = types.NamespacedName{Namespace: annotations[cloud.MachineNamespaceAnnotation],
				Name: annotations[cloud.MachineClusterAnnotation]}
		}
	}
	return origins, nil
}

// annotationDelay is how long Cluster API may take to annotate a Node. The controller writes after the Node has joined, and
// later after a conflict.
const annotationDelay = 10 * time.Minute

// MostlyOf returns the Cluster of Cluster API that more than half of the nodes belong to; empty if there is none. New
// nodes without annotations are ignored. A kubelet can write annotations, so a few nodes must not decide.
func MostlyOf(origins []NodeOrigin, now time.Time) types.NamespacedName {
	count, all := map[types.NamespacedName]int{}, 0
	for _, o := range origins {
		switch {
		case o.Cluster.Namespace != "" && o.Cluster.Name != "":
			count[o.Cluster]++
			all++
		case now.Sub(o.Created) > annotationDelay:
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
