// Package tryout looks at the node of a trial in the cluster: whether it is there and stays Ready, whether what runs on the
// other nodes runs on it, and what pods on it measure. It keeps users' pods away from the node until there is a verdict, and
// removes what it made. What all of that comes to is package trial's matter.
package tryout

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	cluster "github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

// Tryout keeps nothing: what a look has done and seen is part of what it returns, and of the next subject.
type Tryout struct {
	Kube kubernetes.Interface
	// Namespace of the pods, which is the generalize pods'.
	Namespace string
	// Image of Kamino, unless the settings name one.
	Image string
	// Same tells whether two IDs name one instance.
	Same func(a, b cloud.InstanceID) bool
	// Reserved lists the reservations that Leases confirm, by the UID of their Node. Nil if no Node is reserved.
	Reserved func(ctx context.Context) (map[types.UID]v1alpha1.Reservation, error)
}

// attempt is one look at one trial.
type attempt struct {
	*Tryout
	trial.Subject
	nodes []corev1.Node
	// reserved are the confirmed reservations, by the UID of their Node.
	reserved map[types.UID]v1alpha1.Reservation
	// known are the instances and their Nodes, as this look has them.
	known []*kept
}

func (t *Tryout) attempt(subject trial.Subject) *attempt {
	a := &attempt{Tryout: t, Subject: subject}
	for i := range subject.Known {
		a.known = append(a.known, subject.Known[i].DeepCopy())
	}
	return a
}

// Look completes the subject's facts by what the cluster says, and does what measuring the node needs. An error says that
// nothing could be seen now.
func (t *Tryout) Look(ctx context.Context, subject trial.Subject) (trial.Sight, error) {
	a := t.attempt(subject)
	sight, err := a.look(ctx)
	for _, k := range a.known {
		sight.Known = append(sight.Known, *k)
	}
	return sight, err
}

func (a *attempt) look(ctx context.Context) (trial.Sight, error) {
	if err := a.list(ctx); err != nil {
		return trial.Sight{}, err
	}
	f := a.Facts
	f.Limits = f.Limits.Defaulted()
	node, k, doubt, err := a.keepAway(ctx)
	if err != nil {
		return trial.Sight{}, err
	}
	if k != nil {
		f.Node, f.NodeUID = k.Node, string(k.UID)
	}
	if f.Doubt = doubt; node == nil || doubt != "" {
		if node == nil && doubt == "" {
			f.Unproven, err = unregistered(ctx, a)
		}
		return trial.Sight{Facts: f}, err
	}
	if f.Unproven, err = withoutKubelet(ctx, a, node); err != nil || f.Unproven != "" {
		return trial.Sight{Facts: f}, err
	}
	observe(k, node, metav1.NewTime(f.Now))
	f.Registered = node.CreationTimestamp.Time
	f.Ready, f.WasReady, f.Changed = k.Ready, !k.FirstReady.IsZero(), k.Since.Time
	all := a.twins(node)
	if err := proveKubelets(ctx, a, node, &all); err != nil {
		return trial.Sight{}, err
	}
	f.Twins, f.DoubtfulTwins, f.IdentityKnown = all.proven, all.doubtful, all.known
	if f.Daemons, err = a.daemons(ctx, node); err != nil {
		return trial.Sight{}, err
	}
	if f.WasReady {
		if err := a.measure(ctx, &f, node, k); err != nil {
			return trial.Sight{}, err
		}
	}
	return trial.Sight{Facts: f, Node: said(node, *k, f), TwinInstances: all.instances}, nil
}

// list the nodes, as the API server last saw them: a look is repeated, and an old list delays it only.
func (a *attempt) list(ctx context.Context) error {
	list, err := a.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	a.nodes = list.Items
	if a.Reserved == nil || !slices.ContainsFunc(a.nodes, func(n corev1.Node) bool { return n.Annotations[v1alpha1.ReservationAnnotation] != "" }) {
		return nil
	}
	a.reserved, err = a.Reserved(ctx)
	return err
}

