package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	taintutils "k8s.io/kubernetes/pkg/util/taints"
)

var taintsFlag = regexp.MustCompile(`--register-with-taints=([^" ]+)`)

// RegisterTaints returns the taints of a new Node from this disk.
func RegisterTaints(root string) ([]corev1.Taint, error) {
	text, err := os.ReadFile(filepath.Join(root, "var/lib/kubelet/kubeadm-flags.env"))
	if root == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := taintsFlag.FindStringSubmatch(string(text))
	if found == nil {
		return nil, nil
	}
	taints, _, err := taintutils.ParseTaints(strings.Split(found[1], ","))
	return taints, err
}
