// Package trialnode observes the node of a trial in the cluster: its registration and readiness, the DaemonSets on the node,
// and measurements of pods. The package keeps users' pods away from the node until the verdict, and removes its objects.
// Package trial decides the verdict.
package trialnode

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
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

// Observer has no state: each look returns its state for the next subject.
type Observer struct {
	Kube kubernetes.Interface
	// Namespace of the pods: the namespace of generalize pods.
	Namespace string
	// Image of Kamino, unless the settings name an image.
	Image string
	// Same reports whether two IDs name one instance.
	Same func(a, b cloud.InstanceID) bool
	// Reserved lists the reservations that Leases confirm, by the UID of the Node. Nil means that no Node is reserved.
	Reserved func(ctx context.Context) (map[types.UID]v1alpha1.Reservation, error)
}

// attempt is one look at one trial.
type attempt struct {
	nodeWriter
	nodes []corev1.Node
	// reserved are the confirmed reservations, by the UID of the Node.
	reserved map[types.UID]v1alpha1.Reservation
	// known are the instances and their Nodes at this look.
	known []*trialRecord
}

func (t *Observer) attempt(subject trial.Subject) *attempt {
	a := &attempt{nodeWriter: nodeWriter{objects{t, subject}}}
	for i := range subject.Known {
		a.known = append(a.known, subject.Known[i].DeepCopy())
	}
	return a
}

// Observe adds the cluster's facts to the subject, and advances the measurements. An error means that no observation was
// possible now.
func (t *Observer) Observe(ctx context.Context, subject trial.Subject) (trial.Observation, error) {
	a := t.attempt(subject)
	observation, err := a.observe(ctx)
	for _, k := range a.known {
		observation.Known = append(observation.Known, *k)
	}
	return observation, err
}

// Hold keeps users' pods away from all Nodes that name an instance of the subject, and returns the Node of the oldest instance.
func (t *Observer) Hold(ctx context.Context, subject trial.Subject) (held trial.Held, err error) {
	a := t.attempt(subject)
	defer func() {
		for _, k := range a.known {
			held.Known = append(held.Known, *k)
		}
	}()
	if err := a.list(ctx); err != nil {
		return held, err
	}
	if held.Node, _, held.Doubt, err = a.keepAway(ctx); err != nil || held.Node == nil || held.Doubt != "" {
		return held, err
	}
	held.Doubt, err = withoutKubelet(ctx, a, held.Node)
	held.Ready = err == nil && held.Doubt == "" && nodestate.Ready(held.Node)
	return held, err
}

func (a *attempt) observe(ctx context.Context) (trial.Observation, error) {
	if err := a.list(ctx); err != nil {
		return trial.Observation{}, err
	}
	f := a.Facts
	f.Limits = f.Limits.Defaulted()
	node, k, doubt, err := a.keepAway(ctx)
	if err != nil {
		return trial.Observation{}, err
	}
	if k != nil {
		f.Node, f.NodeUID = k.Node, string(k.UID)
	}
	if f.Doubt = doubt; node == nil || doubt != "" {
		if node == nil && doubt == "" {
			f.Unproven, err = unregistered(ctx, a)
		}
		return trial.Observation{Facts: f}, err
	}
	if f.Unproven, err = withoutKubelet(ctx, a, node); err != nil || f.Unproven != "" {
		return trial.Observation{Facts: f}, err
	}
	observe(k, node, metav1.NewTime(f.Now), a.Restart)
	f.Registered, f.WithoutProviderID = node.CreationTimestamp.Time, node.Spec.ProviderID == ""
	f.Ready, f.WasReady, f.Changed = k.Ready, !k.FirstReady.IsZero(), k.Since.Time
	addBoots(&f.Reboot, node, k)
	all := a.twins(node)
	if err := proveKubelets(ctx, a, node, &all); err != nil {
		return trial.Observation{}, err
	}
	f.Twins, f.DoubtfulTwins, f.IdentityKnown = all.proven, all.doubtful, all.known
	on, err := readDaemonPods(ctx, a, node)
	if err != nil {
		return trial.Observation{}, err
	}
	if f.Daemons, err = a.daemons(ctx, f.Now, node, k, on); err != nil {
		return trial.Observation{}, err
	}
	if f.WasReady {
		if err := a.compare(ctx, &f, node, k, on); err != nil {
			return trial.Observation{}, err
		}
		if err := a.measure(ctx, &f, node, k); err != nil {
			return trial.Observation{}, err
		}
	}
	return trial.Observation{Facts: f, Node: statusOf(node, *k, f), TwinInstances: all.instances}, nil
}

// list lists the nodes from the API server's cache: looks repeat, so an old list only delays the result.
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

// withoutKubelet returns the reason why no kubelet seems to run for the node; empty if a kubelet runs. An account that may
// write Nodes cannot write the kubelet's Lease.
func withoutKubelet(ctx context.Context, a *attempt, node *corev1.Node) (why string, err error) {
	without, err := cluster.WithoutKubelet(ctx, a.Kube, []*corev1.Node{node}, a.all)
	if err != nil || !without[node.UID] {
		return "", err
	}
	return fmt.Sprintf("node %s names the instance, and no kubelet renews the lease %s/%s; find the client that creates Nodes",
		node.Name, corev1.NamespaceNodeLease, node.Name), nil
}

