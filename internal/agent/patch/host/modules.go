package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// loadedPath lists the loaded modules, each with its taints in brackets at the end: O is a module from outside the kernel's source. Source:
// Linux, kernel/module/procfs.c and tainted-kernels.rst.
const loadedPath = "proc/modules"

// keepsModules fails a patch whose new kernel lacks a loaded module from outside the kernel that the running one has on the disk: the reboot would
// lose its driver. A module that a container loads is on no disk.
func (n *Node) keepsModules() *patch.Failure {
	loaded, err := n.readFile(loadedPath)
	if err != nil {
		return nodeFailed(err)
	}
	running, err := n.readFile(kernelPath)
	if err != nil {
		return nodeFailed(err)
	}
	kernels, err := n.list("boot")
	if err != nil {
		return nodeFailed(err)
	}
	next := patch.NewestKernel(kernels)
	if running == "" || next == "" || next == running {
		return nil
	}
	had, has := tree.ModulesOf(n.tree, running), tree.ModulesOf(n.tree, next)
	var lost []string
	for line := range strings.Lines(loaded) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		taints := fields[len(fields)-1]
		if strings.HasPrefix(taints, "(") && strings.Contains(taints, "O") && had[fields[0]] != "" && has[fields[0]] == "" {
			lost = append(lost, fields[0])
		}
	}
	if slices.Sort(lost); len(lost) == 0 {
		return nil
	}
	return &patch.Failure{Reason: patch.InstallFailed, Message: fmt.Sprintf("the kernel %s, which the next boot starts, "+
		"lacks the loaded module %s of kernel %s, so the reboot would lose its driver. "+
		"Run %s, and read its errors", next, strings.Join(lost, ", "), running, tree.ModuleCommand(had[lost[0]], next))}
}
