package cluster

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// InCluster returns the provider for this cluster: see cloud.InCluster. An error is passed on.
func (c *Connection) InCluster(provider cloud.Provider, err error) (cloud.Provider, error) {
	if err != nil {
		return provider, err
	}
	return cloud.InCluster(provider, ID(c.Kube)), nil
}

// ID returns a function that returns the cluster's ID: the UID of namespace kube-system, which no cluster deletes. The ID is
// read once; an error is returned and not kept.
func ID(kube kubernetes.Interface) func(context.Context) (string, error) {
	var mu sync.Mutex
	id := ""
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if id != "" {
			return id, nil
		}
		system, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return "", fmt.Errorf("the cluster's ID, the UID of namespace %s, may not be read: apply the roles of this version (`kamino manifests`), "+
				"or allow the verb get on this one namespace: %w", metav1.NamespaceSystem, err)
		case err != nil:
			return "", fmt.Errorf("read the cluster's ID, the UID of namespace %s: %w", metav1.NamespaceSystem, err)
		case system.UID == "":
			return "", fmt.Errorf("namespace %s has no UID, so the cluster has no ID", metav1.NamespaceSystem)
		}
		id = string(system.UID)
		return id, nil
	}
}
