// Package capi is the half of the recipes where Cluster API builds the nodes: a pool is a MachineDeployment, or a MachineSet that
// nobody owns, and its recipe is the infrastructure template that it names; of a MachineDeployment that is made from a ClusterClass, the
// variable that holds the image; or it is a MachinePool, and its recipe what that names. Disks and images are those of the cloud beside it,
// and so is the group that a MachinePool may be.
//
// The objects are read and written as they are, without types (unstructured): the core's version is that of the management cluster
// (v1beta2, or v1beta1), the infrastructure's kinds belong to other projects, and a write must keep every field that nobody here knows.
// Nothing of what Cluster API's controllers decide is decided again: a write changes what they read, and the next look tells what they
// made of it.
//
// There is one file per noun: pool, recipe, topology, machinepool, hold, remove, trial, member. topology_class.go and topology_variable.go decide without
// I/O what a ClusterClass says of a pool. kube.go speaks to the API server, object.go reads the core's
// objects, infrastructure.go and the files of its kinds read the image of a template. ids.go says what things are called, and reason.go
// what is refused.
//
// Sources of facts are the code and the documentation of Cluster API v1.14, its provider for AWS v2.13 and its provider for Azure.
package capi
