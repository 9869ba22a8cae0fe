package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// volumes are the directories that stand for a pod's volumes. They lie outside the machine's disk: on a
// real node, tokens and secrets are in memory.
type volumes struct {
	kubelet *Kubelet
	dir     string
	// ip is the pod's own address.
	ip string
	// paths of the volumes by name.
	paths map[string]string
}

// volumeDir is where volumes are, below the service's directory.
const volumeDir = "volumes"

// mount creates the pod's volumes if a container is a real program.
func (w *worker) mount(ctx context.Context, pod *corev1.Pod) error {
	real := false
	for _, c := range w.containers {
		real = real || w.kubelet.service.program(c.spec.Image) != ""
	}
	if !real {
		return nil
	}
	v := &volumes{kubelet: w.kubelet, ip: w.ip, dir: filepath.Join(w.kubelet.service.Dir, volumeDir, string(w.uid)), paths: map[string]string{}}
	w.volumes = v
	for i := range pod.Spec.Volumes {
		if err := v.make(ctx, pod, &pod.Spec.Volumes[i]); err != nil {
			return fmt.Errorf("volume %s: %w", pod.Spec.Volumes[i].Name, err)
		}
	}
	return nil
}

// remove deletes the volumes of a pod at its end, and at a loss of power. A pod without programs has no volumes.
func (v *volumes) remove() {
	if v != nil {
		_ = os.RemoveAll(v.dir)
	}
}

func (v *volumes) make(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	path := filepath.Join(v.dir, "volumes", volume.Name)
	v.paths[volume.Name] = path
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	source := volume.VolumeSource
	switch {
	case source.HostPath != nil:
		return v.hostPath(volume.Name, source.HostPath)
	case source.Projected != nil:
		for i := range source.Projected.Sources {
			if err := v.project(ctx, pod, path, &source.Projected.Sources[i]); err != nil {
				return err
			}
		}
		return nil
	case source.Secret != nil:
		return v.secret(ctx, pod, path, source.Secret.SecretName, source.Secret.Items, source.Secret.Optional)
	case source.ConfigMap != nil:
		return v.configMap(ctx, pod, path, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
	case source.DownwardAPI != nil:
		return downward(pod, path, source.DownwardAPI.Items)
	case source.EmptyDir != nil:
		return nil
	default:
		return errors.New("the sandbox's kubelet has no volumes of this kind")
	}
}

// hostPath is a directory of the machine's own tree.
func (v *volumes) hostPath(name string, source *corev1.HostPathVolumeSource) error {
	if v.kubelet.node.Root == "" {
		return errors.New("a light machine has no disk")
	}
	path := filepath.Join(v.kubelet.node.Root, filepath.Clean("/"+source.Path))
	v.paths[name] = path
	if source.Type == nil {
		return nil
	}
	switch *source.Type {
	case corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(path, 0o755)
	case corev1.HostPathDirectory, corev1.HostPathFile, corev1.HostPathSocket:
		_, err := os.Stat(path)
		return err
	default:
		return nil
	}
}

func (v *volumes) project(ctx context.Context, pod *corev1.Pod, dir string, source *corev1.VolumeProjection) error {
	switch {
	case source.ServiceAccountToken != nil:
		return v.token(ctx, pod, filepath.Join(dir, source.ServiceAccountToken.Path), source.ServiceAccountToken)
	case source.ConfigMap != nil:
		return v.configMap(ctx, pod, dir, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
	case source.Secret != nil:
		return v.secret(ctx, pod, dir, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
	case source.DownwardAPI != nil:
		return downward(pod, dir, source.DownwardAPI.Items)
	default:
		return errors.New("the sandbox's kubelet has no projections of this kind")
	}
}

// token writes a real token of the pod's service account, bound to the pod, and keeps it fresh.
func (v *volumes) token(ctx context.Context, pod *corev1.Pod, path string, source *corev1.ServiceAccountTokenProjection) error {
	request := func(ctx context.Context) (time.Time, error) {
		order := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: source.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		}}
		if source.Audience != "" {
			order.Spec.Audiences = []string{source.Audience}
		}
		accounts := v.kubelet.client.CoreV1().ServiceAccounts(pod.Namespace)
		answer, err := accounts.CreateToken(ctx, accountOf(pod), order, metav1.CreateOptions{})
		if err != nil {
			return time.Time{}, fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, accountOf(pod), err)
		}
		return answer.Status.ExpirationTimestamp.Time, disk.WriteFile(path, []byte(answer.Status.Token), 0o600)
	}
	expires, err := request(ctx)
	if err != nil {
		return err
	}
	v.kubelet.spawn(func(ctx context.Context) {
		for {
			// A fifth of the life is left when a kubelet asks for the next one.
			timer := time.NewTimer(max(time.Until(expires)*4/5, time.Minute))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			if _, err := os.Stat(path); err != nil {
				return
			}
			if next, err := request(ctx); err == nil {
				expires = next
			}
		}
	})
	return nil
}

func accountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

func (v *volumes) secret(ctx context.Context, pod *corev1.Pod, dir, name string, items []corev1.KeyToPath, optional *bool) error {
	secret, err := v.kubelet.client.CoreV1().Secrets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	return writeItems(dir, secret.Data, items)
}

func (v *volumes) configMap(ctx context.Context, pod *corev1.Pod, dir, name string, items []corev1.KeyToPath, optional *bool) error {
	config, err := v.kubelet.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	data := map[string][]byte{}
	for key, text := range config.Data {
		data[key] = []byte(text)
	}
	for key, content := range config.BinaryData {
		data[key] = content
	}
	return writeItems(dir, data, items)
}

func missing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

func writeItems(dir string, data map[string][]byte, items []corev1.KeyToPath) error {
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		content, found := data[item.Key]
		if !found {
			return fmt.Errorf("there is no key %q", item.Key)
		}
		if err := disk.WriteFile(filepath.Join(dir, item.Path), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func downward(pod *corev1.Pod, dir string, items []corev1.DownwardAPIVolumeFile) error {
	for _, item := range items {
		if item.FieldRef == nil {
			continue
		}
		text, err := fieldpath.ExtractFieldPathAsString(pod, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		if err := disk.WriteFile(filepath.Join(dir, item.Path), []byte(text), fs.FileMode(0o600)); err != nil {
			return err
		}
	}
	return nil
}

// mounts maps the mount paths of a container to the real paths.
type mounts map[string]string

func (v *volumes) mounts(spec *corev1.Container) mounts {
	m := mounts{}
	for _, mount := range spec.VolumeMounts {
		if path, found := v.paths[mount.Name]; found {
			m[filepath.Clean(mount.MountPath)] = filepath.Join(path, mount.SubPath)
		}
	}
	return m
}

// translate replaces a mount path at the start of a text, or after "--flag=". Containers share the host's file
// system, so translate replaces mounting.
func (m mounts) translate(text string) string {
	flag := ""
	if strings.HasPrefix(text, "-") {
		if at := strings.IndexByte(text, '='); at > 0 {
			flag, text = text[:at+1], text[at+1:]
		}
	}
	best := ""
	for path := range m {
		if (text == path || strings.HasPrefix(text, strings.TrimSuffix(path, "/")+"/")) && len(path) > len(best) {
			best = path
		}
	}
	if best == "" {
		return flag + text
	}
	return flag + filepath.Join(m[best], strings.TrimPrefix(text, best))
}
