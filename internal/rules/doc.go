// Package rules reads profiles: lists of paths with actions and reasons, which the node agent applies to a disk. The control plane
// reads a user's own rules with it, to refuse wrong rules before a capture.
//
// Profiles are data in directory profile. A further path is one line there. The tables of docs/reference/generalize-rules.md are
// generated from profiles.
package rules

//go:generate go test -run TestPage -update .
