// Package host carries out orders for patches on its own machine, from a privileged pod with the host's root.
//
// Steps that read run as children of the pod, in the host's root. Steps that change packages run as transient units of
// the host's systemd, named by the order: a unit outlives the pod, and a second pod of the same order finds the unit and
// waits. The package manager is the distribution's own; no file of Kamino is installed on the host.
//
// What outputs mean, and which transaction is allowed, is decided in the packages patch/apt and patch/dnf.
package host
