package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// script returns the map that runs a shell script as the program of containers.
func script(t *testing.T, text string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"kamino.example.com/kamino": path}
}

func programPod(name string, args ...string) *corev1.Pod {
	pod := simulated(name, "n1", "kamino.example.com/kamino:v1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.HostNetwork = true
	pod.Spec.ServiceAccountName = "kamino-generalize"
	pod.Spec.Containers[0].Args = args
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}, {Name: "access", MountPath: "/var/run/kamino"}}
	seconds := int64(600)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		{Name: "access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		}}}},
	}
	return pod
}

func (w *kubeletEnv) rootCA() {
	w.Helper()
	_, err := w.client.CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "the authority"},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func TestProgramSeesTheMachine(t *testing.T) {
	w := newKubeletEnv(t, script(t, `
test "$1" = generalize || exit 2
cat "$3/etc/hostname" "${4#--token-file=}" "$5" > "$3/root/seen" || exit 3
echo "$KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT $NODE $LITERAL" >> "$3/root/seen"
echo working
exit 7
`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("generalize", "generalize", "--root", "/host", "--token-file=/var/run/kamino/token", "/var/run/kamino/ca.crt")
	pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "LITERAL", Value: "on-$(NODE)"},
	}
	w.create(pod)
	ended := w.eventuallyPod("generalize", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	end := ended.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.ExitCode != 7 || end.Reason != "Error" || strings.TrimSpace(end.Message) != "working" {
		t.Errorf("it ended as %+v", end)
	}
	seen, err := os.ReadFile(filepath.Join(root, "root/seen"))
	want := disk.Hostname(root) + "\ntoken-of-kamino-generalizethe authority192.0.2.1 6443 n1 on-n1\n"
	if err != nil || string(seen) != want {
		t.Errorf("the program saw %q (%v), want %q", seen, err, want)
	}
}

// TestProgramFindsItsServiceAccount: client libraries read a fixed path. A kubeconfig replaces this path.
func TestProgramFindsItsServiceAccount(t *testing.T) {
	w := newKubeletEnv(t, script(t, `cp "$KUBECONFIG" "$1/root/kubeconfig"; exec sleep 600`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("controller", "/host")
	pod.Spec.Containers[0].VolumeMounts[1].MountPath = accountMount
	w.create(pod)
	w.eventuallyPod("controller", "runs", podReady)
	w.eventually("the program has copied its kubeconfig", func() bool {
		info, err := os.Stat(filepath.Join(root, "root/kubeconfig"))
		return err == nil && info.Size() > 0
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(root, "root/kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil || string(token) != "token-of-kamino-generalize" || config.Host != "https://192.0.2.1:6443" {
		t.Errorf("its API server is %s, its token %q (%v)", config.Host, token, err)
	}
	if ca, err := os.ReadFile(config.CAFile); err != nil || string(ca) != "the authority" {
		t.Errorf("its authority is %q (%v)", ca, err)
	}
}

func TestProgramIsRestarted(t *testing.T) {
	w := newKubeletEnv(t, script(t, `echo once >> "$1/root/runs"; test "$(wc -l < "$1/root/runs")" -ge 3 && exec sleep 600; exit 1`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("loop", "/host")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.eventuallyPod("loop", "runs for the third time", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 2 && podReady(pod)
	})
	w.remove("loop")
	w.eventually("the pod is gone", func() bool { return w.pod("loop").Name == "" })
}

// TestProgramInheritsTheLimitOfOpenFiles of the container runtime.
func TestProgramInheritsTheLimitOfOpenFiles(t *testing.T) {
	w := newKubeletEnv(t, script(t, `echo "$(ulimit -Sn) $(ulimit -Hn) $2" > "$1/root/limits"`))
	w.rootCA()
	root := w.disk()
	k := w.service.Prepare(w.Context(), Node{Name: "n1", IP: "10.240.0.4", Root: root, Config: bootconfig.Config{OpenFiles: 512}})
	w.Cleanup(k.Kill)
	if err := k.Start(w.Context()); err != nil {
		t.Fatal(err)
	}
	w.create(programPod("limited", "/host", "two words"))
	w.eventuallyPod("limited", "ends", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	if text, err := os.ReadFile(filepath.Join(root, "root/limits")); err != nil || string(text) != "512 512 two words\n" {
		t.Errorf("the program saw %q (%v)", text, err)
	}
}

func TestKillStopsPrograms(t *testing.T) {
	w := newKubeletEnv(t, script(t, `sleep 600 & echo $! > "$1/root/child"; wait`))
	w.rootCA()
	root := w.disk()
	k := w.boot("n1", root)
	w.create(programPod("long", "/host"))
	w.eventuallyPod("long", "runs", podReady)
	w.eventually("the program runs", func() bool {
		text, err := os.ReadFile(filepath.Join(root, "root/child"))
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	text, err := os.ReadFile(filepath.Join(root, "root/child"))
	if err != nil {
		t.Fatal(err)
	}
	k.Kill()
	// init adopted the grandchild and reaps the process: the entry disappears or is a zombie.
	w.eventually("the program's child is dead", func() bool {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/status")
		return err != nil || strings.Contains(string(status), "State:\tZ")
	})
	if left, err := filepath.Glob(filepath.Join(w.dir, volumeDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("volumes outlived the power: %v (%v)", left, err)
	}
	w.eventually("the node is lost", func() bool { return readyStatus(w.node("n1")) == corev1.ConditionUnknown })
	if pod := w.pod("long"); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod's end was reported after the power loss: %s", pod.Status.Phase)
	}
}

func TestRebootWithRestartPolicyNever(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("runtime knows it: %v", known), func(t *testing.T) {
			w := newKubeletEnv(t, script(t, `echo ran >> "$1/root/runs"; exec sleep 600`))
			w.rootCA()
			root := w.disk()
			k := w.boot("n1", root)
			w.create(programPod("once", "/host"))
			running := w.eventuallyPod("once", "runs", podReady)
			k.Kill()
			if !known {
				if err := disk.RemovePod(root, disk.PodRecord{UID: string(running.UID)}); err != nil {
					t.Fatal(err)
				}
			}
			w.boot("n1", root)
			runs := func() int {
				text, _ := os.ReadFile(filepath.Join(root, "root/runs"))
				return strings.Count(string(text), "ran")
			}
			if known {
				w.eventuallyPod("once", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
				if runs() != 1 {
					t.Errorf("it ran %d times", runs())
				}
				return
			}
			w.eventually("it runs once more", func() bool { return runs() == 2 })
		})
	}
}
