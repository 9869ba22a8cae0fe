// Package conformance proves that the product's Azure provider and the simulated Azure agree: it runs the
// provider contract's own suite over HTTPS, through the real SDK with a real client secret, and orders the
// trouble that the contract's errors speak of. It holds tests only, and decides nothing.
package conformance
