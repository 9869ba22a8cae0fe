// Package print turns captures and pools into what a person or a script reads: tables, JSON and YAML, and
// the live progress of a capture on a terminal or as plain lines.
//
// It decides what is shown and how; it looks nothing up, and it takes the time as a value. Results go to
// standard output and progress to standard error, so that a script can keep one without the other.
package print
