// Package print writes captures and pools for people and scripts: tables, JSON and YAML, and the live progress of a capture
// on a terminal or as plain lines.
//
// The package decides the content and form of the output. The package reads nothing, and the time is a parameter. Results
// go to standard output and progress to standard error, so that a script can separate the two.
package print
