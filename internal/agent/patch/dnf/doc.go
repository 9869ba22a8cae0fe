// Package dnf knows dnf and rpm: the argument lists of each step, the meaning of each output, and which transaction an
// order allows. The package runs nothing: package patch/host runs the programs on the node.
//
// Facts without another source were measured with dnf 4.14. dnf exits 0 after a failed script of a package, and after an
// unread repository with skip_if_unavailable: the history and the list of packages decide.
package dnf
