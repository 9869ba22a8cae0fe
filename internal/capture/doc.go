// Package capture runs one Prototype. Each pass observes the cluster and the cloud (observe.go), lets package plan decide,
// and carries the decision out (actions.go).
//
// All state is on objects: the spec, record and proof on the Prototype, the Lease and the Node with the reservation,
// tags in the cloud. After a crash, the next pass of any process continues.
//
// The caller must run captures in only one process at a time (a Lease), and call Pass until the Result is Done.
package capture
