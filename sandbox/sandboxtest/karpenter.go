package sandboxtest

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// KarpenterObjects returns a client for a kind of Karpenter: "nodeclaims", "nodepools" or "ec2nodeclasses".
func (s *Sandbox) KarpenterObjects(plural string) dynamic.ResourceInterface {
	kind := schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: plural}
	if plural == "ec2nodeclasses" {
		kind.Group = "karpenter.k8s.aws"
	}
	return dynamic.NewForConfigOrDie(s.Config()).Resource(kind)
}
