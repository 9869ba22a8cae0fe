package cloud

// NodeValues is what a Node says of itself, as far as a cloud can tell from it which pool the node belongs to. A cloud
// may need no more than the first, or ask its own API by it; on Cluster API the pool stands in the annotations.
type NodeValues struct {
	// ProviderID is Node.spec.providerID; empty where nobody has written one.
	ProviderID InstanceID
	// Labels and Annotations are the Node's own. They may be nil, and must not be changed.
	Labels      map[string]string
	Annotations map[string]string
}

// Annotations on a Node that Cluster API made: its Machine, and the Cluster and the namespace that this is of. Source: Cluster API, what
// its Machine controller writes on Nodes.
const (
	MachineAnnotation          = "cluster.x-k8s.io/machine"
	MachineClusterAnnotation   = "cluster.x-k8s.io/cluster-name"
	MachineNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
)

// Membership is the pool that a node belongs to, or why it belongs to none.
type Membership struct {
	// Pool is empty if the node belongs to none that this provider knows.
	Pool PoolID
	// Why it belongs to none, in the sentence that a person needs. Empty if Pool is not.
	Why string
	// ByMachine tells that it was told by the node's Machine, of which nobody else knows more.
	ByMachine bool
}
