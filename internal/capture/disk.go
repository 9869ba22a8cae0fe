package capture

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// inspectionTimeout is the timeout of the disk inspection, including the image pull. The donor serves meanwhile. A
// longer pull would later keep the donor out of service for as long.
const inspectionTimeout = 5 * time.Minute

// inspectionContainer is the container of the inspection, and the component label of its pod.
const inspectionContainer = "look"

// createInspectionPod creates the inspecting pod: first on another node if the files are compared, then on the donor. Finalizer
// and record precede the pod, so that a deleted Prototype leaves no pod.
func (d pods) createInspectionPod(ctx context.Context, w *pass) error {
	if err := mayRun(d.Engine, w.p); err != nil {
		return err
	}
	if err := d.begin(ctx, w.p); err != nil {
		return err
	}
	remember, now := w.remember(w.record.Reservation), metav1.NewTime(d.now())
	err := d.record(ctx, w, func(r *v1alpha1.Record) {
		remember(r)
		r.DiskCheckStartedAt = &now
	})
	if err != nil {
		return err
	}
	pod := inspectionPod(w.p, d.podNamespace(), d.Image)
	if w.p.Spec.Settings.Generalize.UnknownFiles.Compares() {
		if err := d.compare(ctx, w, &pod.Spec); err != nil {
			return err
		}
	}
	_, err = d.makePod(ctx, pod)
	return err
}

// compare lets the pod summarize the files of another node, or compare the donor with the summary. Without another node
// the inspection of the donor refuses the capture.
func (d pods) compare(ctx context.Context, w *pass, spec *corev1.PodSpec) error {
	container := &spec.Containers[0]
	if w.facts.Disk.Pod == plan.PodCompared {
		container.Args = append(container.Args, "--compare-with", w.disk.pod.Spec.NodeName+"="+w.disk.summary)
		if w.disk.summary == "" {
			return d.deletePodAndKey(ctx, w)
		}
		addSummaryKey(w.p, spec)
		return d.deleteOnlyPod(ctx, w)
	}
	if w.preflight.admission == nil { // an added donor is inspected without a preflight
		w.preflight.admission = &admission.Case{}
		preflight(d).surroundings(ctx, w, w.preflight.admission)
	}
	if peer := peerOf(w); peer != "" {
		spec.NodeName = peer
		container.Args = append(container.Args, "--summarize", corev1.TerminationMessagePathDefault)
		addSummaryKey(w.p, spec)
		return d.makeSummaryKey(ctx, w.p)
	}
	return nil
}

// summaryKeyName is the Secret with the key of the summary. Without the key, a reader of pods could test guessed contents
// against the summary.
func summaryKeyName(p *v1alpha1.Prototype) string { return podName(p) + "-summary" }

// makeSummaryKey creates the key that both inspecting pods mount.
func (d pods) makeSummaryKey(ctx context.Context, p *v1alpha1.Prototype) error {
	key := make([]byte, summaryKeyBytes)
	_, _ = rand.Read(key) // never fails
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: summaryKeyName(p), Namespace: d.podNamespace(), Labels: podLabels(p), OwnerReferences: []metav1.OwnerReference{ownedBy(p)},
		},
		Immutable: &immutable,
		Data:      map[string][]byte{orderKey: key},
	}
	secrets := d.Kube.CoreV1().Secrets(d.podNamespace())
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of a pod that is gone
		if err := d.deleteSummaryKey(ctx, p, d.podNamespace()); err != nil {
			return err
		}
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create secret %s/%s: %w", d.podNamespace(), secret.Name, err)
	}
	return nil
}

func (d pods) deleteSummaryKey(ctx context.Context, p *v1alpha1.Prototype, namespace string) error {
	err := d.Kube.CoreV1().Secrets(namespace).Delete(ctx, summaryKeyName(p), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", namespace, summaryKeyName(p), err)
	}
	return nil
}

const (
	// summaryKeyVolume is the volume with the key of the summary.
	summaryKeyVolume = "summary-key"
	// summaryKeyBytes is the length that the program in the pod expects.
	summaryKeyBytes = 32
)

func addSummaryKey(p *v1alpha1.Prototype, spec *corev1.PodSpec) {
	container, mode := &spec.Containers[0], int32(0o400)
	container.Args = append(container.Args, "--summary-key-file", credential+"/"+orderKey)
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: summaryKeyVolume, MountPath: credential, ReadOnly: true})
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: summaryKeyVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: summaryKeyName(p), DefaultMode: &mode},
	}})
}

func hasSummaryKey(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == summaryKeyVolume })
}

// peerOf is the Ready node of the donor's pool whose files are compared; empty if there is none. Reserved nodes are excluded.
func peerOf(w *pass) string {
	around, err := w.preflight.admission.PoolNodes.Get()
	if err != nil {
		return ""
	}
	name := ""
	for i := range around.Peers {
		n := &around.Peers[i]
		if nodestate.Ready(n) && n.DeletionTimestamp == nil && !around.Reserved[n.UID] && (name == "" || n.Name < name) {
			name = n.Name
		}
	}
	return name
}

