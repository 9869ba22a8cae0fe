// Package capi is a PoolProvider for nodes of Cluster API. A pool is a MachineDeployment, a MachineSet without an owner,
// or a MachinePool.
//
// The recipe of a MachineDeployment or MachineSet is the infrastructure template. With a ClusterClass the recipe is the
// variable that holds the image. The recipe of a MachinePool is the infrastructure object. The ImageProvider is the
// cloud's, and so is the group behind a MachinePool.
//
// Objects are unstructured. The core version is that of the management cluster (v1beta2 or v1beta1), and infrastructure
// kinds belong to other projects. A write must keep unknown fields. Package capi never repeats decisions of Cluster API's
// controllers: a write changes their input, and the next read shows the result.
//
// Each noun has a file: pool, recipe, topology, machinepool, hold, remove, trial, member. topology_class.go and
// topology_variable.go read a ClusterClass without I/O. kube.go is the client, object.go reads core objects.
// infrastructure.go and the files of the kinds read the image of a template. ids.go holds names, and reason.go holds
// refusals.
//
// Sources of facts are code and documentation of Cluster API v1.14, CAPA v2.13 and CAPZ.
package capi
