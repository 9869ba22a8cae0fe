//go:build !linux

package kubelet

import "syscall"

// processAttributes put a process into a group of its own. Only Linux lets it die with the sandbox, and can isolate it.
func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
