// Package savedrecipe keeps what recipes lose, and finds it again for whoever wants it back. What was lost may hold
// secrets: it stands in Secrets of Kamino's own namespace, which are made once, never changed, and outlive the
// Prototypes that they are named after. It does not know what a recipe is made of; the cloud's provider does.
package savedrecipe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// RecipeKey is where a saved recipe stands in its Secret, and CustomDataKey the customData that goes with it.
const (
	RecipeKey     = "recipe.json"
	CustomDataKey = cloud.CustomData
)

// CustomDataType is the type of a Secret that holds a copy of customData for whatever pool. One of a single pool may have the label of the
// pool instead.
const CustomDataType corev1.SecretType = "kamino.dev/custom-data"

// PoolIDAnnotation is the pool whose recipe lost it, as the cloud writes that, and DigestAnnotation tells what the
// Secret held when it was made. Secrets of earlier versions have neither.
const (
	PoolIDAnnotation = "kamino.dev/pool-id"
	DigestAnnotation = "kamino.dev/sha256"
)

// suffix of a Secret's name, behind the Prototype's.
const suffix = "-recipe"

// Secrets are the Secrets that keep what recipes have lost.
type Secrets struct {
	Kube      kubernetes.Interface
	Namespace string
}

// Owner says for which promotion a recipe lost something.
type Owner struct {
	// Prototype by name, and its UID; empty where nobody knows that.
	Prototype string
	UID       types.UID
	// Pool by name and ID, and the version that its recipe was pointed at.
	Pool    string
	PoolID  cloud.PoolID
	Version string
}

// Look tells under which name what is lost for a Prototype is kept, and whether it is kept already. A Secret that
// holds something else, because the recipe was changed since or an earlier Prototype had this one's name, is left
// alone: it may be the only copy of what it holds. What is lost now is then kept beside it.
//
// customData is kept with it; nil if nobody named a copy, and then one that is kept already is as good as none.
func (s Secrets) Look(ctx context.Context, prototype string, backup, customData []byte) (name string, kept bool, err error) {
	name = prototype + suffix
	holds := func(have map[string][]byte) bool {
		return bytes.Equal(have[RecipeKey], backup) && (customData == nil || bytes.Equal(have[CustomDataKey], customData))
	}
	have, err := s.read(ctx, name)
	if err != nil || have == nil || holds(have) {
		return name, err == nil && have != nil, err
	}
	name += "-" + digest(backup, customData)[:shortDigest]
	have, err = s.read(ctx, name)
	if err != nil || have == nil || holds(have) {
		return name, err == nil && have != nil, err
	}
	return name, false, fmt.Errorf("secret %s/%s does not hold the recipe that its name stands for: somebody wrote it; delete it", s.Namespace, name)
}

// shortDigest is how many characters of a digest a name has.
const shortDigest = 8

func digest(backup, customData []byte) string {
	sum := sha256.Sum256(slices.Concat(backup, customData))
	return hex.EncodeToString(sum[:])
}

// read gives a saved recipe: nil if there is no such Secret, and not nil if there is.
func (s Secrets) read(ctx context.Context, name string) (map[string][]byte, error) {
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

// Save keeps what a pool's recipe is about to lose, under the name that Look gave.
func (s Secrets) Save(ctx context.Context, name string, of Owner, backup, customData []byte) error {
	immutable, data := true, map[string][]byte{RecipeKey: backup}
	if customData != nil {
		data[CustomDataKey] = customData
	}
	labels := map[string]string{v1alpha1.PrototypeLabel: v1alpha1.LabelValue(of.Prototype), v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(of.Pool))}
	for label, value := range map[string]string{v1alpha1.PrototypeUIDLabel: string(of.UID), v1alpha1.VersionLabel: of.Version} {
		if value != "" {
			labels[label] = value
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Namespace, Labels: labels,
			Annotations: map[string]string{PoolIDAnnotation: string(of.PoolID), DigestAnnotation: digest(backup, customData)},
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
