package savedrecipe

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Copy is customData that a person gives of a pool before its recipe loses it: a Secret for
// settings.recipe.customDataFrom, until what is saved of the recipe holds it.
type Copy struct {
	// Name of the Secret, which tells the pool and the content: the same copy is kept once, however often it is given.
	Name, Pool string
	Data       []byte
}

// NewCopy names a copy.
func NewCopy(pool string, data []byte) Copy {
	return Copy{Name: v1alpha1.ObjectName(pool) + "-custom-data-" + digest(data, nil)[:shortDigest], Pool: pool, Data: data}
}

// Keep makes the copy's Secret, and tells whether it was not there before. One of the name that holds anything else, or
// could come to hold it, is an error: somebody else wrote it.
func (s Secrets) Keep(ctx context.Context, c Copy) (made bool, err error) {
	immutable := true
	_, err = s.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: s.Namespace, Labels: map[string]string{v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(c.Pool))}},
		Immutable:  &immutable, Data: map[string][]byte{CustomDataKey: c.Data},
	}, metav1.CreateOptions{})
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("create secret %s/%s: %w", s.Namespace, c.Name, err)
	}
	have, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return false, fmt.Errorf("read secret %s/%s: %w", s.Namespace, c.Name, err)
	case have.Immutable == nil || !*have.Immutable || !bytes.Equal(have.Data[CustomDataKey], c.Data):
		return false, fmt.Errorf("secret %s/%s is not the copy that its name stands for: somebody wrote it; delete it", s.Namespace, c.Name)
	}
	return false, nil
}

// Own has the Prototype own the copy, so that it goes with it. Of several Prototypes that use it the last one takes it along.
func (s Secrets) Own(ctx context.Context, c Copy, p *v1alpha1.Prototype) error {
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: p.Name, UID: p.UID}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
	if err != nil {
		return err
	}
	// The API server joins owners by their UIDs: the others stay, and the same one once more changes nothing.
	if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Patch(ctx, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("make prototype %s the owner of secret %s/%s: %w", p.Name, s.Namespace, c.Name, err)
	}
	return nil
}

// Drop deletes a copy that nobody came to use.
func (s Secrets) Drop(ctx context.Context, c Copy) error {
	if err := s.Kube.CoreV1().Secrets(s.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", s.Namespace, c.Name, err)
	}
	return nil
}

// customData is the part of a recipe that a Copy is of.
var customData = cloud.Part{Kind: cloud.CustomData}

// Loses tells whether a change of the recipe takes customData out of it.
func Loses(change cloud.RecipeChange) bool { return cloud.HasPart(change.Removes, customData) }

// Rehearse looks at a restoration from what a change of the recipe is about to save and a copy: what would be refused
// then is better known now. A cloud that restores nothing refuses nothing.
func Rehearse(ctx context.Context, provider cloud.Provider, change cloud.RecipeChange, data []byte) ([]cloud.Refusal, error) {
	restorer, able := cloud.As[cloud.Restorer](provider)
	if !able {
		return nil, nil
	}
	back, err := restorer.RestoreChange(ctx, change.Pool, cloud.Saved{Backup: change.Backup, Given: map[string][]byte{customData.String(): data}})
	return back.Refusals, err
}

// Encoded tells whether data is the base64 of something that a node's first boot reads, which is how the APIs of clouds
// take it, and not how it is given to them by people: it would be encoded twice.
func Encoded(data []byte) bool {
	text := strings.Join(strings.Fields(string(data)), "")
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	// Source: cloud-init's forms of user data.
	for _, begins := range []string{"#", "\x1f\x8b", "Content-Type:", "MIME-Version:", "From "} {
		if bytes.HasPrefix(decoded, []byte(begins)) {
			return true
		}
	}
	return false
}