// messageOf returns the message that the inspecting pod has left; empty without one.
func messageOf(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.Message
		}
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
				Image: podImage(p, image),
				Args:  append([]string{"inspect", "--root", hostMount}, settingsArgs(p)...),
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: &root, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"DAC_READ_SEARCH"}},
					// SELinux denies the node's files to all other types.
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
	if *pioneer.QuietNodes && !p.Spec.ReplacesDonor() {
		args = append(args, "--quiet-nodes")
	}
	return args
}

// readInspection reads the facts from the inspecting pod. A pod that was rejected for lack of room has found nothing;
// the generalize pod runs on a drained node.
func (w *pass) readInspection(now time.Time) {
	f, unknownFiles := &w.facts, w.p.Spec.Settings.Generalize.UnknownFiles
	full := w.disk.pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(w.disk.pod.Status.Reason, "OutOf")
	failed := w.foreignPod() || podTrouble(w.disk.pod) != "" || w.isInspectionOverdue(now)
	switch {
	case hasSummary(w):
		f.Disk.Pod, w.disk.summary = plan.PodCompared, messageOf(w.disk.pod)
	case !w.foreignPod() && !isPeerPod(w) && (w.disk.pod.Status.Phase == corev1.PodSucceeded || full):
		f.Disk.Pod = plan.PodLooked
		if unknownFiles.Compares() && !full {
			w.disk.comparison = messageOf(w.disk.pod)
		}
	case failed && !w.foreignPod() && isPeerPod(w) && unknownFiles == v1alpha1.UnknownFilesReportDifferent:
		f.Disk.Pod = plan.PodCompared // the inspection of the donor reports the missing comparison
	case failed:
		f.Disk.Pod, w.disk.obstacle = plan.PodFailed, w.inspectionMessage(now)
	}
}

// hasSummary reports whether the pod has summarized the files of another node.
func hasSummary(w *pass) bool {
	return !w.foreignPod() && isPeerPod(w) && w.disk.pod.Status.Phase == corev1.PodSucceeded && messageOf(w.disk.pod) != ""
}

// foreignPod reports whether the pod of this name belongs to another Prototype or has another purpose.
func (w *pass) foreignPod() bool {
	return w.disk.pod.Labels[v1alpha1.PrototypeUIDLabel] != string(w.p.UID) || w.disk.pod.Labels["app.kubernetes.io/component"] != inspectionContainer
}

// isPeerPod reports whether the pod summarizes the files of another node.
func isPeerPod(w *pass) bool { return w.disk.pod.Spec.NodeName != w.p.Spec.Donor.NodeName }

// isInspectionOverdue covers also a kubelet that does not end the pod, or never started it.
func (w *pass) isInspectionOverdue(now time.Time) bool {
	return w.disk.pod.Status.Reason == "DeadlineExceeded" || w.record.DiskCheckStartedAt != nil && now.Sub(w.record.DiskCheckStartedAt.Time) > inspectionTimeout
}

// isInspecting reports whether the inspection is in progress, or has found an obstacle.
func (w *pass) isInspecting() bool {
	return !w.isHeld() && !w.facts.MustBoot() && w.facts.Disk.Pod != plan.NoPod && w.facts.Disk.Pod != plan.PodLooked
}

// inspectionMessage is the obstacle, as the message of the failure.
func (w *pass) inspectionMessage(now time.Time) string {
	n, pod, stayed, whichStayed := w.p.Spec.Donor.NodeName, podName(w.p), ", and the node stayed in service", ", which stayed in service"
	if w.facts.Leaving.Added {
		stayed, whichStayed = "", "" // Kamino removes the node
	}
	container := slices.IndexFunc(w.disk.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated != nil })
	switch {
	case w.foreignPod():
		return fmt.Sprintf("pod %s belongs to another capture, and is removed: %s", pod, retryRemedy(w))
	case isPeerPod(w):
		trouble := podTrouble(w.disk.pod)
		if w.isInspectionOverdue(now) {
			trouble = fmt.Sprintf("the inspection did not end within %s", inspectionTimeout)
		}
		return fmt.Sprintf("the files of node %s cannot be compared with node %s%s: %s. Repair node %s, or set settings.generalize.unknownFiles to ReportDifferent",
			w.disk.pod.Spec.NodeName, n, whichStayed, trouble, w.disk.pod.Spec.NodeName)
	case w.isInspectionOverdue(now):
		return fmt.Sprintf("the inspection of the disk of node %s did not end within %s%s. Read the events of pod %s, and check that the node can pull %s",
			n, inspectionTimeout, stayed, pod, w.disk.pod.Spec.Containers[0].Image)
	case container >= 0:
		return fmt.Sprintf("node %s cannot be captured%s: %s",
			n, stayed, strings.TrimPrefix(strings.TrimSpace(w.disk.pod.Status.ContainerStatuses[container].State.Terminated.Message), "kamino: "))
	default:
		return fmt.Sprintf("pod %s does not run on node %s%s: %s. Check that the node can pull %s, or name another image in settings.generalize.image",
			pod, n, stayed, podTrouble(w.disk.pod), w.disk.pod.Spec.Containers[0].Image)
	}
}