// unregistered returns the reason why an instance may have had a Node: its kubelet renews a Lease, so a client has deleted
// the Node. To find the Lease, the cloud must name the Node.
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
	case cluster.LeaseWrittenAt(lease).Before(a.Facts.Instance.Running): // of an earlier instance with the same name
		return "", nil
	}
	return fmt.Sprintf("the kubelet of instance %s renews the lease %s/%s, and there is no Node; find the client that deletes Nodes",
		oldest.ID, corev1.NamespaceNodeLease, oldest.Host), nil
}

// statusOf are the facts in the node's status.
func statusOf(node *corev1.Node, k trialRecord, f trial.Facts) *v1alpha1.TrialNode {
	info := node.Status.NodeInfo
	n := &v1alpha1.TrialNode{
		OSImage: info.OSImage, Kernel: info.KernelVersion, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, Images: k.Images,
	}
	if !k.FirstReady.IsZero() && !f.Instance.Running.IsZero() {
		n.ReadyAfter = &metav1.Duration{Duration: max(0, k.FirstReady.Sub(f.Instance.Running)).Round(time.Second)}
	}
	return n
}

// keepAway keeps users' pods away from all Nodes that name an instance of the trial. keepAway returns the Node of the
// oldest instance, or nil without a Node. doubt is the reason why no Node surely belongs to the instance.
func (a *attempt) keepAway(ctx context.Context) (judged *corev1.Node, member *trialRecord, doubt string, err error) {
	instances := slices.Clone(a.Instances)
	slices.SortFunc(instances, older)
	for i, instance := range instances {
		node, k, why, err := a.keepOff(ctx, instance.ID)
		if node != nil && why == "" && node.Spec.ProviderID != "" && instance.Host != "" && instance.Host != strings.ToLower(node.Name) {
			why = fmt.Sprintf("node %s names instance %s, but the cloud says host name %s; find the client that creates Nodes",
				node.Name, instance.ID, instance.Host)
		}
		if err != nil {
			return nil, nil, "", err
		}
		if i == 0 {
			judged, member, doubt = node, k, why
		}
	}
	return judged, member, doubt, nil
}

func older(x, y cloud.Instance) int {
	return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
}