// withoutKubelet is why nothing shows that a kubelet runs for the node; empty if one does. An account that may write Nodes cannot write the
// kubelet's Lease.
func withoutKubelet(ctx context.Context, a *attempt, node *corev1.Node) (why string, err error) {
	without, err := cluster.WithoutKubelet(ctx, a.Kube, []*corev1.Node{node}, a.all)
	if err != nil || !without[node.UID] {
		return "", err
	}
	return fmt.Sprintf("node %s names the instance, and no kubelet renews the lease %s/%s; see which client creates Nodes", node.Name, corev1.NamespaceNodeLease, node.Name), nil
}

// unregistered is why an instance without a Node may have had one: its kubelet renews a Lease, so that a client has deleted the Node. Only
// where the cloud says which name the Node has, the Lease can be found.
func unregistered(ctx context.Context, a *attempt) (why string, err error) {
	if len(a.Instances) == 0 || a.Facts.Instance.Running.IsZero() {
		return "", nil
	}
	oldest := slices.MinFunc(a.Instances, older)
	if oldest.Host == "" {
		return "", nil
	}
	lease, err := a.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, oldest.Host, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read lease %s/%s: %w", corev1.NamespaceNodeLease, oldest.Host, err)
	case cluster.LeaseWrittenAt(lease).Before(a.Facts.Instance.Running): // of an earlier instance of the name
		return "", nil
	}
	return fmt.Sprintf("the kubelet of instance %s renews the lease %s/%s, and there is no Node; see which client deletes Nodes", oldest.ID, corev1.NamespaceNodeLease, oldest.Host), nil
}

// said is what the node says of itself.
func said(node *corev1.Node, k kept, f trial.Facts) *v1alpha1.TrialNode {
	info := node.Status.NodeInfo
	n := &v1alpha1.TrialNode{
		OSImage: info.OSImage, Kernel: info.KernelVersion, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, Images: k.Images,
	}
	if !k.FirstReady.IsZero() && !f.Instance.Running.IsZero() {
		n.ReadyAfter = &metav1.Duration{Duration: max(0, k.FirstReady.Sub(f.Instance.Running)).Round(time.Second)}
	}
	return n
}

// keepAway has users' pods stay away from every Node that names an instance of the trial, and returns the Node that is judged: that
// of the oldest instance. The Node is nil as long as there is none. doubt is why no Node can be taken for the instance's own.
func (a *attempt) keepAway(ctx context.Context) (judged *corev1.Node, its *kept, doubt string, err error) {
	instances := slices.Clone(a.Instances)
	slices.SortFunc(instances, older)
	for i, instance := range instances {
		node, k, why, err := a.keepOff(ctx, instance.ID)
		if node != nil && why == "" && instance.Host != "" && instance.Host != strings.ToLower(node.Name) {
			why = fmt.Sprintf("node %s names instance %s, and the cloud has given that the host name %s; see which client creates Nodes", node.Name, instance.ID, instance.Host)
		}
		if err != nil {
			return nil, nil, "", err
		}
		if i == 0 {
			judged, its, doubt = node, k, why
		}
	}
	return judged, its, doubt, nil
}

func older(x, y cloud.Instance) int {
	return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
}

