// Package real tests the proof of identity on real machines: Debian root file systems on raw disk images, booted by
// systemd-nspawn, or by firmware under QEMU. systemd, cloud-init, ssh, networkd and unattended-upgrades are real. The layouts of package disk
// add the files of a node. The package holds only tests, with the build tag "machines", because the tests need root
// and some Debian packages: run `make test-machines`.
//
// The tests check that two clones of a disk share no identity, and that deleted data is gone from the disk's free
// blocks. docs/contribute/machines.md holds the measurements.
//
// Kubelet and guest agent are shell scripts that repeat the real writes; all other programs are real. The kernel of a
// container is the host's: no test may reach its /proc/sysrq-trigger, see donor_test.go.
package real
