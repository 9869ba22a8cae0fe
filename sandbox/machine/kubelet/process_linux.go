package kubelet

import (
	"os"
	"syscall"
)

// processAttributes puts a process into a new process group that dies with the sandbox. An isolated process also gets
// a network namespace. The user namespace makes root unnecessary, and the process keeps its user.
func processAttributes(isolated bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if isolated {
		attributes.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
