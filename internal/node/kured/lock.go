// Package kured reads the lock of kured, the reboot daemon: a reboot by kured and a capture at the same time take two nodes
// out of service. The package never writes the lock.
package kured

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Default is the DaemonSet of kured's own manifest and chart, as NAMESPACE/NAME.
const Default = "kube-system/kured"

// annotation of the DaemonSet with kured's lock, unless --lock-annotation names another annotation.
const annotation = "weave.works/kured-node-lock"

// Lock is the known state of kured's lock. The zero value is a free lock.
type Lock struct {
	// Node is the holder: kured reboots the node, or waits for its return. Empty if the lock is free or unknown.
	Node string
	// Release is the command that releases a lock of a missing Node, which kured may never release. Otherwise empty.
	Release string
	// Unknown is the reason of an unknown state; empty if the state is known.
	Unknown string
}

// Holder names the node of the lock, with the command to release a lock of a missing Node.
func (l Lock) Holder() string {
	held := "kured holds its lock for node " + l.Node
	if l.Release != "" {
		held += ", which does not exist: if the node does not come back, release the lock with `" + l.Release + "`"
	}
	return held
}

// hold is the lock of one node. Source: kubereboot/kured, pkg/daemonsetlock.
type hold struct {
	NodeID  string    `json:"nodeID"`
	Created time.Time `json:"created"`
	// TTL in nanoseconds; zero means forever.
	TTL time.Duration `json:"TTL"`
}

// holds is the content of the annotation: one hold, or several with --concurrency.
type holds struct {
	hold  `json:",inline"`
	Locks []hold `json:"locks"`
}

// Read reads the lock of the DaemonSet, named as NAMESPACE/NAME; an empty name means no lock. A missing DaemonSet holds no
// lock. Without permission, or with an unknown format, the lock is unknown and not an error: kured may not be installed.
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

// RunsOn reports whether a pod of the DaemonSet, named as NAMESPACE/NAME, is on the node.
func RunsOn(ctx context.Context, kube kubernetes.Interface, daemonSet, node string) (bool, error) {
	namespace, name, named := strings.Cut(daemonSet, "/")
	if !named {
		return false, nil
	}
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return false, fmt.Errorf("list the pods of DaemonSet %s on node %s: %w", daemonSet, node, err)
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner != nil && owner.Kind == "DaemonSet" && owner.Name == name
	}), nil
}

// holders are the nodes of the lock, or the reason of an unknown state.
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
