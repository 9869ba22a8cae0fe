// Package tree gives access to a machine's directory tree without leaving it: a node's root seen from a pod, a mounted
// copy of a disk, or a plain directory.
//
// The package ensures three things. Changes never follow a symbolic link: files behind a link are found and reported
// (Match.Via). Links are read with the tree as the root, as on the machine itself. Removals never cross a mount,
// because a mount belongs to another disk or to no disk.
//
// The package knows no rules and no profiles. It is based on os.Root, so that a link created meanwhile cannot lead
// outside.
package tree
