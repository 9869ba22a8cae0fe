package sandboxtest

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// PoolState is the state of a pool that a capture could change.
type PoolState struct {
	// Capacity is the wanted size; Image and Extensions belong to the next node.
	Capacity   int64
	Image      string
	Extensions []string
	// ScaleSet is the document on Azure, without size and image.
	ScaleSet map[string]any
	// Nodes by name: annotations, labels and spec, without changes by the cluster.
	Nodes map[string]string
	// Ready nodes.
	Ready []string
	// Boots of each node's machine.
	Boots map[string]int
	// Protected are the instances with scale-in protection.
	Protected []string
	// Snapshots of the pool; Versions such as "2026.11.21 true", with true for complete versions; Pods and Jobs of
	// the namespace.
	Snapshots, Versions, Pods, Jobs []string
}

// State of the pool now.
func (e *Env) State() PoolState {
	e.Helper()
	pool := e.CloudPool()
	s := PoolState{Capacity: pool.Capacity, Image: pool.Image, Extensions: slices.Sorted(slices.Values(pool.Extensions)), ScaleSet: e.scaleSet()}
	s.Nodes, s.Boots = map[string]string{}, map[string]int{}
	for _, m := range e.MachinesNow() {
		if m.Node == "" {
			continue // the cloud is still creating the pool
		}
		s.Boots[m.Node] = m.Boots
		n, err := e.Kube().CoreV1().Nodes().Get(e.Context(), m.Node, metav1.GetOptions{})
		if err != nil {
			continue // not joined, or removed
		}
		s.Nodes[m.Node] = e.describe(n)
		if nodestate.Ready(n) {
			s.Ready = append(s.Ready, m.Node)
		}
	}
	slices.Sort(s.Ready)
	var err error
	s.Protected, err = e.Sandbox.Protected(e.Context(), e.Pool)
	e.Must(err)
	for _, v := range e.Versions() {
		state := " incomplete"
		if v.Complete {
			state = " complete"
		}
		s.Versions = append(s.Versions, v.Name+state)
	}
	slices.Sort(s.Versions)
	s.Snapshots = e.snapshots()
	s.Pods, s.Jobs = e.workloads()
	return s
}

// Clone copies a state, so that a test can write its expectation.
func (s PoolState) Clone() PoolState {
	s.Nodes, s.Boots, s.ScaleSet = maps.Clone(s.Nodes), maps.Clone(s.Boots), maps.Clone(s.ScaleSet)
	s.Ready, s.Protected = slices.Clone(s.Ready), slices.Clone(s.Protected)
	return s
}

func (e *Env) snapshots() (names []string) {
	e.Helper()
	all, err := e.Sandbox.Snapshots(e.Context())
	e.Must(err)
	for _, name := range all {
		if strings.Contains(name, e.Group) {
			names = append(names, name)
		}
	}
	return names
}

func (e *Env) workloads() (pods, jobs []string) {
	e.Helper()
	allPods, err := e.Kube().CoreV1().Pods(e.PodNamespace).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	for _, pod := range allPods.Items {
		pods = append(pods, pod.Name)
	}
	allJobs, err := e.Kube().BatchV1().Jobs(e.PodNamespace).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	for _, job := range allJobs.Items {
		jobs = append(jobs, job.Name)
	}
	return pods, jobs
}

// describe returns the part of a node that neither kubelet nor cluster changes: no taints of a node that is away, no late
// labels, no annotation by the number of nodes, and no version label.
func (e *Env) describe(n *corev1.Node) string {
	e.Helper()
	spec := n.Spec.DeepCopy()
	spec.Taints = slices.DeleteFunc(spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	if len(spec.Taints) == 0 {
		spec.Taints = nil
	}
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return strings.HasPrefix(key, "beta.kubernetes.io/") || key == v1alpha1.VersionLabel
	})
	annotations := maps.Clone(n.Annotations)
	delete(annotations, "node.alpha.kubernetes.io/ttl")
	raw, err := json.Marshal([]any{annotations, labels, spec})
	e.Must(err)
	return string(raw)
}

// scaleSet is the document of an Azure pool, without the fields that a capture or the cloud always changes.
func (e *Env) scaleSet() map[string]any {
	e.Helper()
	if e.Sandbox.Azure() == nil {
		return nil
	}
	all, err := e.Sandbox.Azure().ScaleSets(e.Context())
	e.Must(err)
	for _, set := range all {
		if !strings.EqualFold(*set.Name, path.Base(e.Group)) {
			continue
		}
		set.Etag, set.SKU = nil, nil
		if p := set.Properties; p != nil {
			p.ProvisioningState = nil // a new scale set is still "Creating" for a moment
			if p.VirtualMachineProfile != nil && p.VirtualMachineProfile.StorageProfile != nil {
				p.VirtualMachineProfile.StorageProfile.ImageReference = nil
			}
		}
		raw, err := json.Marshal(set)
		e.Must(err)
		document := map[string]any{}
		e.Must(json.Unmarshal(raw, &document))
		return document
	}
	return nil
}
