package tryout

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/probe"
)

// Parts that a trial has pods for.
const (
	// onDisk starts on the trial node if Kamino's image is on its disk, and ends at once.
	onDisk = "disk"
	// peer answers on another node.
	peer = "peer"
	// measuring is on the trial node. Its image is pulled.
	measuring = "node"
	// control measures the same from another node.
	control = "control"
	// job is the user's own.
	job = "job"
)

const (
	manifestDir  = "/var/lib/kamino"
	manifestFile = manifestDir + "/generalize.json"
	insideName   = "kubernetes.default.svc"
	resolver     = "/etc/resolv.conf"
	report       = "/dev/termination-log"
	// podSeconds is how long a pod may run.
	podSeconds = 1800
	nobody     = 65532
	keyFlag    = "--key="
	peerFlag   = "--peer="
)

// pod of a part: no account, no privilege, nothing to write to, and bound to its node past the scheduler, whose cordon holds
// it off. It asks for no resources, for a node that is full would turn it away.
func (a *attempt) pod(part, node string, o probe.Options, pull corev1.PullPolicy) *corev1.Pod {
	yes, no, user, seconds := true, false, int64(nobody), int64(podSeconds)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: a.name(part), Namespace: a.Namespace, Labels: a.labels(), OwnerReferences: a.owner()},
		Spec: corev1.PodSpec{
			// The account's pull secrets are wanted, and no token of it.
			ServiceAccountName: v1alpha1.GeneralizeServiceAccount,
			NodeName:           node, RestartPolicy: corev1.RestartPolicyOnFailure, ActiveDeadlineSeconds: &seconds,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: a.image(), ImagePullPolicy: pull, Args: append(o.Args(), "--report="+report), TerminationMessagePath: report,
				Env: []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if o.Manifest != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "manifest", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: manifestDir}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "manifest", MountPath: manifestDir, ReadOnly: true}}
	}
	return pod
}

func (a *attempt) image() string {
	if image := a.Prototype.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return a.Tryout.Image
}

// peerPod has a key of its own, which the pods that measure get from it.
func (a *attempt) peerPod(node string) *corev1.Pod {
	return visiting(a.pod(peer, node, probe.Options{Serve: true, Listen: "$(POD_IP)", Key: rand.Text()}, corev1.PullIfNotPresent))
}

// visiting is a pod on a node that is not the trial's own, and that whoever drains that node may evict: one that nothing makes again would be
// in the way there, of other captures too. The trial makes it again.
func visiting(pod *corev1.Pod) *corev1.Pod {
	yes := true
	pod.OwnerReferences[0].Controller = &yes
	return pod
}

// measuringPod is alike on the trial node and on the one that controls it, but for the disk.
func (a *attempt) measuringPod(part, node string, peer *corev1.Pod) *corev1.Pod {
	o := probe.Options{}
	if peer != nil {
		o = probe.Options{Listen: "$(POD_IP)", Peer: peer.Status.PodIP, Key: keyOf(peer), Inside: insideName, Outside: a.outside(), Resolver: resolver}
	}
	if part == measuring {
		o.Manifest = manifestFile
		return a.pod(part, node, o, corev1.PullAlways)
	}
	return visiting(a.pod(part, node, o, corev1.PullAlways))
}

// outside is a name that is none of the cluster's; empty if the settings name none.
func (a *attempt) outside() string { return a.Prototype.Spec.Settings.Trial.Outside }

func keyOf(pod *corev1.Pod) string { return flagOf(pod, keyFlag) }

func flagOf(pod *corev1.Pod, flag string) string {
	for _, arg := range pod.Spec.Containers[0].Args {
		if value, found := strings.CutPrefix(arg, flag); found {
			return value
		}
	}
	return ""
}

// pods of this attempt that are there, by their parts; nil stands for one that is in the way, because nobody noted that it was
// made for this, or because it is on its way out.
func (a *attempt) pods(ctx context.Context, k *kept) (map[string]*corev1.Pod, error) {
	list, err := a.Kube.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PrototypeUIDLabel + "=" + string(a.uid())})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", a.Namespace, err)
	}
	found := map[string]*corev1.Pod{}
	for _, part := range []string{onDisk, peer, measuring, control} {
		i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return p.Name == a.name(part) })
		if i < 0 {
			continue
		}
		pod := &list.Items[i]
		switch {
		case pod.DeletionTimestamp != nil:
			found[part] = nil
		case k.Pods[part] != pod.UID:
			// It is another's, or the note of it was lost: neither is believed.
			found[part] = nil
			if err := a.removePod(ctx, pod); err != nil {
				return nil, err
			}
		default:
			found[part] = pod
		}
	}
	return found, nil
}

// make a pod, and note that it was. One that is in the way is not waited for.
func (a *attempt) make(ctx context.Context, k *kept, part string, pod *corev1.Pod) error {
	made, err := a.Kube.CoreV1().Pods(a.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make pod %s/%s of the trial: %w", a.Namespace, pod.Name, err)
	}
	noted(k, part, made.UID)
	return nil
}

// noted is what was made for a part.
func noted(k *kept, part string, uid types.UID) {
	if k.Pods == nil {
		k.Pods = map[string]types.UID{}
	}
	k.Pods[part] = uid
}

// removePod at once: it has nothing to finish, and a node that is gone would never say that it has.
func (a *attempt) removePod(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := a.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s of the trial: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// removePods of all attempts, and the user's Job before its pods.
func (a *attempt) removePods(ctx context.Context) error {
	if err := a.removeJob(ctx); err != nil {
		return err
	}
	list, err := a.Kube.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.PrototypeUIDLabel + "=" + string(a.uid()) + ",app.kubernetes.io/component=" + component,
	})
	if err != nil {
		return fmt.Errorf("list the pods of namespace %s: %w", a.Namespace, err)
	}
	for i := range list.Items {
		if err := a.removePod(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// neighbours are the nodes to measure with: Ready, and of the trial node's kind by what their kubelets report. Nodes that no cordon or
// reservation speaks against are preferred, those without taints first. The others are a last resort: every client that may cordon Nodes
// could leave the trial without a node to measure with.
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

// rank of a node to measure with.
type rank int

const (
	free rank = iota
	tainted
	reserved
	cordoned
)

// rankOf a node. The nodes of other trials are cordoned. A reservation that is on the Node alone says nothing.
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
