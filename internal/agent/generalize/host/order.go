package host

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Order is the order of a run, with the key for signing its report.
type Order struct {
	Namespace, Name string
	UID             types.UID
	// Pod is the UID of the run's pod.
	Pod types.UID
	// Key is the order's private key, and public the public key.
	Key    ed25519.PrivateKey
	public string
}

// OrderFiles are the paths of the order's files in a pod.
type OrderFiles struct {
	// Key has the order's private key, and PodUID the UID of the pod. Both are on a volume in memory.
	Key, PodUID string
}

// NewOrder reads the order's files at once, because the run removes their directory. reference is NAMESPACE/NAME.
func NewOrder(reference string, uid types.UID, files OrderFiles) (Order, error) {
	namespace, name, found := strings.Cut(reference, "/")
	if !found || namespace == "" || name == "" || uid == "" {
		return Order{}, fmt.Errorf("%q with the UID %q names no order: want NAMESPACE/NAME and a UID", reference, uid)
	}
	o := Order{Namespace: namespace, Name: name, UID: uid}
	text, err := os.ReadFile(files.Key)
	if err != nil {
		return Order{}, fmt.Errorf("the key of order %s is gone, and a proof would be impossible: %w", reference, err)
	}
	if o.Key, o.public, err = v1alpha1.OrderKey(bytes.TrimSpace(text)); err != nil {
		return Order{}, fmt.Errorf("the key of order %s: %w", reference, err)
	}
	pod, err := os.ReadFile(files.PodUID)
	if err != nil {
		return Order{}, fmt.Errorf("read the UID of the pod: %w", err)
	}
	if o.Pod = types.UID(bytes.TrimSpace(pod)); o.Pod == "" {
		return Order{}, errors.New("the UID of the pod is not known")
	}
	return o, nil
}

// String returns NAMESPACE/NAME.
func (o Order) String() string { return o.Namespace + "/" + o.Name }

// Public returns the public half of the order's key, in base64.
func (o Order) Public() string { return o.public }

// Check refuses an order that has changed, is for another disk or boot, or already has a report.
func (o Order) Check(found *v1alpha1.NodeOrder, s generalize.RunSubject, profile *rules.Profile) error {
	spec := found.Spec
	method, token := s.Under()
	if err := o.CheckUnder(found, v1alpha1.Holder{Name: s.Prototype, UID: s.UID}, method, token); err != nil {
		return err
	}
	switch {
	case spec.Generalize.Profile != profile.Name || spec.RulesDigest != profile.RulesDigest:
		return refused("order %s is for profile %s with the rules %q, not for %s with %q", o, spec.Generalize.Profile, spec.RulesDigest, profile.Name, profile.RulesDigest)
	case method == v1alpha1.InPlace && profile.NotLive != "":
		return refused("profile %s, which order %s names, is not for a running host: %s", profile.Name, o, profile.NotLive)
	}
	return nil
}

// CheckUnder refuses an order of another holder, method or token, one that has changed, or one that already has a report.
func (o Order) CheckUnder(found *v1alpha1.NodeOrder, holder v1alpha1.Holder, method v1alpha1.OrderMethod, token string) error {
	spec := found.Spec
	has, under := spec.Under()
	switch {
	case found.UID != o.UID:
		return refused("order %s has the UID %s, and the run is for %s: another client deleted and recreated the order", o, found.UID, o.UID)
	case len(found.Unreadable) > 0:
		return refused("order %s cannot be read: %s", o, found.Unreadable)
	case found.DeletionTimestamp != nil:
		return refused("order %s is being deleted", o)
	case found.Status != (v1alpha1.NodeOrderStatus{}):
		return refused("order %s has a report already", o)
	case spec.Holder.Name != holder.Name || !spec.Holder.Same(holder):
		return refused("order %s is for Prototype %s with the UID %s, not for %s with the UID %s", o, spec.Holder.Name, spec.Holder.UID, holder.Name, holder.UID)
	case has != method:
		return refused("order %s has the method %s, and this run has %s", o, has, method)
	case token == "":
		return refused("the run names no boot and no copy, so no proof could fit order %s", o)
	case under != token:
		return refused("order %s is for %q, and this run is for %s", o, under, token)
	case spec.Key != o.public:
		return refused("the key of this run is not the key of order %s, and Kamino would reject the proof", o)
	}
	return nil
}
