// Package real holds the proof of identity to real machines: Debian root file systems on raw disk images,
// booted by systemd-nspawn, with systemd, cloud-init, ssh, networkd and unattended-upgrades as they are,
// dressed as a node by the layouts of package disk. It is all tests, behind the build tag "machines",
// because they need root and a few Debian packages: run them by `make test-machines`.
//
// It decides whether two clones of a disk share anything that machines must not share, and whether what was
// deleted is gone from the disk's free blocks. What is measured is written down in docs/machines.md.
//
// Kubelet and guest agent are shell scripts that write, again and again, what the real ones write; all else
// is real. The kernel is the host's: nothing here may reach its /proc/sysrq-trigger, see donor_test.go.
package real
