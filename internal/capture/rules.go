package capture

import (
	"context"
	"errors"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
)

// rulesMount is the directory of the user's own rules in the generalize pod.
const rulesMount = "/etc/kamino/rules"

// errRulesGone reports that the ConfigMap of the user's rules was deleted after the preflight.
var errRulesGone = errors.New("the rules are gone")

// ruleReader reads the user's own rules.
type ruleReader struct {
	kube         kubernetes.Interface
	podNamespace string
	// check returns errors in the rules for a profile. If nil, only the pod checks the rules.
	check func(v1alpha1.Profile, map[string][]byte) error
}

// readConfigMap reads the ConfigMap from the settings; nil without such a setting.
func (b ruleReader) readConfigMap(ctx context.Context, p *v1alpha1.Prototype) (map[string][]byte, error) {
	name := p.Spec.Settings.Generalize.Rules
	if name == "" {
		return nil, nil
	}
	found, err := b.kube.CoreV1().ConfigMaps(b.podNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s (settings.generalize.rules): %w", b.podNamespace, name, err)
	}
	files := map[string][]byte{}
	for key, text := range found.Data {
		files[key] = []byte(text)
	}
	for key, content := range found.BinaryData {
		files[key] = content
	}
	return files, nil
}

func holdsRules(files map[string][]byte) bool {
	for name := range files {
		if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			return true
		}
	}
	return false
}

// digest identifies the content of the rules for the NodeOrder.
func (b ruleReader) digest(ctx context.Context, p *v1alpha1.Prototype) (digest string, err error) {
	files, err := b.readConfigMap(ctx, p)
	if err != nil || files == nil {
		return "", err
	}
	return v1alpha1.RulesDigest(files), nil
}

// addRules mounts the rules in the pod.
func addRules(spec *corev1.PodSpec, configMap, digest string) {
	container := &spec.Containers[0]
	container.Args = append(container.Args, "--profile-file", rulesMount)
	if digest != "" {
		container.Args = append(container.Args, "--rules-digest", digest)
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "rules", MountPath: rulesMount, ReadOnly: true})
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "rules", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
	}})
}

// validate checks the user's own rules.
func (b ruleReader) validate(ctx context.Context, p *v1alpha1.Prototype) (admission.Rules, error) {
	files, err := b.readConfigMap(ctx, p)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Rules{Missing: true}, nil
	case err != nil, files == nil:
		return admission.Rules{}, err
	case !holdsRules(files):
		return admission.Rules{Wrong: "no key ends in .yaml"}, nil
	case b.check != nil:
		if err := b.check(p.Spec.Settings.Profile(), files); err != nil {
			return admission.Rules{Wrong: err.Error()}, nil
		}
	}
	return admission.Rules{}, nil
}