// keepOff handles one instance. The record holds every Node that has ever named the instance: the API server does not prove
// the right Node.
func (a *attempt) keepOff(ctx context.Context, id cloud.InstanceID) (judged *corev1.Node, member *trialRecord, doubt string, err error) {
	there := map[types.UID]*corev1.Node{}
	for _, name := range a.nodeNames(id) {
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
	var all []*trialRecord
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

// doubtOf is the reason why no Node of an instance can be judged; empty if only the existing Node has named the instance.
func doubtOf(all []*trialRecord, there map[types.UID]*corev1.Node) string {
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
		return fmt.Sprintf("nodes %s name the same instance %s, but an instance has one Node; find the client that creates Nodes",
			strings.Join(names, " and "), instance)
	case len(names) == 0:
		return fmt.Sprintf("node %s named instance %s and was deleted, while the cloud has the instance; find the client that deletes Nodes",
			strings.Join(gone, " and "), instance)
	}
	return fmt.Sprintf("node %s named instance %s and was deleted, and node %s names the instance now; find the client that creates and deletes Nodes",
		strings.Join(gone, " and "), instance, strings.Join(names, " and "))
}

// nodeNames are the names of the Nodes that name an instance: recorded Nodes first, then Nodes of the list.
func (a *attempt) nodeNames(id cloud.InstanceID) (names []string) {
	add := func(name, instance string) {
		if name != "" && instance != "" && a.Same(cloud.InstanceID(instance), id) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, k := range a.known {
		add(k.Node, k.Instance)
	}
	for i := range a.nodes {
		if a.isNodeOf(&a.nodes[i], id) {
			add(a.nodes[i].Name, string(id))
		}
	}
	return names
}

// isNodeOf reports whether a Node names the instance. A Node without a provider ID can be in the record, or be younger than
// the instance with the same name, system UUID or address.
func (a *attempt) isNodeOf(n *corev1.Node, id cloud.InstanceID) bool {
	if n.Spec.ProviderID != "" {
		return a.Same(cloud.InstanceID(n.Spec.ProviderID), id)
	}
	if slices.ContainsFunc(a.known, func(k *trialRecord) bool {
		return k.WithoutProviderID && k.UID == n.UID && a.Same(cloud.InstanceID(k.Instance), id)
	}) {
		return true
	}
	i := slices.IndexFunc(a.Instances, func(i cloud.Instance) bool { return a.Same(i.ID, id) })
	return i >= 0 && isNameless(n, a.Instances[i])
}

// clockSkew is the largest difference between the clocks of the cloud and the API server.
const clockSkew = time.Minute

func isNameless(n *corev1.Node, of cloud.Instance) bool {
	if n.CreationTimestamp.Before(&metav1.Time{Time: of.CreatedAt.Add(-clockSkew)}) {
		return false
	}
	return of.Host != "" && of.Host == strings.ToLower(n.Name) || of.SystemUUID != "" && strings.EqualFold(of.SystemUUID, n.Status.NodeInfo.SystemUUID) ||
		slices.ContainsFunc(n.Status.Addresses, func(at corev1.NodeAddress) bool {
			return at.Type == corev1.NodeInternalIP && slices.Contains(of.Addresses, at.Address)
		})
}

// nodeOf reads the Node with this name, if the Node names the instance; nil if there is none.
func (a *attempt) nodeOf(ctx context.Context, name string, id cloud.InstanceID) (*corev1.Node, error) {
	node, err := a.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	case !a.isNodeOf(node, id):
		return nil, nil
	}
	return node, nil
}

// entry returns the record of an instance and a Node, or a new record. The record of an instance without a Node becomes the
// record of the first Node.
func (a *attempt) entry(id cloud.InstanceID, uid types.UID) *trialRecord {
	for _, k := range a.known {
		if a.Same(cloud.InstanceID(k.Instance), id) && (k.UID == uid || k.UID == "") {
			return k
		}
	}
	k := &trialRecord{Instance: string(id)}
	a.known = append(a.known, k)
	return k
}

// has reports whether the cloud has an instance of the trial.
func (a *attempt) has(id cloud.InstanceID) bool {
	return slices.ContainsFunc(a.Instances, func(i cloud.Instance) bool { return a.Same(i.ID, id) })
}

// twins of the trial node.
type twins struct {
	// known reports whether the node has IDs to compare.
	known bool
	// proven twins are older and Ready; instances holds their instances by name. doubtful twins have the same ID, each with
	// the reason for the doubt.
	proven, doubtful []string
	instances        map[string]cloud.InstanceID
}

// twins are other Nodes with the node's machine ID or system UUID. Without both IDs, the result is unknown.
func (a *attempt) twins(node *corev1.Node) twins {
	member := node.Status.NodeInfo
	found := twins{known: member.MachineID != "" && member.SystemUUID != "", instances: map[string]cloud.InstanceID{}}
	for i := range a.nodes {
		other := &a.nodes[i]
		o := other.Status.NodeInfo
		sameMachine := member.MachineID != "" && o.MachineID == member.MachineID
		sameSystem := member.SystemUUID != "" && o.SystemUUID == member.SystemUUID
		if other.UID == node.UID || !sameMachine && !sameSystem {
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

// proveKubelets moves twins without a kubelet from proven to doubtful.
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

// Clean begins to remove the objects of Observe: pods, the Job, and Nodes of deleted instances. Clean changes only Nodes that
// name an instance of the trial. An error of one part does not stop the other parts. left are the reasons to wait.
func (t *Observer) Clean(ctx context.Context, subject trial.Subject) (left []string, err error) {
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

// listUnseen finds the Nodes of instances without a recorded Node.
func (a *attempt) listUnseen(ctx context.Context) error {
	for _, i := range a.Instances {
		if !slices.ContainsFunc(a.known, func(k *trialRecord) bool { return a.Same(cloud.InstanceID(k.Instance), i.ID) }) {
			a.known = append(a.known, &trialRecord{Instance: string(i.ID)})
		}
	}
	if !slices.ContainsFunc(a.known, func(k *trialRecord) bool { return k.UID == "" }) {
		return nil
	}
	if err := a.list(ctx); err != nil {
		return err
	}
	for _, k := range slices.Clone(a.known) {
		for i := range a.nodes {
			n := &a.nodes[i]
			if k.UID == "" && a.isNodeOf(n, cloud.InstanceID(k.Instance)) {
				var m trialMark
				_ = json.Unmarshal([]byte(n.Annotations[v1alpha1.TrialKey]), &m) // an unreadable mark is ignored
				a.known = append(a.known, &trialRecord{Instance: k.Instance, Node: n.Name, UID: n.UID, WithoutProviderID: n.Spec.ProviderID == "",
					Cordoned: m.Cordoned && m.UID == a.uid(), Excluded: m.Excluded && m.UID == a.uid()})
			}
		}
	}
	return nil
}

func (t *objects) uid() types.UID { return t.Prototype.UID }

// name is the name of an object of this attempt.
func (t *objects) name(part string) string {
	sum := sha256.Sum256([]byte(string(t.uid()) + "/" + t.Spec.Name))
	return "trial-" + part + "-" + hex.EncodeToString(sum[:6])
}

func (t *objects) labels() map[string]string {
	return map[string]string{
		v1alpha1.PrototypeLabel:        v1alpha1.LabelValue(t.Prototype.Name),
		v1alpha1.PrototypeUIDLabel:     string(t.uid()),
		"app.kubernetes.io/name":       "kamino",
		"app.kubernetes.io/component":  component,
		"app.kubernetes.io/managed-by": "kamino",
	}
}

// component is the label of a trial's pods, for network policies.
const component = "trial"

// owner lets the API server delete leftovers after the deletion of the Prototype.
func (t *objects) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: t.Prototype.Name, UID: t.uid(),
	}}
}
