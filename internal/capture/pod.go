package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const (
	hostMount  = "/host"
	credential = "/var/run/kamino"
	// tokenSeconds is the lifetime of the pod's token, the shortest that the API server grants.
	tokenSeconds = 600
)

// maxPodName is the limit of a DNS label in characters: the pod's name becomes a host name.
const maxPodName = 63

// podName is the Prototype's name as a DNS label. A hash separates names that are equal without dots or after the cut.
// Usual names of one pool and version need no hash.
func podName(p *v1alpha1.Prototype) string {
	name := "generalize-" + strings.ReplaceAll(p.Name, ".", "-")
	attempt, found := strings.CutPrefix(p.Name, v1alpha1.PrototypeName(p.Spec.Pool, p.Spec.Version, 1))
	usual := found && strings.Trim(attempt, "-0123456789") == ""
	if usual && len(name) <= maxPodName {
		return name
	}
	sum := sha256.Sum256([]byte(p.Name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:min(len(name), maxPodName-len(hash))], "-") + hash
}

// generalizePod is the pod that generalizes the donor, reports the proof, and powers the donor off. NodeName binds the
// pod without scheduler and despite the cordon. The pod does nothing in another boot than the boot in its arguments.
func generalizePod(p *v1alpha1.Prototype, record v1alpha1.Record, namespace, image string) *corev1.Pod {
	yes, no := true, false
	root := int64(0)
	order := v1alpha1.OrderRecord{}
	if record.Order != nil {
		order = *record.Order
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(p), Namespace: namespace,
			Labels: podLabels(p), Annotations: map[string]string{v1alpha1.OrderAnnotation: string(order.UID)},
		},
		Spec: corev1.PodSpec{
			NodeName:                     p.Spec.Donor.NodeName,
			RestartPolicy:                corev1.RestartPolicyNever,
			ServiceAccountName:           v1alpha1.GeneralizeServiceAccount,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			HostNetwork:                  true, // independent of the pod network, which stops with its agents
			HostPID:                      true,
			PriorityClassName:            "system-node-critical",
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name:  "generalize",
				Image: podImage(p, image),
				// The inspection has pulled this image.
				ImagePullPolicy: corev1.PullIfNotPresent,
				Args: append([]string{
					"generalize", "--root", hostMount, "--live",
					"--prototype", p.Name, "--uid", string(p.UID), "--boot-id", record.GeneralizeBootID,
					"--order", namespace + "/" + podName(p), "--order-uid", string(order.UID),
					"--token-file", credential + "/token", "--ca-file", credential + "/ca.crt",
					"--key-file", credential + "/key", "--pod-uid-file", credential + "/pod-uid",
				}, settingsArgs(p)...),
				SecurityContext:          &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "host", MountPath: hostMount},
					{Name: "credential", MountPath: credential, ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
				{Name: "credential", VolumeSource: corev1.VolumeSource{Projected: credentialVolume(p)}},
			},
		},
	}
	if p.Spec.Pioneer != nil && *p.Spec.Pioneer.Defaulted().QuietNodes {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--quiet-nodes")
	}
	if rules := p.Spec.Settings.Generalize.Rules; rules != "" {
		addRules(&pod.Spec, rules, record.RulesDigest)
	}
	return pod
}

// settingsArgs are the arguments for the disk from the settings.
func settingsArgs(p *v1alpha1.Prototype) []string {
	args := []string{"--profile", string(p.Spec.Settings.Profile())}
	if unknown := p.Spec.Settings.Generalize.UnknownFiles; unknown != "" {
		args = append(args, "--unknown-files", string(unknown))
	}
	return args
}

// podLabels are the labels of the pod, and of all other objects of the capture.
func podLabels(p *v1alpha1.Prototype) map[string]string {
	return map[string]string{
		v1alpha1.PrototypeLabel:        v1alpha1.LabelValue(p.Name),
		v1alpha1.PrototypeUIDLabel:     string(p.UID),
		"app.kubernetes.io/name":       "kamino",
		"app.kubernetes.io/component":  "generalize",
		"app.kubernetes.io/managed-by": "kamino",
	}
}

// ownedBy lets the cluster delete an object with its Prototype.
func ownedBy(p *v1alpha1.Prototype) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: p.Name, UID: p.UID}
}

// credentialVolume is in memory: the container runtime would write arguments and environment variables onto the disk. A
// missing key must not block the pod's start, because the pod reports the missing key, and the kubelet would only wait.
func credentialVolume(p *v1alpha1.Prototype) *corev1.ProjectedVolumeSource {
	seconds, yes := int64(tokenSeconds), true
	return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: podName(p)}, Optional: &yes,
			Items: []corev1.KeyToPath{{Key: orderKey, Path: "key"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "pod-uid", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
		}}},
	}}
}

// waitingTroubles are the kubelet's reasons for a container that will not start soon. Source:
// pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime/kuberuntime_container.go.
var waitingTroubles = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
}

// podTrouble explains why the pod will bring no proof; empty if a proof is possible.
func (w *pass) podTrouble() string {
	if o := w.record.Order; o != nil && w.disk.pod.Annotations[v1alpha1.OrderAnnotation] != string(o.UID) {
		return "the pod belongs to another order: delete the pod, then try again"
	}
	return podTrouble(w.disk.pod)
}

// podTrouble is the trouble in the pod's status.
func podTrouble(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil && waitingTroubles[s.State.Waiting.Reason]:
			return fmt.Sprintf("its container cannot start (%s: %s)", s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil:
			message := s.State.Terminated.Message
			if message == "" {
				message = s.State.Terminated.Reason
			}
			return fmt.Sprintf("its container ended with exit code %d: %s", s.State.Terminated.ExitCode, strings.TrimSpace(message))
		}
	}
	switch pod.Status.Phase {
	case corev1.PodFailed:
		return fmt.Sprintf("the pod failed (%s: %s)", pod.Status.Reason, pod.Status.Message)
	case corev1.PodSucceeded:
		return "the pod ended without a proof"
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
	}
	return ""
}
