// Package generalize removes machine-specific data from a disk, and proves the removal. Profiles list paths with
// reasons, a Runner applies a profile to a directory tree, and Verify checks the tree again.
//
// The package decides the meaning and order of rules, and when a proof is given: only if a second look, with separate
// search code, found every applicable rule met. It does not choose the machine or use the proof. Package host handles
// running hosts, services, power and the API server. Package rules has the profiles.
package generalize