// keepOff one instance. Every Node that has ever named it is known: the API server does not say which Node is its own.
func (a *attempt) keepOff(ctx context.Context, id cloud.InstanceID) (judged *corev1.Node, its *kept, doubt string, err error) {
	there := map[types.UID]*corev1.Node{}
	for _, name := range a.named(id) {
		node, err := a.nodeOf(ctx, name, id)
		if err == nil && node != nil {
			err = a.hold(ctx, node, a.entry(id, node.UID))
		}
		switch {
		case apierrors.IsNotFound(err), node == nil && err == nil:
			continue // the list was old
		case err != nil:
			return nil, nil, "", err
		}
		there[node.UID] = node
	}
	var all []*kept
	for _, k := range a.known {
		if k.UID != "" && a.Same(cloud.InstanceID(k.Instance), id) {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		a.entry(id, "")
		return nil, nil, "", nil
	}
	return there[all[0].UID], all[0], doubtOf(all, there), nil
}

// doubtOf is why none of the Nodes that have named an instance can be judged; empty if the one that did is there.
func doubtOf(all []*kept, there map[types.UID]*corev1.Node) string {
	var names, gone []string
	for _, k := range all {
		if there[k.UID] != nil {
			names = append(names, k.Node)
		} else {
			gone = append(gone, fmt.Sprintf("%s (UID %s)", k.Node, k.UID))
		}
	}
	instance := all[0].Instance
	switch {
	case len(names) == 1 && len(gone) == 0:
		return ""
	case len(gone) == 0:
		return fmt.Sprintf("nodes %s name the same instance %s, and one Node is its own; see which client creates Nodes", strings.Join(names, " and "), instance)
	case len(names) == 0:
		return fmt.Sprintf("node %s named instance %s and was deleted, while the cloud has the instance; see which client deletes Nodes", strings.Join(gone, " and "), instance)
	}
	return fmt.Sprintf("node %s named instance %s and was deleted, and node %s names it now; see which client creates and deletes Nodes",
		strings.Join(gone, " and "), instance, strings.Join(names, " and "))
}

// named are the names of the Nodes that name an instance: those that are known first, and then those of the list.
func (a *attempt) named(id cloud.InstanceID) (names []string) {
	add := func(name, instance string) {
		if name != "" && instance != "" && a.Same(cloud.InstanceID(instance), id) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, k := range a.known {
		add(k.Node, k.Instance)
	}
	for i := range a.nodes {
		add(a.nodes[i].Name, a.nodes[i].Spec.ProviderID)
	}
	return names
}

// nodeOf is the Node of the name, read anew, if it names the instance; nil if there is none.
func (a *attempt) nodeOf(ctx context.Context, name string, id cloud.InstanceID) (*corev1.Node, error) {
	node, err := a.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	case node.Spec.ProviderID == "" || !a.Same(cloud.InstanceID(node.Spec.ProviderID), id):
		return nil, nil
	}
	return node, nil
}

// entry of an instance and a Node among what is known, made if there is none. The entry of an instance without a Node becomes that of
// its first Node.
func (a *attempt) entry(id cloud.InstanceID, uid types.UID) *kept {
	for _, k := range a.known {
		if a.Same(cloud.InstanceID(k.Instance), id) && (k.UID == uid || k.UID == "") {
			return k
		}
	}
	k := &kept{Instance: string(id)}
	a.known = append(a.known, k)
	return k
}

// has tells whether the cloud has an instance of the trial.
func (a *attempt) has(id cloud.InstanceID) bool {
	return slices.ContainsFunc(a.Instances, func(i cloud.Instance) bool { return a.Same(i.ID, id) })
}

// twins of the trial node.
type twins struct {
	// known tells whether the IDs could be compared.
	known bool
	// proven are older and Ready. instances are theirs, by name. doubtful claim an ID, each with what speaks against that.
	proven, doubtful []string
	instances        map[string]cloud.InstanceID
}

// twins are the other Nodes that have the node's machine ID or system UUID. Without both IDs nothing is known.
func (a *attempt) twins(node *corev1.Node) twins {
	its := node.Status.NodeInfo
	found := twins{known: its.MachineID != "" && its.SystemUUID != "", instances: map[string]cloud.InstanceID{}}
	for i := range a.nodes {
		other := &a.nodes[i]
		o := other.Status.NodeInfo
		if other.UID == node.UID || (its.MachineID == "" || o.MachineID != its.MachineID) && (its.SystemUUID == "" || o.SystemUUID != its.SystemUUID) {
			continue
		}
		switch {
		case !other.CreationTimestamp.Before(&node.CreationTimestamp):
			found.doubtful = append(found.doubtful, fmt.Sprintf("node %s, which is not older", other.Name))
		case !nodestate.Ready(other):
			found.doubtful = append(found.doubtful, fmt.Sprintf("node %s, which is not Ready", other.Name))
		case other.Spec.ProviderID == "":
			found.doubtful = append(found.doubtful, fmt.Sprintf("node %s, which names no instance", other.Name))
		default:
			found.proven = append(found.proven, other.Name)
			found.instances[other.Name] = cloud.InstanceID(other.Spec.ProviderID)
		}
	}
	slices.Sort(found.proven)
	slices.Sort(found.doubtful)
	return found
}

// proveKubelets leaves among the proven twins those for which a kubelet runs.
func proveKubelets(ctx context.Context, a *attempt, node *corev1.Node, found *twins) error {
	if len(found.proven) == 0 {
		return nil
	}
	asked := []*corev1.Node{node}
	for i := range a.nodes {
		if slices.Contains(found.proven, a.nodes[i].Name) {
			asked = append(asked, &a.nodes[i])
		}
	}
	without, err := cluster.WithoutKubelet(ctx, a.Kube, asked, a.all)
	if err != nil {
		return err
	}
	for _, n := range asked[1:] {
		if without[n.UID] {
			found.proven = slices.DeleteFunc(found.proven, func(name string) bool { return name == n.Name })
			found.doubtful = append(found.doubtful, fmt.Sprintf("node %s, whose lease %s/%s no kubelet renews", n.Name, corev1.NamespaceNodeLease, n.Name))
		}
	}
	return nil
}

func (a *attempt) all() []*corev1.Node {
	all := make([]*corev1.Node, len(a.nodes))
	for i := range a.nodes {
		all[i] = &a.nodes[i]
	}
	return all
}

// Clean starts to remove what Look has made for the subject: pods and Job, and the Nodes of instances that are gone. It touches only
// Nodes that name an instance of the trial, whatever stands on any other Node. What one part does not get through keeps no other part
// from being removed. left says what is waited for.
func (t *Tryout) Clean(ctx context.Context, subject trial.Subject) (left []string, err error) {
	a := t.attempt(subject)
	problems := []error{a.removePods(ctx), a.listUnseen(ctx)}
	for _, k := range a.known {
		if k.UID == "" {
			continue
		}
		still, err := a.letGo(ctx, *k)
		if problems = append(problems, err); still != "" {
			left = append(left, still)
		}
	}
	return left, errors.Join(problems...)
}

// listUnseen finds the Nodes of instances that no look has seen one of.
func (a *attempt) listUnseen(ctx context.Context) error {
	for _, i := range a.Instances {
		if !slices.ContainsFunc(a.known, func(k *kept) bool { return a.Same(cloud.InstanceID(k.Instance), i.ID) }) {
			a.known = append(a.known, &kept{Instance: string(i.ID)})
		}
	}
	if !slices.ContainsFunc(a.known, func(k *kept) bool { return k.UID == "" }) {
		return nil
	}
	if err := a.list(ctx); err != nil {
		return err
	}
	for _, k := range slices.Clone(a.known) {
		for i := range a.nodes {
			n := &a.nodes[i]
			if k.UID == "" && n.Spec.ProviderID != "" && a.Same(cloud.InstanceID(n.Spec.ProviderID), cloud.InstanceID(k.Instance)) {
				var m mark
				_ = json.Unmarshal([]byte(n.Annotations[v1alpha1.TrialKey]), &m) // an unreadable one says nothing
				a.known = append(a.known, &kept{Instance: k.Instance, Node: n.Name, UID: n.UID, Cordoned: m.Cordoned && m.UID == a.uid(), Excluded: m.Excluded && m.UID == a.uid()})
			}
		}
	}
	return nil
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
