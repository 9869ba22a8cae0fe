package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWhatIsLinked looks at every package that the binary is made of. The linter holds the same walls for
// direct imports; what a library brings along only shows here.
func TestWhatIsLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	apart := map[string]string{
		"github.com/kamino-dev/kamino/sandbox":                  "the product knows nothing of a sandbox",
		"github.com/kamino-dev/kamino/internal/cloud/memory":    "it is for tests",
		"github.com/kamino-dev/kamino/internal/cloud/cloudtest": "it is for tests",
		"k8s.io/kubernetes":                          "Kubernetes' server code stays out",
		"k8s.io/apiserver":                           "Kubernetes' server code stays out",
		"k8s.io/kube-aggregator":                     "Kubernetes' server code stays out",
		"go.etcd.io/etcd":                            "Kubernetes' server code stays out",
		"sigs.k8s.io/kwok":                           "it is the sandbox's",
		"sigs.k8s.io/controller-runtime/pkg/envtest": "it is for tests",
		"testing":                                    "a binary that people run has no test code in it",
	}
	for _, linked := range strings.Fields(string(out)) {
		for prefix, why := range apart {
			if linked == prefix || strings.HasPrefix(linked, prefix+"/") {
				t.Errorf("%s is linked into kamino: %s", linked, why)
			}
		}
	}
}
