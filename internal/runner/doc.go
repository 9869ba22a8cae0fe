// Package runner runs captures and policies in a process: under the cluster's Lease, with watches, until a capture or a run
// over policies ends. The package also wires the controller.
//
// The package reports events as values; callers write the sentences. Package capture holds the steps of a capture, and
// package policy selects the donors.
package runner
