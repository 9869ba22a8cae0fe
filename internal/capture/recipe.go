package capture

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// recipeKey is where a saved recipe stands in its Secret, and customDataKey the customData that goes with it.
const (
	recipeKey     = "recipe.json"
	customDataKey = "customData"
)

// lookSaved tells whether what the recipe loses is kept, as it is now.
func (e *Engine) lookSaved(ctx context.Context, w *world) (saved bool, err error) {
	if len(w.change.Removes) == 0 {
		return true, nil
	}
	if w.customData, err = e.customData(ctx, w.p); err != nil {
		return false, err
	}
	if w.savedAs, saved, err = e.savedRecipes().Look(ctx, w.p.Name, w.change.Backup, w.customData); saved && err == nil {
		w.p.Status.SavedRecipe = e.namespace() + "/" + w.savedAs
	}
	return saved, err
}

// saveRecipe keeps what the recipe is about to lose.
func (e *Engine) saveRecipe(ctx context.Context, w *world) error {
	return e.savedRecipes().Save(ctx, w.savedAs, w.p.Name, w.p.Spec.Pool, w.change.Backup, w.customData)
}

// customData reads the copy that the settings name; nil if they name none. Its content goes into the saved recipe, and
// nowhere else.
func (e *Engine) customData(ctx context.Context, p *v1alpha1.Prototype) ([]byte, error) {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	if from == nil {
		return nil, nil
	}
	key, name := cmp.Or(from.Key, customDataKey), e.namespace()+"/"+from.Name
	secret, err := e.Kube.CoreV1().Secrets(e.namespace()).Get(ctx, from.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, missingCustomData("there is no Secret %s, which settings.recipe.customDataFrom names: create it", name)
	case err != nil:
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	case len(secret.Data[key]) == 0:
		return nil, missingCustomData("there is no key %s in Secret %s, which settings.recipe.customDataFrom names: write it", key, name)
	}
	return secret.Data[key], nil
}

// missingCustomData is an error that a person can mend, so that a capture which meets it waits and says so.
func missingCustomData(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.Invalid, Op: "keep customData", Message: fmt.Sprintf(format, args...)}
}

// refuseCustomData finds a copy of customData that is named and not there before anything is done. Once the recipe has
// lost what it loses, nobody needs the copy.
func (e *Engine) refuseCustomData(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	_, err := e.customData(ctx, w.p)
	var missing *cloud.Error
	if !errors.As(err, &missing) {
		return nil, err
	}
	change, err := e.Cloud.RecipeChange(ctx, w.ref(), removesBootstrap(w.p))
	if err != nil || len(change.Removes) == 0 {
		return nil, err
	}
	return []cloud.Refusal{{Reason: CustomDataMissing, Message: missing.Message + ", or leave the setting out"}}, nil
}

func (e *Engine) savedRecipes() SavedRecipes {
	return SavedRecipes{Kube: e.Kube, Namespace: e.namespace()}
}

// SavedRecipes are the Secrets that keep what recipes have lost. Each outlives its Prototype: a rollback may need it.
type SavedRecipes struct {
	Kube      kubernetes.Interface
	Namespace string
}

// Look tells under which name what is lost for a Prototype is kept, and whether it is kept already. A Secret that
// holds something else, because the recipe was changed since or an earlier Prototype had this one's name, is left
// alone: it may be the only copy of what it holds. What is lost now is then kept beside it.
//
// customData is kept with it; nil if nobody named a copy, and then one that is kept already is as good as none.
func (s SavedRecipes) Look(ctx context.Context, prototype string, backup, customData []byte) (name string, kept bool, err error) {
	name = prototype + "-recipe"
	holds := func(have map[string][]byte) bool {
		return bytes.Equal(have[recipeKey], backup) && (customData == nil || bytes.Equal(have[customDataKey], customData))
	}
	have, err := s.read(ctx, name)
	if err != nil || have == nil || holds(have) {
		return name, err == nil && have != nil, err
	}
	sum := sha256.Sum256(slices.Concat(backup, customData))
	name += "-" + hex.EncodeToString(sum[:4])
	have, err = s.read(ctx, name)
	if err != nil || have == nil || holds(have) {
		return name, err == nil && have != nil, err
	}
	return name, false, fmt.Errorf("secret %s/%s does not hold the recipe that its name stands for: somebody wrote it; delete it", s.Namespace, name)
}

// read gives a saved recipe: nil if there is no such Secret, and not nil if there is.
func (s SavedRecipes) read(ctx context.Context, name string) (map[string][]byte, error) {
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s/%s: %w", s.Namespace, name, err)
	}
	if secret.Data == nil {
		return map[string][]byte{}, nil
	}
	return secret.Data, nil
}

// Save keeps what a pool's recipe is about to lose for a Prototype, under the name that Look gave.
func (s SavedRecipes) Save(ctx context.Context, name, prototype, pool string, backup, customData []byte) error {
	immutable, data := true, map[string][]byte{recipeKey: backup}
	if customData != nil {
		data[customDataKey] = customData
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Namespace,
			Labels: map[string]string{v1alpha1.PrototypeLabel: v1alpha1.LabelValue(prototype), v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(pool))},
		},
		Immutable: &immutable,
		Data:      data,
	}
	_, err := s.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create secret %s/%s: %w", s.Namespace, name, err)
	}
	return nil
}
