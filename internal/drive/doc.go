// Package drive carries Prototypes out as one process does: under the Lease that one process of a cluster holds, with
// the watches that wake it, until a capture, or a run over policies, is over. It wires the controller, too.
//
// It tells what happens as values; whoever shows it to a person puts it into words. What a capture does is package
// capture's, and what is captured is package policy's.
package drive
