package capture

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
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

// newOrder is the NodeOrder that the pod on the donor will read. NodeOrder, key and pod have the same name.
func newOrder(p *v1alpha1.Prototype, namespace, boot, rules, key string) *v1alpha1.NodeOrder {
	generalize := p.Spec.Settings.Generalize
	generalize.Profile = p.Spec.Settings.Profile() // the NodeOrder names the profile even if the settings do not
	return &v1alpha1.NodeOrder{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(p), Namespace: namespace, Labels: podLabels(p), OwnerReferences: []metav1.OwnerReference{ownedBy(p)},
		},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: v1alpha1.Holder{Name: p.Name, UID: p.UID}, NodeName: p.Spec.Donor.NodeName, Method: v1alpha1.InPlace, Token: boot, PodName: podName(p),
			Generalize: generalize, RulesDigest: rules, Key: key,
		},
	}
}

// generalizePod is the pod that generalizes the donor, reports the proof, and powers the donor off. The pod does nothing in
// another boot than the boot in its arguments. The inspection has pulled its image.
func generalizePod(p *v1alpha1.Prototype, record v1alpha1.Record, namespace, image string) *corev1.Pod {
	order := newOrder(p, namespace, record.GeneralizeBootID, record.RulesDigest, "")
	if record.Order != nil {
		order.UID = record.Order.UID
	}
	pod := node.OrderPod(order, image, "generalize", "--root", node.HostMount, "--live", "--prototype", p.Name, "--uid", string(p.UID), "--boot-id", record.GeneralizeBootID)
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, generalizeArgs(p)...)
	if rules := p.Spec.Settings.Generalize.Rules; rules != "" {
		addRules(&pod.Spec, rules, record.RulesDigest)
	}
	return pod
}

// generalizeArgs are the arguments of a pod that generalizes a disk.
func generalizeArgs(p *v1alpha1.Prototype) []string {
	args := settingsArgs(p)
	if p.Spec.Pioneer != nil && *p.Spec.Pioneer.Defaulted().QuietNodes {
		args = append(args, "--quiet-nodes")
	}
	return args
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

// inspectionPod inspects the disk of a donor in service, read-only, with image and service account of the generalize pod. The
// check covers both, and the image is on the node before the drain. The result is in the pod's status.
func inspectionPod(p *v1alpha1.Prototype, namespace, image string) *corev1.Pod {
	yes, no := true, false
	root, limit, ifPossible := int64(0), int64(inspectionTimeout/time.Second), corev1.RecursiveReadOnlyIfPossible
	labels := podLabels(p)
	labels["app.kubernetes.io/component"] = inspectionContainer
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(p), Namespace: namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{ownedBy(p)},
		},
		Spec: corev1.PodSpec{
			NodeName:                     p.Spec.Donor.NodeName,
			RestartPolicy:                corev1.RestartPolicyNever,
			ServiceAccountName:           v1alpha1.GeneralizeServiceAccount,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			HostNetwork:                  true, // uses no pod address of the node, and leaves no trace of such an address on the disk
			ActiveDeadlineSeconds:        &limit,
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name:  inspectionContainer,
				Image: image,
				Args:  append([]string{"inspect", "--root", node.HostMount}, settingsArgs(p)...),
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: &root, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"DAC_READ_SEARCH"}},
					// SELinux denies the node's files to all other types.
					SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"},
				},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts:             []corev1.VolumeMount{{Name: "host", MountPath: node.HostMount, ReadOnly: true, RecursiveReadOnly: &ifPossible}},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			},
		},
	}
	if p.Spec.Settings.CopiesDonor() {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--copied")
	}
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, patchArgs(p)...)
	if rules := p.Spec.Settings.Generalize.Rules; rules != "" {
		addRules(&pod.Spec, rules, "")
	}
	return pod
}

// patchArgs are the arguments for the inspection of a pioneer: no obstacle appears only after the patch.
func patchArgs(p *v1alpha1.Prototype) []string {
	if p.Spec.Pioneer == nil {
		return nil
	}
	pioneer := p.Spec.Pioneer.Defaulted()
	args := []string{"--patched-by-kamino", string(pioneer.OtherRebooters)}
	if *pioneer.QuietNodes && !p.Spec.Settings.CopiesDonor() { // a copied donor gets no masks
		args = append(args, "--quiet-nodes")
	}
	return args
}

// podNamespaceOf returns the namespace of the capture's pod and NodeOrder: the recorded namespace, else the configured one.
func podNamespaceOf(w *pass, configured string) string {
	if o := w.record.Order; o != nil && o.Namespace != "" {
		return o.Namespace
	}
	return configured
}

func addSummaryKey(p *v1alpha1.Prototype, spec *corev1.PodSpec) {
	container, mode := &spec.Containers[0], int32(0o400)
	container.Args = append(container.Args, "--summary-key-file", node.CredentialMount+"/"+orderKey)
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: summaryKeyVolume, MountPath: node.CredentialMount, ReadOnly: true})
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: summaryKeyVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: summaryKeyName(p), DefaultMode: &mode},
	}})
}

func hasSummaryKey(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == summaryKeyVolume })
}

// summaryKeyName is the Secret with the key of the summary. Without the key, a reader of pods could test guessed contents
// against the summary.
func summaryKeyName(p *v1alpha1.Prototype) string { return podName(p) + "-summary" }

const (
	// summaryKeyVolume is the volume with the key of the summary.
	summaryKeyVolume = "summary-key"
	// summaryKeyBytes is the length that the program in the pod expects.
	summaryKeyBytes = 32
)

// orderKey is the key of a Secret with a key: of the NodeOrder, or of the summary.
const orderKey = node.SecretKey

// inspectionContainer is the container of the inspection, and the component label of its pod.
const inspectionContainer = "look"

// inspectionTimeout is the timeout of the disk inspection, including the image pull. The donor serves meanwhile. A
// longer pull would later keep the donor out of service for as long.
const inspectionTimeout = 5 * time.Minute

// podImages decides which image runs on nodes: the settings may name an allowed image.
type podImages struct {
	fallback string
	allowed  []string
}

// of is the image of the pods on nodes: from the settings, else from the engine.
func (i podImages) of(p *v1alpha1.Prototype) string {
	return cmp.Or(p.Spec.Settings.Generalize.Image, i.fallback)
}

// mayRun asks whether a pod with the image of the settings may run on a node.
func (i podImages) mayRun(p *v1alpha1.Prototype) error {
	return denied(admission.Image(&admission.Case{Prototype: p, Process: admission.Process{Image: i.fallback, AllowedImages: i.allowed}}))
}

// deniedError is a setting that the process allows no more, or has never allowed.
type deniedError struct{ cloud.Refusal }

func (d *deniedError) Error() string { return d.Message }

func denied(refusals []cloud.Refusal, err error) error {
	if err != nil || len(refusals) == 0 {
		return err
	}
	return &deniedError{refusals[0]}
}
