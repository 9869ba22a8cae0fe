package node

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Label sets one label of the node with this name and UID. A conflict is returned if another node has its
// name now.
func Label(ctx context.Context, kube kubernetes.Interface, name string, uid types.UID, key, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": map[string]string{key: value}}})
	if err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	if _, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kamino"}); err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}
