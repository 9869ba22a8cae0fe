package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// lookLimit is how long the look at the donor's disk may take, the pull of its image included. The donor serves
// meanwhile; but a pull that took longer would have kept it out of service for as long.
const lookLimit = 5 * time.Minute

// lookName is the container that looks, and the component that its pod is labelled as.
const lookName = "look"

// look makes the pod that looks at the donor's disk. The finalizer comes first, with the record, so that a
// Prototype which is deleted meanwhile leaves no pod behind, and what the preflight has read is not asked for again.
func (d pods) look(ctx context.Context, w *observed) error {
	before := w.p.DeepCopy()
	controllerutil.AddFinalizer(w.p, v1alpha1.CaptureFinalizer)
	remember, now := w.remember(nil), metav1.NewTime(d.now())
	err := d.recordSince(ctx, w, before, func(r *v1alpha1.Record) {
		remember(r)
		r.LookingSince = &now
	})
	if err != nil {
		return err
	}
	_, err = d.makePod(ctx, lookPod(w.p, d.namespace, d.image))
	return err
}

// lookPod looks at the donor's disk while the donor serves. It is of the image and the account of the generalize pod,
// so that both are tried and the image is there when the donor is drained. It sees the disk read-only, has no
// credential, takes no other pod's place, and ends by itself. What it finds stands in its status alone.
func lookPod(p *v1alpha1.Prototype, namespace, image string) *corev1.Pod {
	yes, no := true, false
	root, limit, ifPossible := int64(0), int64(lookLimit/time.Second), corev1.RecursiveReadOnlyIfPossible
	labels := podLabels(p)
	labels["app.kubernetes.io/component"] = lookName
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(p), Namespace: namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: p.Name, UID: p.UID,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:                     p.Spec.Donor.NodeName,
			RestartPolicy:                corev1.RestartPolicyNever,
			ServiceAccountName:           v1alpha1.GeneralizeServiceAccount,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			HostNetwork:                  true, // takes none of the node's addresses, and leaves nothing of one on the disk
			ActiveDeadlineSeconds:        &limit,
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name:  lookName,
				Image: podImage(p, image),
				Args:  append([]string{"generalize", "--root", hostMount, "--look"}, settingsArgs(p)...),
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: &root, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"DAC_READ_SEARCH"}},
					// A node with SELinux shows its files to no other type.
					SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"},
				},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts:             []corev1.VolumeMount{{Name: "host", MountPath: hostMount, ReadOnly: true, RecursiveReadOnly: &ifPossible}},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			},
		},
	}
	if rules := p.Spec.Settings.Generalize.Rules; rules != "" {
		addRules(&pod.Spec, rules, "")
	}
	return pod
}

// readLook takes the facts from the pod that looks. One that its kubelet had no room for has found nothing: the
// generalize pod comes to an empty node.
func (w *observed) readLook(now time.Time) {
	f := &w.facts
	full := w.pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(w.pod.Status.Reason, "OutOf")
	switch {
	case !w.foreignPod() && (w.pod.Status.Phase == corev1.PodSucceeded || full):
		f.Pod = plan.PodLooked
	case w.foreignPod(), podTrouble(w.pod) != "", w.lookOverdue(now):
		f.Pod, w.lookWhy = plan.PodFailed, w.lookSentence(now)
	}
}

// foreignPod tells that the pod of that name was made for somebody else, or for something else.
func (w *observed) foreignPod() bool {
	return w.pod.Labels[v1alpha1.PrototypeUIDLabel] != string(w.p.UID) || w.pod.Labels["app.kubernetes.io/component"] != lookName
}

// lookOverdue is for a kubelet that does not end the pod, or never began it.
func (w *observed) lookOverdue(now time.Time) bool {
	return w.pod.Status.Reason == "DeadlineExceeded" || w.record.LookingSince != nil && now.Sub(w.record.LookingSince.Time) > lookLimit
}

// looking tells that the pod is at it, or has found something.
func (w *observed) looking() bool {
	return !w.held() && !w.facts.MustBoot() && (w.facts.Pod == plan.PodActive || w.facts.Pod == plan.PodFailed)
}

// lookSentence says what keeps the node from being captured.
func (w *observed) lookSentence(now time.Time) string {
	n, pod := w.p.Spec.Donor.NodeName, podName(w.p)
	container := slices.IndexFunc(w.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated != nil })
	switch {
	case w.foreignPod():
		return fmt.Sprintf("pod %s was there and is not of this capture; it is removed: try again", pod)
	case w.lookOverdue(now):
		return fmt.Sprintf("the look at the disk of node %s did not end within %s, and the node was left in service: see the events of pod %s, and whether the node can pull %s",
			n, lookLimit, pod, w.pod.Spec.Containers[0].Image)
	case container >= 0:
		return fmt.Sprintf("node %s cannot be generalized as it is, and was left in service: %s",
			n, strings.TrimPrefix(strings.TrimSpace(w.pod.Status.ContainerStatuses[container].State.Terminated.Message), "kamino: "))
	default:
		return fmt.Sprintf("pod %s does not run on node %s, which was left in service: %s; see that the node can pull %s, or name another image with --image",
			pod, n, podTrouble(w.pod), w.pod.Spec.Containers[0].Image)
	}
}
