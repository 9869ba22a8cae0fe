// Package realcloud checks on a real cloud what the product and its simulation only assume: the course of a run, which is the same for
// all clouds. Packages aws and azure have the checks, and Session is all that differs between them.
//
// A run makes a small group of machines under one tag, tries each assumption, and removes everything by the tag. All requests go
// through a guard, which refuses every change outside the tag and what costs more than the price says. The cloud's tags are the only
// state: a run continues after a kill, and `clean` needs no file. The simulated cloud is the second one that a course runs against: for
// the dry run, for the tests, and to compare a report with what the simulation assumes.
package realcloud
