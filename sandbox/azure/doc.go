// Package azure simulates Azure Resource Manager over HTTPS, faithfully enough for the Azure SDK for Go and
// for the az command: galleries, image definitions and versions, snapshots, disks, scale sets with their
// instances and extensions, long operations, tokens, throttling, and the errors in the form that the real
// one gives them.
//
// It decides what a request means and keeps what is known of every resource, on disk, so that a server that
// starts on the same directory goes on where the last one ended, its long operations included. It runs no
// machine and touches no disk content: it orders both through a fleet.Fleet. Time passes by a clock.Clock,
// so that durations which are real on Azure can be short here.
//
// The handlers are written by hand: each noun is a type of its own over what all share (world), in a file of its
// name; front is what stands before them, and Server what a sandbox sees. What is not simulated answers as Azure
// answers for a type that it doesn't know. What every cloud needs is beside it, for the next one: the wire (web), the
// record of requests (book), ordered trouble (fault), patience (bucket), work in its order (lane), the state on disk
// (store).
package azure
