// Package host generalizes its own machine from a privileged pod with the host's root. It checks the boot and the
// Prototype, and stops services that would write again. Then it applies and verifies the profile, reports the proof,
// and powers the host off.
//
// The package decides the order of stopping a live host. After a failed step there is no proof, and the stopped
// services are started again, so that the kubelet reports the failure. Package generalize decides what is removed. The
// capture decides what happens to the donor afterwards.
//
// From the host the package needs only files: /proc, the systemd socket in /run/systemd/private, and
// /proc/sysrq-trigger.
package host
