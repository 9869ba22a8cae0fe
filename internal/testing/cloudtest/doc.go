// Package cloudtest is the conformance suite for every cloud.Provider. Each sentence of the contract in package cloud
// has at least one test here. A provider's tests call Run with a Harness that makes a fresh pool in the cloud or in a
// simulation.
//
// The suite checks only the contract. It waits by repeated reads after Harness.Advance, a limited number of times, and
// never by the wall clock.
package cloudtest
