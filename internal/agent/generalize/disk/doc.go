// Package disk works on a disk by name for a command or a capture's pod: generalize the disk, check it beforehand, or
// search it afterwards for secrets.
//
// The package finds out the kind of disk (mounted copy, root of a running host, raw image) and the profile. It refuses
// mistakes, for example to remove the identity of its own machine. Package generalize decides about rules and proofs.
package disk
