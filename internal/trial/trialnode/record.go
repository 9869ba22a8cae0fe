package trialnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

// trialRecord is the lasting state of an instance and its Node. The state is in the Prototype's record, where only Kamino writes.
type trialRecord = v1alpha1.TrialNodeRecord

// trialMark is the Node's annotation for people. Kamino reads the annotation only for a Node without a record: an earlier look
// may have cordoned the Node and crashed before the write of the record.
type trialMark struct {
	Prototype string    `json:"prototype"`
	UID       types.UID `json:"uid"`
	Trial     string    `json:"trial"`
	Cordoned  bool      `json:"cordoned,omitempty"`
	Excluded  bool      `json:"excluded,omitempty"`
}

// excludeLabel removes a node from load balancers' backends. Source: k8s.io/cloud-provider/api.
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// nodeWriter writes the Nodes of a trial.
type nodeWriter struct{ objects }

// hold keeps users' pods away from a node of the trial. hold does not write a Node without a difference.
func (w *nodeWriter) hold(ctx context.Context, node *corev1.Node, k *trialRecord) error {
	if k.UID == "" {
		k.Node, k.UID, k.Boot, k.WithoutProviderID = node.Name, node.UID, node.Status.NodeInfo.BootID, node.Spec.ProviderID == ""
		var m trialMark // an unreadable mark is ignored and overwritten
		if json.Unmarshal([]byte(node.Annotations[v1alpha1.TrialKey]), &m) == nil && m.UID == w.uid() {
			k.Cordoned, k.Excluded = m.Cordoned, m.Excluded
		}
		for _, t := range node.Spec.Taints {
			if trial.ComesFromDisk(t) {
				k.FirstTaints = append(k.FirstTaints, t.ToString())
			}
		}
	}
	return w.change(ctx, node, func(node *corev1.Node) error {
		if !node.Spec.Unschedulable {
			node.Spec.Unschedulable, k.Cordoned = true, true
		}
		if _, excluded := node.Labels[excludeLabel]; !excluded {
			metav1.SetMetaDataLabel(&node.ObjectMeta, excludeLabel, "true")
			k.Excluded = true
		}
		text, err := json.Marshal(trialMark{Prototype: w.Prototype.Name, UID: w.uid(), Trial: w.Spec.Name, Cordoned: k.Cordoned, Excluded: k.Excluded})
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1alpha1.TrialKey, string(w.uid()))
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.TrialKey, string(text))
		return err
	})
}

// observe records the kubelet's Ready condition. A new transition time is a change, too: the node was briefly in another
// state. So is the boot after the restart of the instance: pods measure again, and restarts of DaemonSets count from zero.
func observe(k *trialRecord, node *corev1.Node, now metav1.Time, restart *v1alpha1.TrialReboot) {
	ready, stamp := nodestate.Ready(node), ""
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			stamp = c.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z")
		}
	}
	now = metav1.NewTime(now.Truncate(1e9)) // the record keeps whole seconds
	noteSecondBoot(k, node.Status.NodeInfo.BootID, restart)
	if k.Since.IsZero() || k.Ready != ready || k.KubeletTime != stamp {
		k.Ready, k.KubeletTime, k.Since = ready, stamp, now
	}
	if second := k.SecondBoot; ready && second != nil && second.ReadyAt.IsZero() {
		second.ReadyAt = now
	}
	if ready && k.FirstReady.IsZero() {
		k.FirstReady, k.Images = now, int32(min(len(node.Status.Images), 1<<20)) //nolint:gosec // bounded in the same line
	}
}

// noteSecondBoot records the boot after the restart of the instance.
func noteSecondBoot(k *trialRecord, boot string, restart *v1alpha1.TrialReboot) {
	if restart == nil || restart.Skipped != "" || k.SecondBoot != nil || boot == "" || boot == restart.Boot {
		return
	}
	k.SecondBoot, k.Since, k.Logs = &v1alpha1.TrialBoot{ID: boot}, metav1.Time{}, nil
	delete(k.Pods, measuring)
	delete(k.Pods, control)
	for name, set := range k.DaemonSets {
		set.WasReady, set.UnreadySince = false, metav1.Time{}
		k.DaemonSets[name] = set
	}
}

