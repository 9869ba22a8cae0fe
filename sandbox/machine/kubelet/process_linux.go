package kubelet

import (
	"os"
	"syscall"
)

// processAttributes put a process into a group of its own, and let it die with the sandbox. An isolated one gets a network
// namespace as well; with the user namespace that this takes, it need not be root's, and it keeps its user.
func processAttributes(isolated bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if isolated {
		attributes.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
