// Package generalize removes from a machine's disk what must differ between machines, and proves that it
// did: profiles say which paths and why, a Runner applies one to a directory tree, Verify looks again.
//
// It decides what a rule means, in which order rules run, and when a proof may be given: only if every
// rule that applies was found met by a second look that shares no search with the first. It does not
// decide which machine, when, or what becomes of the proof; and it knows nothing of a running host, its
// services, its power or an API server: that is package host.
//
// Profiles are data (directory profile). Adding a path is adding a line there; the tables of
// docs/generalize.md are made from them.
package generalize

//go:generate go test -run TestPage -update .
