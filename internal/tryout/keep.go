package tryout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// kept is what a trial's Node says of the trial, in its annotation: whose it is, how it was, since when it is as it is by the
// clock of who looked, and which pods were made.
type kept struct {
	Prototype string    `json:"prototype"`
	UID       types.UID `json:"uid"`
	Trial     string    `json:"trial"`
	// Boot of the instance that the trial built.
	Boot string `json:"boot,omitempty"`
	// Cordoned and Excluded: it was neither before.
	Cordoned bool `json:"cordoned,omitempty"`
	Excluded bool `json:"excluded,omitempty"`
	// Going: the instance goes with the trial.
	Going bool `json:"going,omitempty"`
	// Ready is what the kubelet said when somebody last saw a change of it, at Since; Stamp is the kubelet's own time of that,
	// which is compared and never reckoned with. FirstReady is when it was first seen Ready, with so many Images.
	Ready      bool        `json:"ready,omitempty"`
	Since      metav1.Time `json:"since"`
	Stamp      string      `json:"stamp,omitempty"`
	FirstReady metav1.Time `json:"firstReady,omitzero"`
	Images     int32       `json:"images,omitempty"`
	// Pods that were made, by their part, and the user's Job.
	Pods map[string]types.UID `json:"pods,omitempty"`
}

// excludeLabel keeps a node out of load balancers' backends. Source: k8s.io/cloud-provider/api.
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// keptOn reads the annotation; one that nobody has written is empty.
func keptOn(node *corev1.Node) (kept, error) {
	var k kept
	text, found := node.Annotations[v1alpha1.TrialKey]
	if !found {
		return k, nil
	}
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return k, fmt.Errorf("annotation %s of node %s: %w: remove it", v1alpha1.TrialKey, node.Name, err)
	}
	return k, nil
}

// hold has users' pods stay away from a node of the trial, and notes how it is. A node that is as it must be is not written.
func (a *attempt) hold(ctx context.Context, node *corev1.Node) (*corev1.Node, kept, error) {
	// The list may be old, and what is kept must not be.
	node, err := a.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return nil, kept{}, err
	}
	err = a.change(ctx, node, func(node *corev1.Node, k *kept) {
		if k.UID != a.uid() || k.Trial != a.Spec.Name {
			*k = kept{Prototype: a.Prototype.Name, UID: a.uid(), Trial: a.Spec.Name, Boot: node.Status.NodeInfo.BootID, Cordoned: k.Cordoned, Excluded: k.Excluded}
		}
		if !node.Spec.Unschedulable {
			node.Spec.Unschedulable, k.Cordoned = true, true
		}
		if _, excluded := node.Labels[excludeLabel]; !excluded {
			metav1.SetMetaDataLabel(&node.ObjectMeta, excludeLabel, "true")
			k.Excluded = true
		}
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1alpha1.TrialKey, string(a.uid()))
		k.observe(node, metav1.NewTime(a.Facts.Now))
	})
	if err != nil {
		return nil, kept{}, err
	}
	k, err := keptOn(node)
	return node, k, err
}

// observe what the kubelet says of itself. A change that came and went between two looks is one, too.
func (k *kept) observe(node *corev1.Node, now metav1.Time) {
	ready, stamp := nodestate.Ready(node), ""
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			stamp = c.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z")
		}
	}
	if k.Since.IsZero() || k.Ready != ready || k.Stamp != stamp {
		k.Ready, k.Stamp, k.Since = ready, stamp, now
	}
	if ready && k.FirstReady.IsZero() {
		k.FirstReady, k.Images = now, int32(min(len(node.Status.Images), 1<<20)) //nolint:gosec // bounded in the same line
	}
}

// change a Node and what is kept on it, in one write that is refused if somebody else has written meanwhile, and is then tried
// again. What changes nothing is not written. The node is as it was written.
func (a *attempt) change(ctx context.Context, node *corev1.Node, change func(*corev1.Node, *kept)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		written, err := a.write(ctx, node, change)
		if err == nil {
			*node = *written
			return nil
		}
		latest, getErr := a.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if latest.UID != node.UID {
			return fmt.Errorf("node %s is another one now", node.Name)
		}
		*node = *latest
		return err
	})
	if err != nil {
		return fmt.Errorf("note the trial on node %s: %w", node.Name, err)
	}
	return nil
}

func (a *attempt) write(ctx context.Context, node *corev1.Node, change func(*corev1.Node, *kept)) (*corev1.Node, error) {
	k, err := keptOn(node)
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	change(changed, &k)
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(k, kept{}) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.TrialKey, string(text))
	} else {
		delete(changed.Annotations, v1alpha1.TrialKey)
	}
	if maps.Equal(changed.Labels, node.Labels) && maps.Equal(changed.Annotations, node.Annotations) && changed.Spec.Unschedulable == node.Spec.Unschedulable {
		return node, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": node.UID, "resourceVersion": node.ResourceVersion,
			"labels": difference(node.Labels, changed.Labels), "annotations": difference(node.Annotations, changed.Annotations),
		},
		"spec": map[string]any{"unschedulable": changed.Spec.Unschedulable},
	})
	if err != nil {
		return nil, err
	}
	return a.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kamino"})
}

// difference of two maps as a merge patch has it.
func difference(from, to map[string]string) map[string]any {
	d := map[string]any{}
	for key, value := range to {
		if old, found := from[key]; !found || old != value {
			d[key] = value
		}
	}
	for key := range from {
		if _, stays := to[key]; !stays {
			d[key] = nil
		}
	}
	return d
}

// giveBack a node as it was before the trial.
func (a *attempt) giveBack(ctx context.Context, node *corev1.Node) error {
	return a.change(ctx, node, func(node *corev1.Node, k *kept) {
		if k.Cordoned {
			node.Spec.Unschedulable = false
		}
		if k.Excluded {
			delete(node.Labels, excludeLabel)
		}
		delete(node.Labels, v1alpha1.TrialKey)
		*k = kept{}
	})
}
