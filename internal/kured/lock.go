// Package kured reads the lock of kured, the reboot daemon: who takes a node while kured reboots another has two of
// them away at once. It never writes it.
package kured

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Default is where kured's own manifest and chart put its DaemonSet, as NAMESPACE/NAME.
const Default = "kube-system/kured"

// annotation of its DaemonSet that kured keeps its lock in, unless --lock-annotation names another.
const annotation = "weave.works/kured-node-lock"

// Lock is what is known of kured's lock. The zero value is a free one.
type Lock struct {
	// Node that it is held for: kured reboots it, or waits for it to be back. Empty if the lock is free, or if that
	// can't be told.
	Node string
	// Release is the command that releases the lock if its Node does not exist, so that kured may never do so. Otherwise empty.
	Release string
	// Unknown says why it can't be told whether the lock is held; empty if it can.
	Unknown string
}

// Holder says for which node kured holds the lock, and how to release a lock whose Node does not exist.
func (l Lock) Holder() string {
	held := "kured holds its lock for node " + l.Node
	if l.Release != "" {
		held += ", which does not exist: if the node does not come back, release the lock with `" + l.Release + "`"
	}
	return held
}

// hold is one node's. Source: kubereboot/kured, pkg/daemonsetlock.
type hold struct {
	NodeID  string    `json:"nodeID"`
	Created time.Time `json:"created"`
	// TTL in nanoseconds; for good if zero.
	TTL time.Duration `json:"TTL"`
}

// holds is what the annotation tells: one hold, or with --concurrency several.
type holds struct {
	hold  `json:",inline"`
	Locks []hold `json:"locks"`
}

// Read reads the lock of the kured whose DaemonSet is named as NAMESPACE/NAME; of none if the name is empty. A DaemonSet
// that is not there holds nothing. One that may not be read, and a lock in no form that kured writes, are no errors
// but unknown: kured may never have been there.
func Read(ctx context.Context, kube kubernetes.Interface, daemonSet string, now time.Time) (Lock, error) {
	namespace, name, named := strings.Cut(daemonSet, "/")
	if !named {
		return Lock{}, nil
	}
	set, err := kube.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Lock{}, nil
	case apierrors.IsForbidden(err):
		return Lock{Unknown: fmt.Sprintf("DaemonSet %s may not be read: %s", daemonSet, err)}, nil
	case err != nil:
		return Lock{}, fmt.Errorf("read DaemonSet %s, which holds kured's lock: %w", daemonSet, err)
	}
	nodes, unknown := holders(set, now)
	lock := Lock{Unknown: unknown}
	for _, holder := range nodes {
		_, err := kube.CoreV1().Nodes().Get(ctx, holder, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return Lock{Node: holder}, nil // also if the Node cannot be read
		}
		if lock.Node == "" {
			lock.Node, lock.Release = holder, fmt.Sprintf("kubectl -n %s annotate daemonset %s %s-", namespace, name, annotationOf(set))
		}
	}
	return lock, nil
}

// holders are the nodes that the lock is held for, or why that is unknown.
func holders(set *appsv1.DaemonSet, now time.Time) (nodes []string, unknown string) {
	key := annotationOf(set)
	text, held := set.Annotations[key]
	if !held {
		return nil, ""
	}
	found := holds{}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Sprintf("annotation %s of DaemonSet %s/%s is no lock of kured's: %s", key, set.Namespace, set.Name, err)
	}
	for _, h := range append(found.Locks, found.hold) {
		if h.NodeID != "" && (h.TTL <= 0 || now.Sub(h.Created) < h.TTL) {
			nodes = append(nodes, h.NodeID)
		}
	}
	return nodes, ""
}

func annotationOf(set *appsv1.DaemonSet) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, word := range append(c.Command[:len(c.Command):len(c.Command)], c.Args...) {
			if name, found := strings.CutPrefix(word, "--lock-annotation="); found {
				return name
			}
		}
	}
	return annotation
}
