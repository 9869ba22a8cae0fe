package recipe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// SavedPart is a saved part of a recipe.
type SavedPart struct {
	// Secret is the name in Kamino's namespace.
	Secret string
	Owner
	SavedAt time.Time
	// Backup is the saved recipe, and CustomData the saved copy of customData, if any. Both may contain secrets.
	Backup, CustomData []byte
	// Doubt is why the Secret cannot be trusted; empty if it can.
	Doubt string
}

// Find returns the saved recipes of the pool, newest first, by label or by the names of the Prototypes. Others may write the
// status, so Find reads no status. Name, labels and digest must match, else Doubt is set.
func (s Secrets) Find(ctx context.Context, name string, pool cloud.PoolID, prototypes []v1alpha1.Prototype) ([]SavedPart, error) {
	label := v1alpha1.LabelValue(v1alpha1.ObjectName(name))
	list, err := s.Kube.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PoolLabel + "=" + label})
	var secrets []corev1.Secret
	switch {
	case apierrors.IsForbidden(err):
		if secrets, err = s.ofPrototypes(ctx, prototypes); err != nil {
			return nil, err
		}
		if len(secrets) == 0 {
			return nil, cluster.Refusef("whether there is a saved recipe of pool %s is unknown, and nothing was changed: the credential may not list Secrets, "+
				"and no Prototype leads to one. Allow it to list Secrets in namespace %s, or use a credential that may", name, s.Namespace)
		}
	case err != nil:
		return nil, fmt.Errorf("list secrets of namespace %s: %w", s.Namespace, err)
	default:
		secrets = list.Items
	}
	var found []SavedPart
	for i := range secrets {
		secret := &secrets[i]
		of := secret.Annotations[PoolIDAnnotation]
		if secret.Labels[v1alpha1.PoolLabel] != label || secret.Data[RecipeKey] == nil || of != "" && !strings.EqualFold(of, string(pool)) {
			continue
		}
		f := savedPart(secret, prototypes)
		f.Pool, f.PoolID = name, pool
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b SavedPart) int {
		return cmp.Or(b.SavedAt.Compare(a.SavedAt), cmp.Compare(b.Secret, a.Secret))
	})
	return found, nil
}

// ofPrototypes gets the Secrets named after the Prototypes.
func (s Secrets) ofPrototypes(ctx context.Context, prototypes []v1alpha1.Prototype) ([]corev1.Secret, error) {
	var secrets []corev1.Secret
	for i := range prototypes {
		secret, err := s.get(ctx, prototypes[i].Name+suffix)
		if err != nil {
			return nil, err
		}
		if secret != nil {
			secrets = append(secrets, *secret)
		}
	}
	return secrets, nil
}

// savedPart returns the content of a Secret, with Doubt if the parts of the Secret disagree.
func savedPart(secret *corev1.Secret, prototypes []v1alpha1.Prototype) SavedPart {
	f := SavedPart{
		Secret: secret.Name, SavedAt: secret.CreationTimestamp.Time, Backup: secret.Data[RecipeKey], CustomData: secret.Data[CustomDataKey],
		Owner: Owner{UID: types.UID(secret.Labels[v1alpha1.PrototypeUIDLabel]), Version: secret.Labels[v1alpha1.VersionLabel]},
	}
	sum := digest(f.Backup, f.CustomData)
	prototype, rest, named := cutLast(secret.Name, suffix)
	want, reported := secret.Annotations[DigestAnnotation]
	switch f.Prototype = prototype; {
	case !named || v1alpha1.LabelValue(prototype) != secret.Labels[v1alpha1.PrototypeLabel]:
		f.Doubt = "the name does not match the Prototype"
	case rest != "" && rest != "-"+sum[:shortDigest], reported && want != sum:
		f.Doubt = "the content is not the saved recipe: another client created the Secret"
	case secret.Immutable == nil || !*secret.Immutable:
		f.Doubt = "the Secret is not immutable, as saved recipes are: another client created the Secret"
	}
	for i := range prototypes {
		p := &prototypes[i]
		if p.Name != prototype || f.UID != "" && f.UID != p.UID {
			continue // another Prototype of the same name
		}
		f.Version = cmp.Or(f.Version, p.Spec.Version)
	}
	return f
}

// cutLast cuts a text around the last occurrence of a part.
func cutLast(text, part string) (before, after string, found bool) {
	i := strings.LastIndex(text, part)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(part):], true
}
