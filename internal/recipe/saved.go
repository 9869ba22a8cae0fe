package recipe

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

// RecipeKey and CustomDataKey are the keys of the recipe and of its customData in the Secret.
const (
	RecipeKey     = "recipe.json"
	CustomDataKey = cloud.CustomData
)

// PoolIDAnnotation has the cloud's ID of the pool, and DigestAnnotation the digest of the original content. Secrets of
// earlier versions have neither.
const (
	PoolIDAnnotation = "kamino.dev/pool-id"
	DigestAnnotation = "kamino.dev/sha256"
)

// suffix follows the name of the Prototype in the Secret's name.
const suffix = "-recipe"

// Secrets reads and writes the Secrets with saved recipes.
type Secrets struct {
	Kube      kubernetes.Interface
	Namespace string
}

// Owner is the promotion that removed a part of a recipe.
type Owner struct {
	// Prototype is a name, and UID its UID. Both are empty if unknown.
	Prototype string
	UID       types.UID
	// Pool and PoolID name the pool. Version is the version that the recipe changed to.
	Pool    string
	PoolID  cloud.PoolID
	Version string
}

// Lookup returns the name of the Secret for a Prototype's saved recipe, and whether the Secret exists. A Secret with other
// content stays, as perhaps the only copy: the name then has a digest. nil customData matches any saved customData.
func (s Secrets) Lookup(ctx context.Context, prototype string, backup, customData []byte) (name string, kept bool, err error) {
	name = prototype + suffix
	for _, name = range []string{name, name + "-" + digest(backup, customData)[:shortDigest]} {
		have, err := s.get(ctx, name)
		if err != nil || have == nil {
			return name, false, err
		}
		if bytes.Equal(have.Data[RecipeKey], backup) && (customData == nil || bytes.Equal(have.Data[CustomDataKey], customData)) {
			return name, true, nil
		}
	}
	return name, false, fmt.Errorf("secret %s/%s does not hold the saved recipe: another client wrote the Secret; delete the Secret", s.Namespace, name)
}

// shortDigest is the length of a digest in a name, in characters.
const shortDigest = 8

func digest(backup, customData []byte) string {
	sum := sha256.Sum256(slices.Concat(backup, customData))
	return hex.EncodeToString(sum[:])
}

// get returns a Secret; nil if the Secret does not exist.
func (s Secrets) get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s/%s: %w", s.Namespace, name, err)
	}
	return secret, nil
}

// Save saves the parts that a pool's recipe is about to lose, under the name from Lookup.
func (s Secrets) Save(ctx context.Context, name string, of Owner, backup, customData []byte) error {
	immutable, data := true, map[string][]byte{RecipeKey: backup}
	if customData != nil {
		data[CustomDataKey] = customData
	}
	labels := map[string]string{v1alpha1.PrototypeLabel: v1alpha1.LabelValue(of.Prototype),
		v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(of.Pool))}
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
