// Package conformance runs the suite of the provider contract against the product's Azure provider and the simulated
// Azure, over HTTPS. Requests go through the real SDK with a real client secret. Faults produce the errors of the
// contract. The package holds tests only.
package conformance
