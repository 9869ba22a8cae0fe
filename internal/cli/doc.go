// Package cli is the kamino command: one verb in a file, what it says in package print.
//
// It decides how a person's words become a Prototype, who drives a capture (whoever holds the Lease), and
// which exit code an ending has. What a capture does is decided in package capture; the command only
// calls it, pass by pass, and shows what the Prototype's status says.
//
// Rules for what is said:
//   - Results go to standard output; progress, logs and errors go to standard error.
//   - Every ending that is not success is one sentence that names the object, and says whether anything
//     was changed and what to do. The exit code tells its class.
//   - Nothing is asked: the command runs the same in a script.
//   - Colours only on a terminal, and not with NO_COLOR.
package cli
