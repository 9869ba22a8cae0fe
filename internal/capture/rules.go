package capture

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of the preflight about rules of the user's own.
const (
	RulesNotFound = "RulesNotFound"
	RulesInvalid  = "RulesInvalid"
)

// rulesMount is where the generalize pod finds the user's own rules.
const rulesMount = "/etc/kamino/rules"

// rules reads the ConfigMap that the settings name; nil if they name none.
func (e *Engine) rules(ctx context.Context, p *v1alpha1.Prototype) (map[string][]byte, error) {
	name := p.Spec.Settings.Generalize.Rules
	if name == "" {
		return nil, nil
	}
	found, err := e.Kube.CoreV1().ConfigMaps(e.podNamespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s, which settings.generalize.rules names: %w", e.podNamespace(), name, err)
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

// refuseRules checks the user's own rules before anything is changed: the pod would refuse them too, but
// only once its node is drained.
func (e *Engine) refuseRules(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	files, err := e.rules(ctx, w.p)
	name := e.podNamespace() + "/" + w.p.Spec.Settings.Generalize.Rules
	switch {
	case apierrors.IsNotFound(err):
		return []cloud.Refusal{cloud.Refuse(RulesNotFound,
			fmt.Sprintf("there is no ConfigMap %s, which settings.generalize.rules names", name),
			"create it, or leave the setting out")}, nil
	case err != nil:
		return nil, err
	case files == nil:
		return nil, nil
	}
	why := ""
	if !holdsRules(files) {
		why = "no key of it ends in .yaml"
	} else if e.CheckRules != nil {
		if err := e.CheckRules(w.p.Spec.Settings.Defaulted().Generalize.Profile, files); err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(RulesInvalid,
		fmt.Sprintf("the rules in ConfigMap %s cannot be used: %s", name, why),
		"see `kamino generalize --list --profile-file` on the same files")}, nil
}

func holdsRules(files map[string][]byte) bool {
	for name := range files {
		if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			return true
		}
	}
	return false
}

// orderRules tells which rules the pod is ordered to use.
func (e *Engine) orderRules(ctx context.Context, p *v1alpha1.Prototype) (digest string, err error) {
	files, err := e.rules(ctx, p)
	if err != nil || files == nil {
		return "", err
	}
	return v1alpha1.RulesDigest(files), nil
}

// addRules gives the pod the rules that it is ordered to use.
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
