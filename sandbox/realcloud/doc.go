// Package realcloud checks on a real AWS account what the product and its simulation only assume. It makes a small network, a launch
// template and an Auto Scaling group under one tag, tries each assumption, and removes everything by the tag.
//
// All requests go through a guard, which refuses every change outside the tag and every launch beyond the limits. The cloud's
// tags are the only state: a run continues after a kill, and `clean` needs no file. The simulated AWS is the second cloud that
// this package runs against: for the dry run, for the tests, and to compare a report with what the simulation assumes.
package realcloud
