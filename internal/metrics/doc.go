// Package metrics decides what Kamino tells Prometheus, and in which words: names, labels with their closed
// sets, and buckets. docs/metrics.md describes each, and a test holds the page to this package.
//
// It watches and never acts. Captures are counted from what one pass of the engine found and left of a
// Prototype's status, by the pure function Between; calls to the cloud by a decorator of its contract;
// passes by a decorator of the engine's; nodes by who labels them, and candidates by who decides. Nothing is
// asked of the API server for it, and of the cloud only which version each pool's recipe points at, twice an
// hour.
//
// Everything is counted by the process that does the work, from its start on: a restart begins at zero, as
// Prometheus expects of counters, and counts nothing again that an earlier process has seen end.
package metrics
