package bootconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	"sigs.k8s.io/yaml"
)

// staticPods are the mirrors of the pods in the directory of manifests. The kubelet skips invalid manifests. Source:
// pkg/kubelet/config/file.go and common.go, pkg/kubelet/pod/mirror_client.go.
func (f files) staticPods(dir, nodeName string) (pods []corev1.Pod) {
	if dir == "" {
		return nil
	}
	for _, path := range f.list(dir) {
		if at, err := f.resolve(path); err != nil || strings.HasPrefix(filepath.Base(path), ".") || !isRegular(at) {
			continue
		}
		text := f.text(path)
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil || pod.Kind != "Pod" || pod.Name == "" || len(pod.Spec.Containers) == 0 {
			continue
		}
		pod.Name = fmt.Sprintf("%s-%s", pod.Name, nodeName)
		if pod.Namespace == "" {
			pod.Namespace = metav1.NamespaceDefault
		}
		sum := sha256.Sum256([]byte(path + text))
		hash := hex.EncodeToString(sum[:16])
		for key, value := range map[string]string{
			kubelettypes.ConfigSourceAnnotationKey: kubelettypes.FileSource,
			kubelettypes.ConfigHashAnnotationKey:   hash, kubelettypes.ConfigMirrorAnnotationKey: hash,
		} {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		pod.Spec.NodeName = nodeName
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
		pod.UID, pod.Status = types.UID(hash), corev1.PodStatus{} // the API server assigns another UID
		pods = append(pods, pod)
	}
	return pods
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
