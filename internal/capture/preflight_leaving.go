package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Objects of the cluster with facts on joining and growing. Sources: kubeadm's bootstrap signer, which adds
// jws-kubeconfig-<token ID> to cluster-info for each valid token; the cluster autoscaler.
const (
	clusterInfo      = "cluster-info"
	tokenSignature   = "jws-kubeconfig-"
	autoscalerStatus = "cluster-autoscaler-status"
)

// removalFacts collects the volumes that a leaving donor takes away, and the means of its pool to get a replacement. Missing
// or forbidden objects are ignored.
func (q preflight) removalFacts(ctx context.Context, w *pass, c *admission.Case) (admission.DonorRemoval, error) {
	var found admission.DonorRemoval
	volumes, err := q.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		volumes = &corev1.PersistentVolumeList{}
	case err != nil:
		return found, fmt.Errorf("list persistentvolumes: %w", err)
	}
	for i := range volumes.Items {
		if admission.OnNode(&volumes.Items[i], w.donor.node) {
			found.Volumes = append(found.Volumes, volumes.Items[i].Name)
		}
	}
	slices.Sort(found.Volumes)
	info, err := q.configMapData(ctx, metav1.NamespacePublic, clusterInfo)
	if err != nil {
		return found, err
	}
	signed := slices.ContainsFunc(keys(info), func(key string) bool { return strings.HasPrefix(key, tokenSignature) })
	_, machine := w.donor.node.Annotations[cloud.MachineAnnotation] // Cluster API creates a token for each new machine
	found.NoToken = info != nil && !signed && !machine
	status, err := q.configMapData(ctx, metav1.NamespaceSystem, autoscalerStatus)
	found.Most = admission.MostByAutoscaler(status["status"], c.PoolName)
	return found, err
}

// configMapData returns the data of a ConfigMap; nil if the ConfigMap is missing or forbidden.
func (q preflight) configMapData(ctx context.Context, namespace, name string) (map[string]string, error) {
	found, err := q.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return found.Data, nil
}

func keys(of map[string]string) (all []string) {
	for key := range of {
		all = append(all, key)
	}
	return all
}
