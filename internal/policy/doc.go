// Package policy decides which pools get a new prototype, from which node, and when. The package groups the cluster's nodes
// by pool, finds the policy of each pool, and reads the cloud. Packages selection and schedule judge. The decision becomes
// a Prototype and a report in the policy's status.
//
// Each pass reads nodes, policies, Prototypes and the cloud again. State between passes is only a cache that a new process
// fills again. The capture engine's preflight decides whether a capture is safe. Package capture runs the capture.
package policy
