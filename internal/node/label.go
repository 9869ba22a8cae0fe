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

// ownPrefix begins all labels that Kamino writes on Nodes.
var ownPrefix = v1alpha1.GroupVersion.Group + "/"

// ownLabels refuses labels of other owners. Schedulers and policies select Nodes by labels, for example below
// node-restriction.kubernetes.io/. A kubelet cannot write those labels, but Kamino's account can.
func ownLabels(node string, labels map[string]string) error {
	for key := range labels {
		if !strings.HasPrefix(key, ownPrefix) {
			return fmt.Errorf("label node %s: %s is not a label of Kamino; nothing was written", node, key)
		}
	}
	return nil
}

// Label sets one label of the Node with the name and UID. Label returns a conflict if the name belongs to another Node
// now.
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
