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
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
)

// kubeadmConfig is kubeadm's ConfigMap in kube-system.
const kubeadmConfig = "kubeadm-config"

// configLife is how long Joiner remembers whether the ConfigMap of kubeadm exists. kubeadm writes the ConfigMap once.
const configLife = time.Minute

// Joiner finds how nodes join, with one request for many pools. Joiner is safe for concurrent use.
type Joiner struct {
	Kube kubernetes.Interface
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	mu     sync.Mutex
	at     time.Time
	found  bool
	unread string
}

// Joins returns how the nodes of a pool join. Joins reads the cluster only if the facts are not enough. A missing
// permission for the ConfigMap is no error.
func (j *Joiner) Joins(ctx context.Context, facts bootstrapkind.Facts) (bootstrapkind.Answer, error) {
	if facts.IsKnown() {
		return bootstrapkind.Of(facts), nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.Now != nil {
		now = j.Now()
	}
	if j.at.IsZero() || now.Sub(j.at) >= configLife {
		if err := j.readKubeadmConfig(ctx); err != nil {
			return bootstrapkind.Answer{}, err
		}
		j.at = now
	}
	facts.KubeadmConfig, facts.Unread = j.found, j.unread
	return bootstrapkind.Of(facts), nil
}

func (j *Joiner) readKubeadmConfig(ctx context.Context) error {
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

// Joins calls Joiner.Joins for one pool.
func Joins(ctx context.Context, kube kubernetes.Interface, facts bootstrapkind.Facts) (bootstrapkind.Answer, error) {
	return (&Joiner{Kube: kube}).Joins(ctx, facts)
}

// Versions is the part of a provider that reads a pool and the pool's versions.
type Versions interface {
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Images(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error)
}

// FactsOf returns the facts about a pool's node, with the version of the pool's recipe. After an error of the cloud the
// facts are without the version: a capture asks the cloud again.
func FactsOf(ctx context.Context, v Versions, n *corev1.Node, id cloud.PoolID) bootstrapkind.Facts {
	pool, err := v.Pool(ctx, id)
	if err != nil || pool.Recipe.Version == "" {
		return bootstrapkind.Facts{Node: n}
	}
	images, err := v.Images(ctx, id)
	if err != nil {
		return bootstrapkind.Facts{Node: n}
	}
	return bootstrapkind.With(n, pool, images)
}
