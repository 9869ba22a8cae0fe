// Package policy decides which pools get a new prototype, from which of their nodes, and when: it groups the
// cluster's nodes by pool, finds the policy that each pool belongs to, asks the cloud what is needed, has
// packages selection and schedule judge, writes the decision down as a Prototype, and reports in the policies'
// statuses.
//
// Every pass works from what is there: nodes, policies, Prototypes and the cloud. What is kept between passes
// is a cache that a new process fills again. Whether a capture is safe to begin is not decided here but by the
// capture engine's preflight, and what a capture does is package capture's.
package policy
