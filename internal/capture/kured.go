package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultKured is where kured's own manifest and chart put its DaemonSet.
const DefaultKured = "kube-system/kured"

// kuredLock is the annotation of its DaemonSet that kured keeps its lock in, unless --lock-annotation names another.
const kuredLock = "weave.works/kured-node-lock"

// lockOfKured is one node's hold. Source: kubereboot/kured, pkg/daemonsetlock.
type lockOfKured struct {
	NodeID  string    `json:"nodeID"`
	Created time.Time `json:"created"`
	// TTL in nanoseconds; for good if zero.
	TTL time.Duration `json:"TTL"`
}

// locksOfKured is what the annotation holds: one lock, or with --concurrency several.
type locksOfKured struct {
	lockOfKured `json:",inline"`
	Locks       []lockOfKured `json:"locks"`
}

// lookKured finds the node for which kured holds its lock: it reboots that one, or waits for it to be back. A
// DaemonSet that is not there, or may not be read, holds nothing.
func (e *Engine) lookKured(ctx context.Context, w *world) error {
	namespace, name, named := strings.Cut(e.Kured, "/")
	if !named {
		return nil
	}
	set, err := e.Kube.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read DaemonSet %s, which holds kured's lock: %w", e.Kured, err)
	}
	node, err := rebooting(set, e.now())
	if err != nil {
		e.Log.Error(err, "kured's lock is taken for free", "daemonset", e.Kured)
	}
	if w.kured = node; node != "" {
		w.facts.Queued = true
	}
	return nil
}

// rebooting is the node that kured's lock is held for now; empty if it is free.
func rebooting(set *appsv1.DaemonSet, now time.Time) (node string, err error) {
	text, held := set.Annotations[lockAnnotation(set)]
	if !held {
		return "", nil
	}
	found := locksOfKured{}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return "", fmt.Errorf("read the lock: %w", err)
	}
	for _, lock := range append(found.Locks, found.lockOfKured) {
		if lock.NodeID != "" && (lock.TTL <= 0 || now.Sub(lock.Created) < lock.TTL) {
			return lock.NodeID, nil
		}
	}
	return "", nil
}

func lockAnnotation(set *appsv1.DaemonSet) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, word := range append(c.Command[:len(c.Command):len(c.Command)], c.Args...) {
			if name, found := strings.CutPrefix(word, "--lock-annotation="); found {
				return name
			}
		}
	}
	return kuredLock
}
