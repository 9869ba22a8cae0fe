package capi_test

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
)

// makers selects the maker of a namespace. Namespaces without an own maker share one fleet.
type makers struct {
	sandbox.Maker
	mu  sync.Mutex
	own map[string]sandbox.Maker
}

func (m *makers) set(namespace string, own sandbox.Maker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own[namespace] = own
}

func (m *makers) makerOf(namespace string) sandbox.Maker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own := m.own[namespace]; own != nil {
		return own
	}
	return m.Maker
}

// Ensure implements sandbox.Maker.
func (m *makers) Ensure(ctx context.Context, of sandbox.Machine) (string, sandbox.MachineState, error) {
	return m.makerOf(of.Namespace).Ensure(ctx, of)
}

// Remove implements sandbox.Maker.
func (m *makers) Remove(ctx context.Context, of sandbox.Machine) (bool, error) {
	return m.makerOf(of.Namespace).Remove(ctx, of)
}

// kubelets creates the Node of each machine once.
type kubelets struct {
	nodes  client.Client
	joined sync.Map
}

func (k *kubelets) join(ctx context.Context, m sandbox.Machine, id string) error {
	if _, has := k.joined.Load(m.UID); has {
		return nil
	}
	err := k.nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(m)}, Spec: corev1.NodeSpec{ProviderID: id}})
	if client.IgnoreAlreadyExists(err) == nil {
		k.joined.Store(m.UID, true)
	}
	return client.IgnoreAlreadyExists(err)
}

func (k *kubelets) leave(ctx context.Context, m sandbox.Machine) error {
	return client.IgnoreNotFound(k.nodes.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(m)}}))
}

// disks creates machines in a cloud in memory, and their Nodes, from which Cluster API knows that the machine
// joined.
type disks struct {
	*memory.Cloud
	kubelets
}

// nodeOf returns the name of a machine's Node. All namespaces share one cluster, so the name contains the
// namespace.
func nodeOf(m sandbox.Machine) string { return m.Namespace + "-" + m.Name }

// Ensure implements sandbox.Maker.
func (d *disks) Ensure(ctx context.Context, m sandbox.Machine) (string, sandbox.MachineState, error) {
	image, _, _ := unstructured.NestedString(m.Spec, "ami", "id")
	id := string(d.Disks().Build(nodeOf(m), image))
	return id, sandbox.Running, d.join(ctx, m, id)
}

// Remove implements sandbox.Maker.
func (d *disks) Remove(ctx context.Context, m sandbox.Machine) (bool, error) {
	d.Disks().Discard(idOf(nodeOf(m)))
	return true, d.leave(ctx, m)
}

// idOf is the instance of a Node.
func idOf(node string) cloud.InstanceID { return cloud.InstanceID("memory:///machines/" + node) }
