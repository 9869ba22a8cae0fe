// Package tree gives access to a machine's directory tree without ever leaving it: the root of a node
// seen from a pod, a mounted copy of its disk, or a plain directory.
//
// It decides three things. A symbolic link is never followed when something is changed: what lies behind
// one is found and named (Match.Via), so that the caller can say so instead of guessing. A link is read
// as the machine itself would read it, with the tree as its root. And a mount is never removed through:
// what is mounted below a directory belongs to another disk, or to nobody's disk at all.
//
// It knows nothing of rules or profiles. It rests on os.Root, so that a link that is swapped in between
// a look and an act cannot lead outside either.
package tree
