package trialnode

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// Roles of a trial's pods.
const (
	// onDisk starts on the trial node if Kamino's image is on the disk, and ends at once.
	onDisk = "disk"
	// peer answers on another node.
	peer = "peer"
	// measuring measures on the trial node, with a pulled image.
	measuring = "node"
	// control measures the same connections on another node.
	control = "control"
	// job is the user's Job.
	job = "job"
)

// measuringParts are the roles of pods that advance creates.
var measuringParts = []string{onDisk, peer, measuring, control}

const (
	manifestDir  = "/var/lib/kamino"
	manifestFile = manifestDir + "/generalize.json"
	insideName   = "kubernetes.default.svc"
	resolver     = "/etc/resolv.conf"
	report       = "/dev/termination-log"
	// podSeconds limits the time of a pod.
	podSeconds = 1800
	// scratchSize is more than a measurement writes, in bytes.
	scratchSize = 64 << 20
	probeUser   = 65532
	keyFlag     = "--key="
	peerFlag    = "--peer="
	scratchFlag = "--scratch="
	// scratchDir is on the node's disk.
	scratchDir = "/scratch"
)

// objects makes and removes the pods and the Job of a trial.
type objects struct {
	*Observer
	trial.Subject
}

// pod returns the pod of a role: without a token, privileges or a writable disk, and bound to the cordoned node without the
// scheduler. The pod requests no resources, because a full node would refuse the pod; a quota can demand some (withResources).
func (t *objects) pod(part, node string, o probe.Options, pull corev1.PullPolicy) *corev1.Pod {
	yes, no, user, seconds := true, false, int64(probeUser), int64(podSeconds)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: t.name(part), Namespace: t.Namespace, Labels: t.labels(), OwnerReferences: t.owner()},
		Spec: corev1.PodSpec{
			// The account provides pull secrets only; its token is not mounted.
			ServiceAccountName: v1alpha1.GeneralizeServiceAccount,
			NodeName:           node, RestartPolicy: corev1.RestartPolicyOnFailure, ActiveDeadlineSeconds: &seconds,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: t.image(), ImagePullPolicy: pull, Args: append(o.Args(), "--report="+report), TerminationMessagePath: report,
				Env: []corev1.EnvVar{{Name: "POD_IP",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if o.Scratch != "" {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: "scratch",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(scratchSize, resource.BinarySI)}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: scratchDir})
	}
	if o.Manifest != "" {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: "manifest", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: manifestDir}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "manifest", MountPath: manifestDir, ReadOnly: true})
	}
	return pod
}

func (t *objects) image() string {
	if image := t.Prototype.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return t.Observer.Image
}

// peerPod has a random key, which the measuring pods read from the peer.
func (t *objects) peerPod(node string) *corev1.Pod {
	return visiting(t.pod(peer, node, probe.Options{Serve: true, Listen: "$(POD_IP)", Key: rand.Text()}, corev1.PullIfNotPresent))
}

// visiting marks a pod on another node as evictable: a pod without a controller would block the drain of that node. The
// trial creates the pod again.
func visiting(pod *corev1.Pod) *corev1.Pod {
	yes := true
	pod.OwnerReferences[0].Controller = &yes
	return pod
}

// measuringPod is equal on the trial node and on the control node, except for the disk. With another node of the pool both
// pods also measure their node.
func (t *objects) measuringPod(part, node string, peer *corev1.Pod, withScratch bool) *corev1.Pod {
	o := probe.Options{}
	if peer != nil {
		o = probe.Options{Listen: "$(POD_IP)", Peer: peer.Status.PodIP, Key: keyOf(peer), Inside: insideName, Resolver: resolver}
	}
	if withScratch {
		o.Scratch = scratchDir
	}
	if part == measuring {
		o.Manifest = manifestFile
		return t.pod(part, node, o, corev1.PullAlways)
	}
	return visiting(t.pod(part, node, o, corev1.PullAlways))
}

func keyOf(pod *corev1.Pod) string { return flagOf(pod, keyFlag) }

func flagOf(pod *corev1.Pod, flag string) string {
	for _, arg := range pod.Spec.Containers[0].Args {
		if value, found := strings.CutPrefix(arg, flag); found {
			return value
		}
	}
	return ""
}

