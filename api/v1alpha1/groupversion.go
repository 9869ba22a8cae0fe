package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "kamino.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Prototype{}, &PrototypeList{}, &NodeOrder{}, &NodeOrderList{}, &PrototypePolicy{}, &PrototypePolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
