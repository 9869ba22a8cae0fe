// Package v1alpha1 holds the kinds of the API group kamino.dev: what a person, a policy or any client
// writes to have a node captured, and what Kamino reports back.
//
// The package decides nothing. Validation that can be said in CEL stands on the types; names and
// annotations that several parts of Kamino (or another tool) must agree on stand in names.go.
//
// +kubebuilder:object:generate=true
// +groupName=kamino.dev
package v1alpha1
