package membership

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joining"
)

// kubeadmConfig is what kubeadm keeps in a cluster, in kube-system.
const kubeadmConfig = "kubeadm-config"

// Joins tells how the nodes of a pool join. The cluster is asked only where what is known already does not tell; who may not look
// there is no error.
func Joins(ctx context.Context, kube kubernetes.Interface, facts joining.Facts) (joining.Answer, error) {
	if facts.Told() {
		return joining.Of(facts), nil
	}
	_, err := kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, kubeadmConfig, metav1.GetOptions{})
	switch {
	case err == nil:
		facts.KubeadmConfig = true
	case apierrors.IsForbidden(err):
		facts.Unread = err.Error()
	case !apierrors.IsNotFound(err):
		return joining.Answer{}, fmt.Errorf("read ConfigMap %s/%s: %w", metav1.NamespaceSystem, kubeadmConfig, err)
	}
	return joining.Of(facts), nil
}

// Versions is the part of a provider that tells of a pool and its versions.
type Versions interface {
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Images(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error)
}

// FactsOf are those of a pool's node, with the version that the pool's recipe names. A cloud that can't be asked tells none: whoever
// captures asks it again.
func FactsOf(ctx context.Context, v Versions, n *corev1.Node, id cloud.PoolID) joining.Facts {
	pool, err := v.Pool(ctx, id)
	if err != nil || pool.Recipe.Version == "" {
		return joining.Facts{Node: n}
	}
	images, err := v.Images(ctx, id)
	if err != nil {
		return joining.Facts{Node: n}
	}
	return joining.With(n, pool, images)
}
