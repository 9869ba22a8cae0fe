package recipe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// WarmCloud has the call of a cloud.Provider that changes a warm pool.
type WarmCloud interface {
	ResizeWarmPool(ctx context.Context, pool cloud.PoolID, from, to cloud.WarmLimits) error
}

// Warmer renews the warm pools of pools. The record of a renewal is a Lease, which only Kamino writes.
type Warmer struct {
	Cloud     WarmCloud
	Kube      kubernetes.Interface
	Namespace string
}

// warmAnnotation has the record of a renewal on its Lease.
const warmAnnotation = "kamino.dev/warm-pool"

// warmRecord is the record of a renewal.
type warmRecord struct {
	Owner cloud.WarmLimits `json:"owner"`
	// To are the limits of the round, which begins with Old instances of another image and ends up to Step of all. Left is the number
	// of those after the round; below 0 before its end.
	To   cloud.WarmLimits `json:"to"`
	Step int64            `json:"step"`
	Old  int64            `json:"old"`
	Left int64            `json:"oldAfter"`
}

// Pass does one step of the renewal of a pool's warm pool. may is false if Kamino may begin no renewal, and then it only ends one.
func (w Warmer) Pass(ctx context.Context, pool cloud.Pool, may bool) (Decision, error) {
	lease, record, err := w.read(ctx, pool)
	if err != nil || pool.Warm == nil && record == nil {
		return do(Done), err
	}
	var warm cloud.WarmPool
	if pool.Warm != nil {
		warm = *pool.Warm
	}
	d := nextWarm(warmFactsOf(pool, warm, record, may))
	switch d.Do {
	case Record:
		next := nextRound(record, warm, pool)
		err = w.write(ctx, pool.ID, lease, next)
	case Shrink:
		err = w.Cloud.ResizeWarmPool(ctx, pool.ID, record.Owner, record.To)
	case Note:
		noted := *record
		noted.Left = warm.Old(pool.Recipe)
		err = w.write(ctx, pool.ID, lease, noted)
	case Restore:
		err = w.Cloud.ResizeWarmPool(ctx, pool.ID, record.To, record.Owner)
	case Forget:
		err = w.forget(ctx, lease)
	default: // Done, and the steps of a Change
	}
	return d, err
}

// warmFactsOf are the facts of a warm pool and its record; nil without one.
func warmFactsOf(pool cloud.Pool, warm cloud.WarmPool, record *warmRecord, may bool) warmFacts {
	f := warmFacts{exists: pool.Warm != nil, limits: ofOwner, recorded: record != nil}
	isVersion := pool.Recipe.Version != "" && !pool.Recipe.Latest
	f.old = f.exists && may && isVersion && warm.Old(pool.Recipe) > 0 && isBounded(warm.Limits, pool)
	if f.recorded {
		f.noted = record.Left >= 0
		switch warm.Limits {
		case record.Owner:
		case record.To:
			f.limits = smaller
		default:
			f.limits = changed
		}
	}
	size, wanted := int64(len(warm.Instances)), warm.Limits.Of(pool)
	f.changing = warm.Unknown != "" || warm.Changing > 0 || size > wanted || size < wanted && f.limits != smaller
	return f
}

// forget deletes the record.
func (w Warmer) forget(ctx context.Context, lease *coordinationv1.Lease) error {
	err := w.Kube.CoordinationV1().Leases(w.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// nextRound returns the record of the next round: a quarter of the warm pool ends, or twice as many as before if the last round ended none
// of the old instances.
func nextRound(last *warmRecord, warm cloud.WarmPool, pool cloud.Pool) warmRecord {
	size := int64(len(warm.Instances))
	next := warmRecord{Owner: warm.Limits, Step: max(1, size/4), Old: warm.Old(pool.Recipe), Left: -1}
	if last != nil && last.Left >= last.Old {
		next.Step = last.Step * 2
	}
	next.Step = min(next.Step, size)
	next.To = warm.Limits.To(size-next.Step, pool)
	return next
}

// read returns the Lease and the record of a pool's renewal; nil without one.
func (w Warmer) read(ctx context.Context, pool cloud.Pool) (*coordinationv1.Lease, *warmRecord, error) {
	lease, err := w.Kube.CoordinationV1().Leases(w.Namespace).Get(ctx, warmName(pool.ID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the record of warm pool %s: %w", pool.ID, err)
	}
	record := &warmRecord{}
	if err := json.Unmarshal([]byte(lease.Annotations[warmAnnotation]), record); err != nil {
		return nil, nil, fmt.Errorf("lease %s/%s has no readable record of a warm pool: delete the Lease, and check the limits of the warm pool", w.Namespace, lease.Name)
	}
	if !record.isBounded(pool) {
		return nil, nil, fmt.Errorf("lease %s/%s has limits of a warm pool above the pool's largest size of %d: delete the Lease, "+
			"and check the limits of the warm pool", w.Namespace, lease.Name, pool.MaxSize)
	}
	return lease, record, nil
}

// isBounded reports whether no limit of a warm pool is above the pool's largest size. Kamino renews no other warm pools, so that a
// forged record cannot make the cloud keep more instances.
func isBounded(l cloud.WarmLimits, pool cloud.Pool) bool {
	return l.Min <= pool.MaxSize && l.Prepared <= pool.MaxSize
}

// isBounded reports whether a record can be one of Kamino's: WarmLimits.To lowers the minimum, and adds up to it to the pool's size.
func (r warmRecord) isBounded(pool cloud.Pool) bool {
	return isBounded(r.Owner, pool) && r.To.Min <= r.Owner.Min && r.To.Prepared <= pool.MaxSize+r.Owner.Min
}

// write writes the record, unless it has changed since the read.
func (w Warmer) write(ctx context.Context, pool cloud.PoolID, lease *coordinationv1.Lease, record warmRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	leases, annotations := w.Kube.CoordinationV1().Leases(w.Namespace), map[string]string{warmAnnotation: string(text)}
	if lease == nil {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: warmName(pool), Namespace: w.Namespace, Annotations: annotations}},
			metav1.CreateOptions{})
	} else {
		lease.Annotations = annotations
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("record the renewal of warm pool %s: %w", pool, err)
	}
	return nil
}

func warmName(pool cloud.PoolID) string {
	sum := sha256.Sum256([]byte(strings.ToLower(string(pool))))
	return "kamino-warm-" + hex.EncodeToString(sum[:8])
}