// addBoots adds what the Node and the record say of the second boot.
func addBoots(b *trial.Reboot, node *corev1.Node, k *trialRecord) {
	b.Boot = node.Status.NodeInfo.BootID
	if k.SecondBoot != nil {
		b.Booted, b.Back = true, k.SecondBoot.ReadyAt.Time
	}
}

// errReplaced: another Node now has the name.
var errReplaced = errors.New("another Node has the name now")

// change changes a Node in one write. After a conflict, change reads the Node and tries again. change does not write
// without a difference. Afterwards node is the written Node.
func (w *nodeWriter) change(ctx context.Context, node *corev1.Node, change func(*corev1.Node) error) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		written, err := w.write(ctx, node, change)
		if err == nil {
			*node = *written
			return nil
		}
		latest, getErr := w.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if latest.UID != node.UID {
			return errReplaced
		}
		*node = *latest
		return err
	})
	if err != nil {
		return fmt.Errorf("note the trial on node %s: %w", node.Name, err)
	}
	return nil
}

func (w *nodeWriter) write(ctx context.Context, node *corev1.Node, change func(*corev1.Node) error) (*corev1.Node, error) {
	changed := node.DeepCopy()
	if err := change(changed); err != nil {
		return nil, err
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
	return w.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kamino"})
}

// difference is the difference of two maps as a merge patch.
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

// letGo releases a Node that names an instance of the trial. When the instance is gone in the cloud, Kamino deletes the
// Node. left is the reason to wait; empty without a reason.
func (a *attempt) letGo(ctx context.Context, k trialRecord) (left string, err error) {
	node, err := a.nodeOf(ctx, k.Node, cloud.InstanceID(k.Instance))
	if err != nil || node == nil || node.UID != k.UID {
		return "", err
	}
	another := isAnotherMachine(k, node.Status.NodeInfo.BootID)
	switch {
	case a.has(cloud.InstanceID(k.Instance)):
		return "", nil
	case nodestate.Ready(node) && !a.marked(node): // the node was returned to service
		return "", nil
	case nodestate.Ready(node) && (another || a.Overdue):
		return "", a.giveBack(ctx, node, k)
	case nodestate.Ready(node):
		return fmt.Sprintf("node %s still reports Ready, although its instance %s is gone in the cloud", node.Name, k.Instance), nil
	}
	return "", a.deleteNode(ctx, node)
}

// isAnotherMachine reports whether a new machine has the name of a Node.
func isAnotherMachine(k trialRecord, boot string) bool {
	return k.Boot != "" && boot != k.Boot && (k.SecondBoot == nil || boot != k.SecondBoot.ID)
}

// deleteNode deletes the Node of a deleted instance. Without the permission, the cloud's controller deletes the Node.
func (w *nodeWriter) deleteNode(ctx context.Context, node *corev1.Node) error {
	err := w.Kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("delete node %s, whose instance is gone: %w", node.Name, err)
	}
	return nil
}

// marked reports whether the label or the annotation names this trial.
func (w *nodeWriter) marked(node *corev1.Node) bool {
	return node.Labels[v1alpha1.TrialKey] == string(w.uid()) || strings.Contains(node.Annotations[v1alpha1.TrialKey], string(w.uid()))
}

// giveBack restores the state of a node before the trial.
func (w *nodeWriter) giveBack(ctx context.Context, node *corev1.Node, k trialRecord) error {
	err := w.change(ctx, node, func(node *corev1.Node) error {
		marked := w.marked(node)
		if k.Cordoned && marked { // else the node was returned before
			node.Spec.Unschedulable = false
		}
		if k.Excluded && marked {
			delete(node.Labels, excludeLabel)
		}
		delete(node.Labels, v1alpha1.TrialKey)
		delete(node.Annotations, v1alpha1.TrialKey)
		return nil
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errReplaced) {
		return nil
	}
	return err
}
