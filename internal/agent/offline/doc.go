// Package offline generalizes the disk of another machine: a copy of a donor's root disk, attached as a block device.
//
// The package finds the root by the device's own partition table and superblocks, and proves that the device is the expected
// copy. It mounts the file systems in a mount namespace of its own, checks packages and images (package audit), and applies
// the rules (package generalize). Afterwards it searches the raw device. It neither boots the copy nor runs a program from it.
package offline
