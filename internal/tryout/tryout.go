// Package tryout looks at the node of a trial in the cluster: whether it is there and stays Ready, whether what runs on the
// other nodes runs on it, and what pods on it measure. It keeps users' pods away from the node until there is a verdict, and
// removes what it made. What all of that comes to is package trial's matter.
package tryout

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

// Tryout keeps nothing but what is in the cluster: the trial's Nodes say what was done to them, and which pods are believed.
type Tryout struct {
	Kube kubernetes.Interface
	// Namespace of the pods, which is the generalize pods'.
	Namespace string
	// Image of Kamino, unless the settings name one.
	Image string
	// Same tells whether two IDs name one instance.
	Same func(a, b cloud.InstanceID) bool
}

// attempt is one look at one trial.
type attempt struct {
	*Tryout
	trial.Subject
	nodes []corev1.Node
}

// Look completes the subject's facts by what the cluster says, and does what measuring the node needs. An error says that
// nothing could be seen now.
func (t *Tryout) Look(ctx context.Context, subject trial.Subject) (trial.Sight, error) {
	a := &attempt{Tryout: t, Subject: subject}
	if err := a.list(ctx); err != nil {
		return trial.Sight{}, err
	}
	f := subject.Facts
	f.Limits = f.Limits.Defaulted()
	node, kept, err := a.keepAway(ctx)
	if err != nil || node == nil {
		return trial.Sight{Facts: f}, err
	}
	f.Node, f.Registered = node.Name, node.CreationTimestamp.Time
	f.Ready, f.WasReady, f.Changed = kept.Ready, !kept.FirstReady.IsZero(), kept.Since.Time
	f.Twins, f.IdentityKnown = twins(node, a.nodes)
	if f.Daemons, err = a.daemons(ctx, node); err != nil {
		return trial.Sight{}, err
	}
	if f.WasReady {
		if err := a.measure(ctx, &f, node, kept); err != nil {
			return trial.Sight{}, err
		}
	}
	return trial.Sight{Facts: f, Node: said(node, kept, f)}, nil
}

// list the nodes, as the API server last saw them: a look is repeated, and an old list delays it only.
func (a *attempt) list(ctx context.Context) error {
	list, err := a.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	a.nodes = list.Items
	return nil
}

// said is what the node says of itself.
func said(node *corev1.Node, kept kept, f trial.Facts) *v1alpha1.TrialNode {
	info := node.Status.NodeInfo
	n := &v1alpha1.TrialNode{
		OSImage: info.OSImage, Kernel: info.KernelVersion, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, Images: kept.Images,
	}
	if !kept.FirstReady.IsZero() && !f.Instance.Running.IsZero() {
		n.ReadyAfter = &metav1.Duration{Duration: max(0, kept.FirstReady.Sub(f.Instance.Running)).Round(time.Second)}
	}
	return n
}

// keepAway has users' pods stay away from every node of the trial, and gives the one that is judged: that of the oldest
// instance. It is nil as long as there is none.
func (a *attempt) keepAway(ctx context.Context) (*corev1.Node, kept, error) {
	instances := slices.Clone(a.Instances)
	slices.SortFunc(instances, func(x, y cloud.Instance) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	var (
		judged *corev1.Node
		its    kept
	)
	for i, instance := range instances {
		node := a.nodeOf(instance.ID)
		if node == nil {
			continue
		}
		node, k, err := a.hold(ctx, node)
		switch {
		case apierrors.IsNotFound(err):
			continue // the list was old
		case err != nil:
			return nil, its, err
		}
		if i == 0 {
			judged, its = node, k
		}
	}
	return judged, its, nil
}

// nodeOf an instance, by its provider ID.
func (a *attempt) nodeOf(id cloud.InstanceID) *corev1.Node {
	for i := range a.nodes {
		if p := a.nodes[i].Spec.ProviderID; p != "" && a.Same(cloud.InstanceID(p), id) {
			return &a.nodes[i]
		}
	}
	return nil
}

// twins are the other nodes that have the node's machine ID or system UUID. Without both IDs nothing is known.
func twins(node *corev1.Node, nodes []corev1.Node) (names []string, known bool) {
	its := node.Status.NodeInfo
	for _, other := range nodes {
		o := other.Status.NodeInfo
		if other.UID != node.UID && (its.MachineID != "" && o.MachineID == its.MachineID || its.SystemUUID != "" && o.SystemUUID == its.SystemUUID) {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return names, its.MachineID != "" && its.SystemUUID != ""
}

// Clean starts to remove what Look has made for the subject: pods and Job; the Nodes of instances that are gone. A node that
// is none of the trial's any more is given back as it was. left tells that some of it is still there.
func (t *Tryout) Clean(ctx context.Context, subject trial.Subject) (left bool, err error) {
	a := &attempt{Tryout: t, Subject: subject}
	if err := a.removePods(ctx); err != nil {
		return true, err
	}
	list, err := t.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.TrialKey + "=" + string(a.uid())})
	if err != nil {
		return true, fmt.Errorf("list the nodes of trial %s: %w", subject.Spec.Name, err)
	}
	for i := range list.Items {
		still, err := a.letGo(ctx, &list.Items[i])
		if err != nil && !apierrors.IsNotFound(err) {
			return true, err
		}
		left = left || still
	}
	return left, nil
}

// letGo of a node: one that goes with its instance stays as it is until that is gone, and its Node behind it. One whose instance
// stays in the pool serves from now on, whatever was meant to become of it.
func (a *attempt) letGo(ctx context.Context, node *corev1.Node) (left bool, err error) {
	ours := slices.ContainsFunc(a.Instances, func(i cloud.Instance) bool { return a.Same(i.ID, cloud.InstanceID(node.Spec.ProviderID)) })
	k, err := keptOn(node)
	if err != nil {
		return true, err
	}
	switch {
	case a.Stay:
		return false, a.giveBack(ctx, node)
	case ours && k.Going:
		return false, nil
	case ours:
		return false, a.change(ctx, node, func(_ *corev1.Node, k *kept) { k.Going = true })
	case !k.Going || k.Boot != node.Status.NodeInfo.BootID:
		return false, a.giveBack(ctx, node)
	case nodestate.Ready(node):
		return true, nil
	}
	err = a.Kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // without the right, the cloud's controller does it
		return true, fmt.Errorf("delete node %s, whose instance is gone: %w", node.Name, err)
	}
	return false, nil
}

func (a *attempt) uid() types.UID { return a.Prototype.UID }

// name of what is made for one part of this attempt.
func (a *attempt) name(part string) string {
	sum := sha256.Sum256([]byte(string(a.uid()) + "/" + a.Spec.Name))
	return "trial-" + part + "-" + hex.EncodeToString(sum[:6])
}

func (a *attempt) labels() map[string]string {
	return map[string]string{
		v1alpha1.PrototypeLabel:        v1alpha1.LabelValue(a.Prototype.Name),
		v1alpha1.PrototypeUIDLabel:     string(a.uid()),
		"app.kubernetes.io/name":       "kamino",
		"app.kubernetes.io/component":  component,
		"app.kubernetes.io/managed-by": "kamino",
	}
}

// component is what pods of a trial are to Kamino, by which a network policy finds them.
const component = "trial"

// owner has the API server remove what is left when the Prototype is gone.
func (a *attempt) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: a.Prototype.Name, UID: a.uid(),
	}}
}
