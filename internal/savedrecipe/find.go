package savedrecipe

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
)

// Found is what a recipe lost once, as it was kept.
type Found struct {
	// Secret by name, in Kamino's namespace.
	Secret string
	Owner
	SavedAt time.Time
	// Backup of the recipe, and the copy of customData that was kept with it; nil if none was. They may hold secrets.
	Backup, CustomData []byte
	// Doubt says why this is not to be believed; empty if it is.
	Doubt string
}

// Find lists what the pool's recipe has lost, the latest first. What a Prototype's status says is a report, which whoever
// may write it can point at any Secret: so it is not asked. A Secret is found by its labels, or by the name that is made
// of the Prototype's where this credential may list none, and must be what its name, labels and digest say. One that is
// not is among them with its Doubt; one of another pool of the same name is not.
func (s Secrets) Find(ctx context.Context, name string, pool cloud.PoolID, prototypes []v1alpha1.Prototype) ([]Found, error) {
	label := v1alpha1.LabelValue(v1alpha1.ObjectName(name))
	list, err := s.Kube.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PoolLabel + "=" + label})
	var secrets []corev1.Secret
	switch {
	case apierrors.IsForbidden(err):
		if secrets, err = s.named(ctx, prototypes); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("list secrets of namespace %s: %w", s.Namespace, err)
	default:
		secrets = list.Items
	}
	var found []Found
	for i := range secrets {
		secret := &secrets[i]
		of := secret.Annotations[PoolIDAnnotation]
		if secret.Labels[v1alpha1.PoolLabel] != label || secret.Data[RecipeKey] == nil || of != "" && !strings.EqualFold(of, string(pool)) {
			continue
		}
		f := read(secret, prototypes)
		f.Pool, f.PoolID = name, pool
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(b.SavedAt.Compare(a.SavedAt), cmp.Compare(b.Secret, a.Secret))
	})
	return found, nil
}

// named gets the Secrets whose names are made of the Prototypes'.
func (s Secrets) named(ctx context.Context, prototypes []v1alpha1.Prototype) ([]corev1.Secret, error) {
	var secrets []corev1.Secret
	for i := range prototypes {
		secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, prototypes[i].Name+suffix, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read secret %s/%s: %w", s.Namespace, prototypes[i].Name+suffix, err)
		default:
			secrets = append(secrets, *secret)
		}
	}
	return secrets, nil
}

// read takes a Secret at its word as far as its parts agree.
func read(secret *corev1.Secret, prototypes []v1alpha1.Prototype) Found {
	f := Found{
		Secret: secret.Name, SavedAt: secret.CreationTimestamp.Time, Backup: secret.Data[RecipeKey], CustomData: secret.Data[CustomDataKey],
		Owner: Owner{UID: types.UID(secret.Labels[v1alpha1.PrototypeUIDLabel]), Version: secret.Labels[v1alpha1.VersionLabel]},
	}
	sum := digest(f.Backup, f.CustomData)
	prototype, rest, named := cutLast(secret.Name, suffix)
	want, told := secret.Annotations[DigestAnnotation]
	switch f.Prototype = prototype; {
	case !named || v1alpha1.LabelValue(prototype) != secret.Labels[v1alpha1.PrototypeLabel]:
		f.Doubt = "its name is not made of its Prototype's"
	case rest != "" && rest != "-"+sum[:shortDigest], told && want != sum:
		f.Doubt = "it does not hold what was saved: somebody made it anew"
	case secret.Immutable == nil || !*secret.Immutable:
		f.Doubt = "it can be changed, which no saved recipe can: somebody made it anew"
	}
	for i := range prototypes {
		p := &prototypes[i]
		if p.Name != prototype || f.UID != "" && f.UID != p.UID {
			continue // of that name is another one by now
		}
		f.Version = cmp.Or(f.Version, p.Spec.Version)
	}
	return f
}

// cutLast cuts a text around the last place where the part stands.
func cutLast(text, part string) (before, after string, found bool) {
	i := strings.LastIndex(text, part)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(part):], true
}
