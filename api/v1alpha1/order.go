package v1alpha1

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// OrderRecord is the engine's record of an order, where the pod on the donor cannot write: the engine trusts a report only
// if the report fits the record.
type OrderRecord struct {
	// Namespace of the NodeOrder and its pod.
	Namespace string `json:"namespace"`
	// UID of the NodeOrder.
	UID types.UID `json:"uid"`
	// Key is the public half of the order's key, in base64.
	Key string `json:"key"`
	// Pod is the UID of the pod for the order; empty until the engine has seen the pod.
	Pod types.UID `json:"pod,omitempty"`
	// Disk is the cloud's ID of the disk that the order generalizes. No snapshot of another disk becomes a version.
	// +optional
	Disk string `json:"disk,omitempty"`
	// Copy is the disk of an order with method Copy. The order is void for every other disk.
	// +optional
	Copy *CopiedDisk `json:"copy,omitempty"`
}

// Report is the pod's result by the method: a proof or the reason for a missing proof, or the report about patches.
type Report struct {
	// NodeOrder and Pod of the report, by UID.
	Order types.UID `json:"order"`
	Pod   types.UID `json:"pod"`

	Proof    *Proof    `json:"proof,omitempty"`
	Unproven *Unproven `json:"unproven,omitempty"`
	// Contents is the list of the disk's contents, with the digest in the proof; empty without a list.
	Contents string `json:"contents,omitempty"`
	// Moment is the report of the method Quiesce.
	Moment *Moment `json:"moment,omitempty"`
	// Patch is the report of the methods Check, Patch and Reboot, as package patch encodes it.
	Patch json.RawMessage `json:"patch,omitempty"`
}

// fits reports whether the report has exactly the result of the method.
func (r *Report) fits(method OrderMethod) bool {
	proves, quiesces, patches := (r.Proof == nil) != (r.Unproven == nil), r.Moment != nil, r.Patch != nil
	none := r.Proof == nil && r.Unproven == nil
	switch method {
	case InPlace, OrderCopy:
		return proves && !quiesces && !patches
	case OrderQuiesce:
		return none && quiesces && !patches
	case OrderCheck, OrderPatch, OrderReboot:
		return none && !quiesces && patches
	}
	return false
}

// signed is the prefix of signed data, so that no signature is valid in another context.
const signed = "kamino.dev/v1alpha1 report\n"

// NewOrderKey returns the key of one order: the private half for the pod, as the text of a file, and the public half.
func NewOrderKey() (private []byte, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make the key of an order: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(key.Seed())), base64.StdEncoding.EncodeToString(pub), nil
}

// OrderKey parses the private half of an order's key, and returns the public half, too.
func OrderKey(text []byte) (key ed25519.PrivateKey, public string, err error) {
	seed, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, "", errors.New("the text is not the key of an order")
	}
	key = ed25519.NewKeyFromSeed(seed)
	return key, base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)), nil
}

// Sign makes the status of an order.
func (r *Report) Sign(key ed25519.PrivateKey) (NodeOrderStatus, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return NodeOrderStatus{}, err
	}
	signature := ed25519.Sign(key, append([]byte(signed), text...))
	return NodeOrderStatus{Report: string(text), Signature: base64.StdEncoding.EncodeToString(signature)}, nil
}

// ReportOf reads the report of the recorded order's pod; nil without a report. A report with a wrong signature, order or
// pod is an error that names the problem.
func ReportOf(o *NodeOrder, r OrderRecord) (*Report, error) {
	if o.UID != r.UID {
		return nil, fmt.Errorf("another client created order %s/%s again", o.Namespace, o.Name)
	}
	if o.Status == (NodeOrderStatus{}) {
		return nil, nil
	}
	refused := func(why string) (*Report, error) {
		return nil, fmt.Errorf("the report on order %s/%s is rejected: the report %s", o.Namespace, o.Name, why)
	}
	key, err := base64.StdEncoding.DecodeString(r.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return refused("cannot be checked: the key in the record is not readable")
	}
	signature, err := base64.StdEncoding.DecodeString(o.Status.Signature)
	if err != nil || !ed25519.Verify(key, append([]byte(signed), o.Status.Report...), signature) {
		return refused("is not signed with the order's key")
	}
	report := &Report{}
	if err := json.Unmarshal([]byte(o.Status.Report), report); err != nil {
		return refused("is not readable")
	}
	switch {
	case report.Order != r.UID:
		return refused("is about another order")
	case r.Pod == "" || report.Pod != r.Pod:
		return refused("is not from the pod of the order")
	case !report.fits(cmp.Or(o.Spec.Method, InPlace)):
		return refused("does not answer method " + string(cmp.Or(o.Spec.Method, InPlace)))
	case report.Contents != "" && (report.Proof == nil || report.Proof.ContentsDigest != ContentsDigest(report.Contents)):
		return refused("has a list of contents that its proof does not name")
	}
	return report, nil
}
