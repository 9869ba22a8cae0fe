package kubelet

import "syscall"

// processAttributes put a process into a group of its own, and let it die with the sandbox.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
