package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeOrder is the instruction for the pod on a donor, and the only object that the pod may write. The engine creates
// a NodeOrder before each generalize pod, reads the report, and deletes the NodeOrder.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=kamino
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.generalize.profile`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeOrder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the order. Only the engine writes the spec, once.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an order is immutable: the engine deletes the order and creates another order"
	Spec NodeOrderSpec `json:"spec"`

	// Status is the report of the pod. Kamino verifies the signature, not the writer.
	// +optional
	Status NodeOrderStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object. The object lacks these fields, and Unreadable itself is never stored.
	Unreadable Unreadable `json:"-"`
}

// NodeOrderList is a list of NodeOrders.
// +kubebuilder:object:root=true
type NodeOrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeOrder `json:"items"`
}

// OrderMethod is the work that the pod does on the node. The token of Copy names a snapshot and a device; the token of every other
// method is the node's boot ID.
// +kubebuilder:validation:Enum=InPlace;Quiesce;Copy;Check;Patch;Reboot
type OrderMethod string

const (
	// InPlace generalizes the donor's own disk, under one boot of the donor, and then shuts the donor down.
	InPlace OrderMethod = "InPlace"
	// OrderQuiesce flushes and freezes the disk of a node in service for the moment of a copy.
	OrderQuiesce OrderMethod = "Quiesce"
	// OrderCopy generalizes a copy of the donor's disk, on a device of another node.
	OrderCopy OrderMethod = "Copy"
	// OrderCheck reads the package repositories of a node in service, and reports the pending patches.
	OrderCheck OrderMethod = "Check"
	// OrderPatch installs the pending patches on a reserved node.
	OrderPatch OrderMethod = "Patch"
	// OrderReboot reboots a reserved node.
	OrderReboot OrderMethod = "Reboot"
)

// PatchSet is a set of patches.
// +kubebuilder:validation:Enum=Security;All
type PatchSet string

const (
	// PatchSecurity is the patches from a security suite or with a security advisory.
	PatchSecurity PatchSet = "Security"
	// PatchAll is every pending update of the installed packages.
	PatchAll PatchSet = "All"
)

// OrderPatches defines the patches of an order with method Check or Patch. The fields are words and patterns, never
// commands.
type OrderPatches struct {
	// Patches is the set of patches.
	Patches PatchSet `json:"patches"`

	// Hold has regular expressions (RE2) for names of packages that Kamino does not change. Each expression begins with ^.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^\^`
	Hold []string `json:"hold,omitempty"`

	// MinAge is the minimum age of a patch, by the date of its repository.
	// +optional
	MinAge *metav1.Duration `json:"minAge,omitempty"`

	// Drained: the node has no pods of workloads. Kamino repairs an interrupted package manager only on such a node.
	// +optional
	Drained bool `json:"drained,omitempty"`
}

// Freeze defines whether the root file system is frozen for the moment of a copy.
// +kubebuilder:validation:Enum=Auto;Never
type Freeze string

const (
	// FreezeAuto freezes the root file system if systemd of the node can guard the freeze.
	FreezeAuto Freeze = "Auto"
	// FreezeNever only flushes the root file system.
	FreezeNever Freeze = "Never"
)

// OrderMoment defines the moment of a copy, for method Quiesce.
type OrderMoment struct {
	// Nonce is the content of the file that proves the last flush to the copy: 64 hexadecimal digits.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Nonce string `json:"nonce"`

	// Freeze defines whether the root file system is frozen. Default: Auto.
	// +optional
	Freeze Freeze `json:"freeze,omitempty"`
}

// NodeOrderSpec defines the node, the pod, the method and the settings of the work.
// +kubebuilder:validation:XValidation:rule="has(self.moment) == (has(self.method) && self.method == 'Quiesce')",message="moment belongs to the method Quiesce"
// +kubebuilder:validation:XValidation:rule="has(self.patch) == (has(self.method) && self.method in ['Check', 'Patch'])",message="patch belongs to the methods Check and Patch"
type NodeOrderSpec struct {
	// Holder is the object that asks: the Prototype of the capture, or the PrototypePolicy of a check.
	Holder Holder `json:"holder"`

	// NodeName of the donor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// Method is the work that the pod does.
	// +optional
	// +kubebuilder:default=InPlace
	Method OrderMethod `json:"method,omitempty"`

	// Token limits the order to one boot: the boot ID of the node. The order is void for every other boot. With method Copy, the token
	// limits the order to one disk: SNAPSHOT@DEVICE.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token"`

	// PodName is the name of the generalize pod, in the namespace of the NodeOrder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PodName string `json:"podName"`

	// Generalize has the generalize settings of the Prototype, for method InPlace.
	Generalize GeneralizeSettings `json:"generalize"`

	// Patch defines the patches, for the methods Check and Patch.
	// +optional
	Patch *OrderPatches `json:"patch,omitempty"`

	// Moment defines the moment of a copy, for method Quiesce.
	// +optional
	Moment *OrderMoment `json:"moment,omitempty"`

	// RulesDigest is the digest of the user's rules; empty without own rules.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	RulesDigest string `json:"rulesDigest,omitempty"`

	// Key is the public key, in base64, for the signature of the report.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Key string `json:"key"`
}

// Under returns the method and the token of the order. The default of the method is InPlace.
func (s NodeOrderSpec) Under() (OrderMethod, string) {
	return cmp.Or(s.Method, InPlace), s.Token
}

// NodeOrderStatus is the report of the pod on the donor.
type NodeOrderStatus struct {
	// Report as JSON: a proof, or the reason of a failure. The report is a string because the signature covers each
	// byte.
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	Report string `json:"report,omitempty"`

	// Signature of the report, in base64, with the key of the order.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Signature string `json:"signature,omitempty"`
}
