package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// ownPrefix is that of all labels that Kamino writes on Nodes.
var ownPrefix = v1alpha1.GroupVersion.Group + "/"

// ownLabels refuses labels that are not Kamino's: by others a scheduler places pods and a policy chooses donors, such as those below
// node-restriction.kubernetes.io/, which a kubelet may not write and the account of the engine may.
func ownLabels(node string, labels map[string]string) error {
	for key := range labels {
		if !strings.HasPrefix(key, ownPrefix) {
			return fmt.Errorf("label node %s: %s is not a label of Kamino's, and nothing was written", node, key)
		}
	}
	return nil
}

// Label sets one label of the node with this name and UID. A conflict is returned if another node has its
// name now.
func Label(ctx context.Context, kube kubernetes.Interface, name string, uid types.UID, key, value string) error {
	if err := ownLabels(name, map[string]string{key: value}); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": map[string]string{key: value}}})
	if err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	if _, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kamino"}); err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}
