// Package patch is the contract between the controller, which asks a node for patches, and the pod on that node, which
// answers. A NodeOrder says what is asked, in enumerated words and anchored patterns, never as a command. A Report is the
// answer, which the pod signs with the key of the API's NodeOrder.
//
// The package holds values, their validation and their encoding. It decides neither when a node is patched (package
// patch/plan) nor how a package manager works (packages patch/apt, patch/dnf and patch/host).
package patch
