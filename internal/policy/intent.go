package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
)

// intentAnnotation is the annotation of a Lease with the versions and the time of an automatic rollback.
const intentAnnotation = "kamino.dev/rollback"

// Intents are Leases with the automatic rollbacks that Kamino has begun. The tags of versions only repeat a rollback, because users
// of the cloud can write tags. Nil records nothing.
type Intents struct {
	Kube      kubernetes.Interface
	Namespace string
}

// began reports whether Kamino began the rollback that the tags of the pool's versions describe.
func (i *Intents) began(ctx context.Context, pool cloud.PoolID, r history.AutoRollback) (bool, error) {
	lease, err := i.Kube.CoordinationV1().Leases(i.Namespace).Get(ctx, intentName(pool), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // a reader of plans may lack the right
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the rollback that pool %s has begun: %w", pool, err)
	}
	return lease.Annotations[intentAnnotation] == intent(r.Version, r.To, r.At.UTC().Format(time.RFC3339)), nil
}

// begin records a rollback before the first tag. The Lease of an earlier rollback is overwritten.
func (i *Intents) begin(ctx context.Context, pool cloud.PoolID, back history.Rollback) error {
	if i == nil {
		return nil
	}
	leases, name := i.Kube.CoordinationV1().Leases(i.Namespace), intentName(pool)
	annotations := map[string]string{intentAnnotation: intent(back.From, back.To, back.Tags[cloud.TagRolledBackAt])}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx,
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: i.Namespace, Annotations: annotations}}, metav1.CreateOptions{})
	case err == nil:
		lease.Annotations = annotations
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("record the rollback of pool %s: %w", back.Pool, err)
	}
	return nil
}

// end deletes the record: the recipe has reached the version.
func (i *Intents) end(ctx context.Context, pool cloud.PoolID) error {
	if i == nil {
		return nil
	}
	err := i.Kube.CoordinationV1().Leases(i.Namespace).Delete(ctx, intentName(pool), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the record of the rollback of pool %s: %w", pool, err)
	}
	return nil
}

func intent(from, to, at string) string { return from + " " + to + " " + at }

// intentName is the name of a pool's Lease. Azure ignores the case of IDs.
func intentName(pool cloud.PoolID) string {
	sum := sha256.Sum256([]byte(strings.ToLower(string(pool))))
	return "kamino-rollback-" + hex.EncodeToString(sum[:8])
}
