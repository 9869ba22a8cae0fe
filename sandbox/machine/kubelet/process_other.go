//go:build !linux

package kubelet

import "syscall"

// processAttributes puts a process into a new process group. Isolation, and death with the sandbox, work on Linux
// only.
func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
