package machine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// Collision is an identity that two running machines share, as clones of a disk without generalization do.
type Collision struct {
	// What is shared, "node name" or "machine-id", and the value.
	What, Value string
	// First machine with the value, and Second that booted with the same value, as resource IDs.
	First, Second string
	At            time.Time
}

// String describes the collision in a sentence.
func (c Collision) String() string {
	return fmt.Sprintf("%s came up with the %s %s of %s", c.Second, c.What, c.Value, c.First)
}

// collisionLog records collisions.
type collisionLog struct {
	mu   sync.Mutex
	seen []Collision
}

// add records a collision and reports whether the collision is new. A restart of the same kubelet is not new.
func (l *collisionLog) add(c Collision) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.ContainsFunc(l.seen, func(seen Collision) bool {
		return seen.What == c.What && seen.Value == c.Value && seen.First == c.First && seen.Second == c.Second
	})
	if !known {
		c.At = time.Now()
		l.seen = append(l.seen, c)
	}
	return !known
}

// Collisions lists all collisions of the fleet, oldest first.
func (f *Fleet) Collisions() []Collision {
	f.collisions.mu.Lock()
	defer f.collisions.mu.Unlock()
	return slices.Clone(f.collisions.seen)
}

// lookForCollision compares a machine that started its kubelet with all other running machines.
func (f *Fleet) lookForCollision(ctx context.Context, m *machine, node kubelet.Node) {
	f.mu.Lock()
	others := f.all()
	f.mu.Unlock()
	for _, other := range others {
		s := other.now()
		if other == m || s == nil {
			continue
		}
		k := s.agent()
		if k == nil {
			continue
		}
		theirs := k.Node()
		if theirs.Name == node.Name {
			f.collide(ctx, node.Name, Collision{What: "node name", Value: node.Name, First: s.spec.ID, Second: m.specification().ID})
		}
		if theirs.Info.MachineID == node.Info.MachineID {
			f.collide(ctx, node.Name, Collision{What: "machine-id", Value: node.Info.MachineID, First: s.spec.ID, Second: m.specification().ID})
		}
	}
}

func (f *Fleet) collide(ctx context.Context, node string, c Collision) {
	if !f.collisions.add(c) {
		return
	}
	f.config.Log.Warn("machines collide", "what", c.What, "first", c.First, "second", c.Second)
	now := metav1.Now()
	_, err := f.config.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: node + ".", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
		Type:           corev1.EventTypeWarning, Reason: "IdentityCollision", Message: c.String(),
		Count: 1, FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "sandbox"},
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		f.config.Log.Debug("event not written", "node", node, "error", err)
	}
}

// byProvider is the machine with this provider ID; nil if there is none.
func (f *Fleet) byProvider(id string) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.machines {
		if fold(m.specification().ProviderID) == fold(id) {
			return m
		}
	}
	return nil
}

// removeNode removes the machine's Node, unless the Node of that name is another machine's.
func (f *Fleet) removeNode(ctx context.Context, m *machine) error {
	m.mu.Lock()
	name, provider := m.record.Node, m.record.Spec.ProviderID
	m.mu.Unlock()
	if name == "" {
		return nil
	}
	return f.kubelets.RemoveNode(ctx, name, provider)
}
