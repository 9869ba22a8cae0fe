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

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// recipeKey is where a saved recipe stands in its Secret.
const recipeKey = "recipe.json"

// lookSaved tells whether what the recipe loses is kept, as it is now. A Secret that holds something else, because
// the recipe was changed since or an earlier Prototype had this one's name, is left alone: it may be the only copy
// of what it holds. What is lost now is then kept beside it.
func (e *Engine) lookSaved(ctx context.Context, w *world) (bool, error) {
	if len(w.change.Removes) == 0 {
		return true, nil
	}
	w.savedAs = w.p.Name + "-recipe"
	kept, err := e.savedRecipe(ctx, w.savedAs)
	if err != nil || kept == nil {
		return false, err
	}
	if bytes.Equal(kept, w.change.Backup) {
		w.p.Status.SavedRecipe = e.namespace() + "/" + w.savedAs
		return true, nil
	}
	sum := sha256.Sum256(w.change.Backup)
	w.savedAs += "-" + hex.EncodeToString(sum[:4])
	kept, err = e.savedRecipe(ctx, w.savedAs)
	if err != nil || kept == nil {
		return false, err
	}
	if !bytes.Equal(kept, w.change.Backup) {
		return false, fmt.Errorf("secret %s/%s does not hold the recipe that its name stands for: somebody wrote it; delete it", e.namespace(), w.savedAs)
	}
	w.p.Status.SavedRecipe = e.namespace() + "/" + w.savedAs
	return true, nil
}

// savedRecipe reads a saved recipe: nil if there is no such Secret, and not nil if there is.
func (e *Engine) savedRecipe(ctx context.Context, name string) ([]byte, error) {
	secret, err := e.Kube.CoreV1().Secrets(e.namespace()).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s/%s: %w", e.namespace(), name, err)
	}
	return append([]byte{}, secret.Data[recipeKey]...), nil
}

// saveRecipe keeps what the recipe is about to lose. The Secret outlives the Prototype: a rollback may need it.
func (e *Engine) saveRecipe(ctx context.Context, w *world) error {
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.savedAs, Namespace: e.namespace(),
			Labels: map[string]string{v1alpha1.PrototypeLabel: v1alpha1.LabelValue(w.p.Name), v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(w.p.Spec.Pool))},
		},
		Immutable: &immutable,
		Data:      map[string][]byte{recipeKey: w.change.Backup},
	}
	_, err := e.Kube.CoreV1().Secrets(e.namespace()).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create secret %s/%s: %w", e.namespace(), w.savedAs, err)
	}
	return nil
}
