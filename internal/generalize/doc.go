// Package generalize removes machine-specific data from a disk, and proves the removal. Profiles list paths with
// reasons, a Runner applies a profile to a directory tree, and Verify checks the tree again.
//
// The package decides the meaning and order of rules, and when a proof is given: only if a second look, with separate
// search code, found every applicable rule met. It does not choose the machine or use the proof. Package host handles
// running hosts, services, power and the API server.
//
// Profiles are data in directory profile. A further path is one line there. The tables of docs/reference/generalize-rules.md are
// generated from profiles.
package generalize

//go:generate go test -run TestPage -update .
