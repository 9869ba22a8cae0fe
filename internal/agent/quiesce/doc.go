// Package quiesce makes a running node ready for a copy of its disk. It waits until no program changes packages and no
// image is pulled, and leaves a nonce file. Then it flushes the root file system, and freezes it until the cloud has taken
// the moment of the copy.
//
// A node with another disk than one that a copy shows completely is refused: only one file system, ext4 or XFS, directly
// on a disk. Nothing else of the node changes: no pod moves, no unit stops.
//
// The kernel does not thaw a file system when the program that froze it is killed. So the program that freezes is the
// main process of a transient unit of the host's systemd, which thaws when the unit ends, however it ends.
package quiesce
