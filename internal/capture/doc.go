// Package capture carries a Prototype out: each pass looks at the world (look*.go), lets package plan
// decide, and does one thing (act*.go). Nothing is remembered between passes but what stands on objects:
// the spec, the record and the proof on the Prototype, the reservation on the Node, tags in the cloud. A
// crash at any point is resumed by the next pass, of whatever process.
//
// The caller sees to it that only one process drives captures at a time (a Lease), and calls Pass until
// it says Done.
package capture
