package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Order is what the pod on a donor is told to do, and the only object that it may write to. The engine makes
// one before each generalize pod, takes over what the pod reports, and deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=kamino
// +kubebuilder:printcolumn:name="Prototype",type=string,JSONPath=`.spec.prototype`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.generalize.profile`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the order. Only the engine writes it, once.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an order cannot be changed: the engine deletes it and makes another"
	Spec OrderSpec `json:"spec"`

	// Status is what the pod reports. It is believed for its signature, not for who wrote it.
	// +optional
	Status OrderStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object, which are left out of it. It is never stored itself.
	Unreadable Unreadable `json:"-"`
}

// OrderList is a list of Orders.
// +kubebuilder:object:root=true
type OrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Order `json:"items"`
}

// OrderMethod says on what an order is carried out.
// +kubebuilder:validation:Enum=InPlace
type OrderMethod string

// InPlace changes the donor's own disk, under one boot of the donor, which goes down behind it. The token is the boot's ID.
const InPlace OrderMethod = "InPlace"

// OrderSpec says which disk is generalized, by whom, by which method, and how.
//
// +kubebuilder:validation:XValidation:rule="has(self.token) != has(self.bootID)",message="an order is for one token"
type OrderSpec struct {
	// Prototype that the donor's disk is generalized for.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Prototype string `json:"prototype"`

	// PrototypeUID tells it from another of the same name.
	PrototypeUID types.UID `json:"prototypeUID"`

	// NodeName of the donor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// Method says on what the order is carried out, and so what the token names.
	// +optional
	// +kubebuilder:default=InPlace
	Method OrderMethod `json:"method,omitempty"`

	// Token of what the order is for, in place the ID of the donor's boot: for any other the order is void.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token,omitempty"`

	// BootID is what versions without methods have written in place of the token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`

	// PodName of the pod that the order is for, in the order's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PodName string `json:"podName"`

	// Afterwards says what becomes of the donor. A profile that takes off a disk what its node joins by is applied to a
	// running donor only where that is removed. Return if absent.
	// +optional
	Afterwards Afterwards `json:"afterwards,omitempty"`

	// Generalize says how, as the Prototype's settings do.
	Generalize GeneralizeSettings `json:"generalize"`

	// RulesDigest is the digest of the rules that the settings name; empty if they name none.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	RulesDigest string `json:"rulesDigest,omitempty"`

	// Key is the public half, in base64, of the key that the pod signs its report with.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Key string `json:"key"`
}

// Under is the method of the order and the token of what it is for, also as a version without methods wrote them.
func (s OrderSpec) Under() (OrderMethod, string) {
	return cmp.Or(s.Method, InPlace), cmp.Or(s.Token, s.BootID)
}

// OrderStatus is what the pod on the donor reports.
type OrderStatus struct {
	// Report as JSON: a proof, or why there is none. It is a text because it is signed to the letter.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Report string `json:"report,omitempty"`

	// Signature of the report, in base64, by the key of the order.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Signature string `json:"signature,omitempty"`
}
