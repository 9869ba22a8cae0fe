package host

import (
	"slices"
	"testing"
)

// TestWriting: PID 1, the kernel, the run's own pod and ancestors, and the network go on. Everything else stops.
func TestWriting(t *testing.T) {
	all := []process{
		{pid: 1, name: "systemd"}, {pid: 2, name: "kthreadd", kernel: true}, {pid: 3, parent: 2, name: "kworker/0:0", kernel: true},
		{pid: 10, parent: 1, name: "cupsd"}, {pid: 11, parent: 1, name: "systemd-network"}, {pid: 14, parent: 1, name: "systemd-logind"}, {pid: 15, parent: 1, name: "multipathd"}, {pid: 12, parent: 1, name: "acme"}, {pid: 13, parent: 1, name: "halted", stopped: true},
		{pid: 20, parent: 1, name: "containerd-shim"}, {pid: 21, parent: 20, name: "pause"}, {pid: 22, parent: 20, name: "sh"}, {pid: 23, parent: 22, name: "kamino"}, {pid: 24, parent: 23, name: "child"},
		{pid: 30, parent: 1, name: "sshd"}, {pid: 31, parent: 30, name: "bash"},
	}
	pids := func(self int) (pids []int) {
		for _, p := range writing(all, self) {
			pids = append(pids, p.pid)
		}
		return pids
	}
	if got := pids(23); !slices.Equal(got, []int{10, 12, 30, 31}) {
		t.Errorf("in a pod: %v", got)
	}
	// Outside of a pod the shim and its containers are others.
	if got := pids(31); !slices.Equal(got, []int{10, 12, 20, 21, 22, 23, 24}) {
		t.Errorf("in a session: %v", got)
	}
}
