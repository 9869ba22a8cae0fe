package cloud

// NodeValues are the fields of a Node that identify its pool. Some clouds need only the first field, or query their API
// with it. With Cluster API the annotations identify the pool.
type NodeValues struct {
	// ProviderID is Node.spec.providerID; empty if unset.
	ProviderID InstanceID
	// Labels and Annotations are the Node's own maps. They may be nil, and must not be changed.
	Labels      map[string]string
	Annotations map[string]string
}

// Annotations of Cluster API on a Node: Machine, Cluster, namespace and owner. A MachinePool without Machines annotates
// its Nodes without MachineAnnotation. Source: Cluster API, annotations of its controllers of Machines and MachinePools.
const (
	MachineAnnotation          = "cluster.x-k8s.io/machine"
	MachineOwnerKindAnnotation = "cluster.x-k8s.io/owner-kind"
	MachineOwnerNameAnnotation = "cluster.x-k8s.io/owner-name"
	MachineClusterAnnotation   = "cluster.x-k8s.io/cluster-name"
	MachineNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
)

// Membership is the pool of a node, or why the node has no pool.
type Membership struct {
	// Pool is empty if the node belongs to no known pool.
	Pool PoolID
	// Why is the reason for an empty Pool, as a sentence for people; else empty.
	Why string
	// ByMachine is true if the node's Machine decided the pool. No other source has precedence.
	ByMachine bool
}
