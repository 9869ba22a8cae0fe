// Package cloudtest is the conformance suite that every cloud.Provider passes: each sentence of the
// contract in package cloud is at least one test here. A provider's own tests call Run with a Harness
// that knows how to make a fresh pool in its cloud, or in a simulation of it.
//
// The suite judges only what the contract says. It waits by looking again after Harness.Advance, so many
// times and no more, and never by the wall clock.
package cloudtest
