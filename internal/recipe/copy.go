package recipe

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// CustomDataCopy is the customData of a pool, passed by a person before the recipe loses it. The copy is a Secret for
// settings.recipe.customDataFrom until the saved recipe contains the data.
type CustomDataCopy struct {
	// Name of the Secret contains the pool and a digest of the data, so that equal copies share one Secret.
	Name, Pool string
	Data       []byte
}

// NewCopy returns a copy with its name.
func NewCopy(pool string, data []byte) CustomDataCopy {
	return CustomDataCopy{Name: v1alpha1.ObjectName(pool) + "-custom-data-" + digest(data, nil)[:shortDigest], Pool: pool, Data: data}
}

// Keep creates the Secret of the copy, and reports whether the Secret is new. Keep returns an error if a Secret of the
// name has other data or is mutable, because another client wrote it.
func (s Secrets) Keep(ctx context.Context, c CustomDataCopy) (made bool, err error) {
	immutable := true
	_, err = s.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: s.Namespace,
			Labels: map[string]string{v1alpha1.PoolLabel: v1alpha1.LabelValue(v1alpha1.ObjectName(c.Pool))}},
		Immutable: &immutable, Data: map[string][]byte{CustomDataKey: c.Data},
	}, metav1.CreateOptions{})
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("create secret %s/%s: %w", s.Namespace, c.Name, err)
	}
	have, err := s.get(ctx, c.Name)
	switch {
	case err != nil:
		return false, err
	case have == nil:
		return false, fmt.Errorf("secret %s/%s was deleted at the same moment: run the same command again", s.Namespace, c.Name)
	case have.Immutable == nil || !*have.Immutable || !bytes.Equal(have.Data[CustomDataKey], c.Data):
		return false, fmt.Errorf("secret %s/%s is not the copy of Kamino: another client wrote the Secret; delete the Secret", s.Namespace, c.Name)
	}
	return false, nil
}

// Own makes the Prototype an owner of the copy, so that the copy is deleted with its last Prototype.
func (s Secrets) Own(ctx context.Context, c CustomDataCopy, p *v1alpha1.Prototype) error {
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: p.Name, UID: p.UID}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{owner}}})
	if err != nil {
		return err
	}
	// The API server merges owners by UID: other owners stay, and the same owner twice changes nothing.
	if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Patch(ctx, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("make prototype %s the owner of secret %s/%s: %w", p.Name, s.Namespace, c.Name, err)
	}
	return nil
}

// Drop deletes an unused copy.
func (s Secrets) Drop(ctx context.Context, c CustomDataCopy) error {
	if err := s.Kube.CoreV1().Secrets(s.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", s.Namespace, c.Name, err)
	}
	return nil
}

// customData is the part of a recipe that a CustomDataCopy contains.
var customData = cloud.RecipeField{Kind: cloud.CustomData}

// Loses reports whether a change removes customData from the recipe.
func Loses(change cloud.RecipeChange) bool { return cloud.HasField(change.Removes, customData) }

// Rehearse plans the restoration from a change's backup and a copy, so that refusals are known before the change.
func Rehearse(ctx context.Context, provider restorer, change cloud.RecipeChange, data []byte) ([]cloud.Refusal, error) {
	saved := cloud.Saved{Backup: change.Backup, Given: map[string][]byte{customData.String(): data}}
	back, err := provider.RestoreChange(ctx, change.Pool, saved)
	return back.Refusals, err
}

// Encoded reports whether data is the base64 form of user data. Cloud APIs use that form, but people pass the plain
// data: encoded data would be encoded twice.
func Encoded(data []byte) bool {
	text := strings.Join(strings.Fields(string(data)), "")
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	// Source: cloud-init, user data formats.
	for _, begins := range []string{"#", "\x1f\x8b", "Content-Type:", "MIME-Version:", "From "} {
		if bytes.HasPrefix(decoded, []byte(begins)) {
			return true
		}
	}
	return false
}

// ReadCustomData reads the file of --custom-data. A path of "-" reads in, and an empty path reads nothing. The error
// names the flag and the remedy.
func ReadCustomData(in io.Reader, path string) ([]byte, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--custom-data: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, corev1.MaxSecretSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--custom-data: %w", err)
	case len(data) == 0:
		return nil, fmt.Errorf("--custom-data %s is empty: pass the original customData file of the pool", path)
	case len(data) > corev1.MaxSecretSize:
		return nil, fmt.Errorf("--custom-data %s is larger than the limit of a Secret, %d bytes", path, corev1.MaxSecretSize)
	case Encoded(data):
		return nil, fmt.Errorf("--custom-data %s is base64, and kamino restore would encode the file twice: decode the file first (base64 -d). "+
			"If the original customData really is base64, name a Secret in settings.recipe.customDataFrom", path)
	}
	return data, nil
}
