// Package azure simulates Azure Resource Manager over HTTPS, for the Azure SDK for Go and the az command. The package
// simulates galleries, image definitions and versions, snapshots, disks, scale sets with instances and extensions,
// long operations, tokens, throttling, and Azure's errors.
//
// The package interprets requests and stores the state of all resources on disk. A server on the same directory
// continues with all long operations. A fleet.Fleet runs the machines and holds the contents of disks. A clock.Clock
// shortens Azure's durations.
//
// The handlers are written by hand: each noun is a type over the shared state (backend), in a file with its name. front
// handles each request before the noun, and Server is the interface for a sandbox. Requests for other types get
// Azure's answer for unknown types. Packages for all clouds are next to this package: web (HTTP), requestlog (records of
// requests), fault, bucket (rate limits), workqueue (order of work) and store (state on disk).
package azure
