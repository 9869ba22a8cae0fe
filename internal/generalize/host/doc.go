// Package host generalizes the machine that it runs on, from inside a privileged pod that sees the host's
// root: it makes sure that this is the boot and the Prototype that it was ordered for, stops what would
// write again, has the profile applied and verified, reports the proof, and powers the host off at once.
//
// It decides in which order a live host is brought to rest, and what is given up when a step fails: the
// proof, always; then what was stopped is started again, so that the kubelet can report the failure. It
// does not decide what is removed (package generalize), nor what happens to the donor afterwards: whoever
// ordered the run sees the proof, or none.
//
// What it needs of the host it takes from files below the root: /proc, the systemd socket in
// /run/systemd/private, and /proc/sysrq-trigger.
package host
