package capture

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// customDataReader reads the user's copy of customData.
type customDataReader struct {
	kube      kubernetes.Interface
	namespace string
}

// read reads the copy from the Secret in the settings; nil without such a setting. The content is used only for
// the saved recipe and for a trial node.
func (m customDataReader) read(ctx context.Context, p *v1alpha1.Prototype) ([]byte, error) {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	if from == nil {
		return nil, nil
	}
	key, name := cmp.Or(from.Key, recipe.CustomDataKey), m.namespace+"/"+from.Name
	secret, err := m.kube.CoreV1().Secrets(m.namespace).Get(ctx, from.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, unusableCustomData(cloud.CustomDataUnusable, "create the Secret",
			"settings.recipe.customDataFrom names Secret %s, which does not exist", name)
	case err != nil:
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	case secret.Labels[v1alpha1.PoolLabel] != poolLabel(p):
		// Authors of Prototypes and policies choose the Secret: without the mark, a credential or the copy of another pool could
		// reach the nodes.
		return nil, unusableCustomData(cloud.CustomDataUnusable,
			fmt.Sprintf("mark the Secret as a copy with `kubectl -n %s label secret %s %s=%s`", m.namespace, from.Name, v1alpha1.PoolLabel, poolLabel(p)),
			"Secret %s is not marked as a copy of pool %s's customData", name, p.Spec.Pool)
	case len(secret.Data[key]) == 0:
		return nil, unusableCustomData(cloud.CustomDataUnusable, "add the key",
			"settings.recipe.customDataFrom names key %s of Secret %s, which does not exist", key, name)
	}
	return secret.Data[key], nil
}

func poolLabel(p *v1alpha1.Prototype) string {
	return v1alpha1.LabelValue(v1alpha1.ObjectName(p.Spec.Pool))
}

// unusableCustomData is an error that a person can fix. The capture waits and reports the error.
func unusableCustomData(reason, remedy, obstacle string, args ...any) error {
	r := cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)
	return &cloud.Error{Kind: cloud.Invalid, Op: "keep customData", Message: r.Message, Refusal: &r}
}
