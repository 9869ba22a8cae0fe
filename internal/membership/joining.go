package membership

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joining"
)

// kubeadmConfig is what kubeadm keeps in a cluster, in kube-system.
const kubeadmConfig = "kubeadm-config"

// configLife is how long it is remembered whether a cluster has the ConfigMap of kubeadm, which is written once in its life.
const configLife = time.Minute

// Joiner reports how nodes join, for many pools with one request. Safe for concurrent use.
type Joiner struct {
	Kube kubernetes.Interface
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	mu     sync.Mutex
	at     time.Time
	found  bool
	unread string
}

// Joins tells how the nodes of a pool join. The cluster is asked only where what is known already does not tell; who may not look
// there is no error.
func (j *Joiner) Joins(ctx context.Context, facts joining.Facts) (joining.Answer, error) {
	if facts.Told() {
		return joining.Of(facts), nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.Now != nil {
		now = j.Now()
	}
	if j.at.IsZero() || now.Sub(j.at) >= configLife {
		if err := j.look(ctx); err != nil {
			return joining.Answer{}, err
		}
		j.at = now
	}
	facts.KubeadmConfig, facts.Unread = j.found, j.unread
	return joining.Of(facts), nil
}

func (j *Joiner) look(ctx context.Context) error {
	_, err := j.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, kubeadmConfig, metav1.GetOptions{})
	j.found, j.unread = err == nil, ""
	switch {
	case apierrors.IsForbidden(err):
		j.unread = err.Error()
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read ConfigMap %s/%s: %w", metav1.NamespaceSystem, kubeadmConfig, err)
	}
	return nil
}

// Joins is Joiner's for one pool.
func Joins(ctx context.Context, kube kubernetes.Interface, facts joining.Facts) (joining.Answer, error) {
	return (&Joiner{Kube: kube}).Joins(ctx, facts)
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
