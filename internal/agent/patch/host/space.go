package host

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// need is what a transaction writes to the file system of a directory, at least.
type need struct {
	dir   string
	bytes int64
}

// room compares the needs with the free space, before anything is changed.
func (n *Node) room(needs ...need) *patch.Failure {
	for _, need := range needs {
		if need.bytes == 0 || !n.exists(need.dir) {
			continue
		}
		room, err := n.tree.Room(need.dir)
		if err != nil {
			return nodeFailed(err)
		}
		if free := int64(min(room.Bytes, 1<<62)); free < need.bytes { //nolint:gosec // bounded above
			return &patch.Failure{Reason: patch.NoSpace, Message: fmt.Sprintf("/%s has %d MiB free, and the patches need %d MiB; nothing was installed%s",
				need.dir, free>>20, (need.bytes>>20)+1, unusedKernels(n))}
		}
	}
	return nil
}

// unusedKernels names the kernels that are neither the newest nor the running one; empty without any.
func unusedKernels(n *Node) string {
	names, err := n.list("boot")
	running, _ := n.readFile(kernelPath)
	newest := patch.NewestKernel(names)
	unused := slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "vmlinuz-") || strings.Contains(name, "0-rescue") || name == "vmlinuz-"+newest || name == "vmlinuz-"+running
	})
	if err != nil || running == "" || len(unused) == 0 {
		return ""
	}
	return ". Remove the packages of kernels that no boot needs: " + strings.ReplaceAll(strings.Join(unused, ", "), "vmlinuz-", "")
}

// dkmsBytes is the least that DKMS writes for one more kernel: a copy of each source, and each module as built and as installed. Source:
// dkms(8).
func dkmsBytes(t *tree.Tree) (bytes int64, err error) {
	const built = "var/lib/dkms/*/*/*/*/module/*"
	found, err := t.Glob(built)
	if err != nil {
		return 0, err
	}
	modules := map[string]int64{} // by the directory of a kernel
	for _, m := range found {
		modules[path.Dir(m.Path)] += m.Info.Size()
	}
	most := map[string]int64{} // by the name of a module: DKMS builds one version
	for dir, size := range modules {
		version := path.Dir(path.Dir(path.Dir(dir)))
		source, err := below(t, path.Join(version, "source"))
		if err != nil {
			return 0, err
		}
		most[path.Dir(version)] = max(most[path.Dir(version)], source+2*size)
	}
	for _, size := range most {
		bytes += size
	}
	return bytes, nil
}

// below is the size of the files below a directory, or below the target of a link.
func below(t *tree.Tree, dir string) (bytes int64, err error) {
	real, _, err := t.Resolve(dir)
	if err != nil {
		return 0, nil //nolint:nilerr // a module can be installed without its source
	}
	err = t.Walk(real, func(_ string, info fs.FileInfo) error {
		if info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err
}
