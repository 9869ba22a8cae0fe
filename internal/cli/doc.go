// Package cli is the kamino command: one verb per file, with the output in package print.
//
// The package turns flags into a Prototype, and endings into exit codes. The holder of the Lease runs a capture. Package
// capture decides the steps of a capture; the command calls passes and shows the Prototype's status.
//
// Rules for the output:
//   - Results go to standard output; progress, logs and errors go to standard error.
//   - Every ending except success is one sentence. The sentence names the object, says whether anything
//     changed, and says what to do. The exit code names the class of the ending.
//   - Without a terminal there are no questions: a script runs unattended.
//   - Colours only on a terminal, and not with NO_COLOR.
package cli
