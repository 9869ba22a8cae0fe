package capture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// recipeKey is where a saved recipe stands in its Secret.
const recipeKey = "recipe.json"

// lookSaved tells whether what the recipe loses is kept, as it is now.
func (e *Engine) lookSaved(ctx context.Context, w *world) (saved bool, err error) {
	if len(w.change.Removes) == 0 {
		return true, nil
	}
	if w.savedAs, saved, err = e.savedRecipes().Look(ctx, w.p.Name, w.change.Backup); saved && err == nil {
		w.p.Status.SavedRecipe = e.namespace() + "/" + w.savedAs
	}
	return saved, err
}

// saveRecipe keeps what the recipe is about to lose.
func (e *Engine) saveRecipe(ctx context.Context, w *world) error {
	return e.savedRecipes().Save(ctx, w.savedAs, w.p.Name, w.p.Spec.Pool, w.change.Backup)
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
func (s SavedRecipes) Look(ctx context.Context, prototype string, backup []byte) (name string, kept bool, err error) {
	name = prototype + "-recipe"
	have, err := s.read(ctx, name)
	if err != nil || have == nil || bytes.Equal(have, backup) {
		return name, err == nil && have != nil, err
	}
	sum := sha256.Sum256(backup)
	name += "-" + hex.EncodeToString(sum[:4])
	have, err = s.read(ctx, name)
	if err != nil || have == nil || bytes.Equal(have, backup) {
		return name, err == nil && have != nil, err
	}
	return name, false, fmt.Errorf("secret %s/%s does not hold the recipe that its name stands for: somebody wrote it; delete it", s.Namespace, name)
}

// read gives a saved recipe: nil if there is no such Secret, and not nil if there is.
func (s SavedRecipes) read(ctx context.Context, name string) ([]byte, error) {
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s/%s: %w", s.Namespace, name, err)
	}
	return append([]byte{}, secret.Data[recipeKey]...), nil
}

// Save keeps what a pool's recipe is about to lose for a Prototype, under the name that Look gave.
func (s SavedRecipes) Save(ctx context.Context, name, prototype, pool string, backup []byte) error {
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Namespace,
			Labels: map[string]string{v1alpha1.PrototypeLabel: v1alpha1.LabelValue(prototype), v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(pool))},
		},
		Immutable: &immutable,
		Data:      map[string][]byte{recipeKey: backup},
	}
	_, err := s.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create secret %s/%s: %w", s.Namespace, name, err)
	}
	return nil
}