// pods returns the pods of this attempt by role. nil means a pod that blocks the name: the record does not know the pod, or
// the pod is in deletion.
func (t *objects) pods(ctx context.Context, k *trialRecord) (map[string]*corev1.Pod, error) {
	list, err := t.Kube.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PrototypeUIDLabel + "=" + string(t.uid())})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", t.Namespace, err)
	}
	found := map[string]*corev1.Pod{}
	for _, part := range measuringParts {
		i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return p.Name == t.name(part) })
		if i < 0 {
			continue
		}
		pod := &list.Items[i]
		switch {
		case pod.DeletionTimestamp != nil:
			found[part] = nil
		case k.Pods[part] != pod.UID:
			// The pod is another client's, or the record of the pod was lost: Kamino trusts neither.
			found[part] = nil
			if err := t.removePod(ctx, pod); err != nil {
				return nil, err
			}
		default:
			found[part] = pod
		}
	}
	return found, nil
}

// make creates a pod and records the UID. A pod that blocks the name is an error.
func (t *objects) make(ctx context.Context, k *trialRecord, part string, pod *corev1.Pod) error {
	made, err := t.Kube.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must specify") { // a quota of the namespace
		made, err = t.Kube.CoreV1().Pods(t.Namespace).Create(ctx, withResources(pod), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make pod %s/%s of the trial: %w", t.Namespace, pod.Name, err)
	}
	noted(k, part, made.UID)
	return nil
}

// withResources returns the pod with the smallest requests, for a namespace with a quota.
func withResources(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(scratchSize, resource.BinarySI)},
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi"),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(2*scratchSize, resource.BinarySI)},
	}
	return pod
}

// noted records the UID of a created object.
func noted(k *trialRecord, part string, uid types.UID) {
	if k.Pods == nil {
		k.Pods = map[string]types.UID{}
	}
	k.Pods[part] = uid
}

// removePod deletes a pod without a grace period: the pod has no work to finish, and a deleted node would never confirm.
func (t *objects) removePod(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := t.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s of the trial: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// removePods deletes the user's Job, and the pods of all attempts.
func (t *objects) removePods(ctx context.Context) error {
	if err := t.removeJob(ctx); err != nil {
		return err
	}
	list, err := t.Kube.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.PrototypeUIDLabel + "=" + string(t.uid()) + ",app.kubernetes.io/component=" + component,
	})
	if err != nil {
		return fmt.Errorf("list the pods of namespace %s: %w", t.Namespace, err)
	}
	for i := range list.Items {
		if err := t.removePod(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// neighbours are Ready nodes with the system and architecture of the trial node, first without cordon, reservation and taint.
// Others are a last resort: otherwise a client that may cordon Nodes could stop every trial.
func (a *attempt) neighbours(node *corev1.Node) (names []string) {
	of := node.Status.NodeInfo
	ranks := map[rank][]string{}
	for i := range a.nodes {
		n := &a.nodes[i]
		alike := n.Status.NodeInfo.OperatingSystem == of.OperatingSystem && n.Status.NodeInfo.Architecture == of.Architecture
		if alike && nodestate.Ready(n) && n.UID != node.UID && !a.has(cloud.InstanceID(n.Spec.ProviderID)) {
			ranks[rankOf(a, n)] = append(ranks[rankOf(a, n)], n.Name)
		}
	}
	for _, some := range ranks {
		slices.Sort(some)
	}
	names = slices.Concat(ranks[free], ranks[tainted])
	for _, last := range []rank{reserved, cordoned} {
		if len(names) == 0 {
			names = ranks[last]
		}
	}
	return names
}

// inPool are the nodes of the pool with another version, and with the instance type of the trial node.
func inPool(a *attempt, node *corev1.Node, neighbours []string) []string {
	if a.PoolInstances == nil {
		return nil
	}
	instances, err := a.PoolInstances()
	if err != nil {
		return nil // without the list, nothing is compared
	}
	var names []string
	var peers []trial.Peer
	for id, nodes := range nodesByInstance(a, instances) {
		i := slices.IndexFunc(instances, func(i cloud.Instance) bool { return i.ID == id })
		if len(nodes) == 1 && i >= 0 && instances[i].BuiltFrom != a.Spec.Version && slices.Contains(neighbours, nodes[0].Name) {
			peers = append(peers, trial.Peer{Node: nodes[0], Instance: instances[i]})
		}
	}
	for _, p := range trial.Alike(a.peer(node), peers) {
		names = append(names, p.Node.Name)
	}
	slices.Sort(names)
	return names
}

// rank of a node for measurements.
type rank int

const (
	free rank = iota
	tainted
	reserved
	cordoned
)

// rankOf ranks a node. Nodes of other trials are cordoned. A reservation without a Lease does not count.
func rankOf(a *attempt, n *corev1.Node) rank {
	_, taken := a.reserved[n.UID]
	switch {
	case n.Spec.Unschedulable:
		return cordoned
	case taken:
		return reserved
	case len(n.Spec.Taints) > 0:
		return tainted
	}
	return free
}
