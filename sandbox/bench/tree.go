package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// The files that no package installed, on the disk of a used node.
const (
	treeFiles = 20_000
	treeTries = 3
)

// Limits of the commands, as multiples of the CPU of `cat` on the same files.
const (
	maxGeneralize = 4
	maxVerify     = 3
)

// treeCost has the user and system times of the commands that read a whole disk, one of each try.
type treeCost struct{ cats, generalize, verify []time.Duration }

// RunTree measures `kamino-node generalize` and `kamino-node verify` on directory trees. Each try has a fresh tree.
func RunTree(ctx context.Context, o Options) (r Report, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-tree-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var t treeCost
	var size int64
	for try := range treeTries {
		root := filepath.Join(dir, fmt.Sprint(try))
		if size, err = makeTree(root); err != nil {
			return nil, fmt.Errorf("make a tree: %w", err)
		}
		if err := o.tryTree(ctx, &t, root); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(root); err != nil {
			return nil, err
		}
		o.Say("cat took %s of CPU, generalize %s, verify %s", short(t.cats[try]), short(t.generalize[try]), short(t.verify[try]))
	}
	return t.report(size), nil
}

func (t treeCost) report(size int64) (r Report) {
	r.add(fmt.Sprintf("%d files without a package, %s: CPU of `cat`", treeFiles, mebibytes(size)), short(median(t.cats)))
	command := func(name string, took []time.Duration, limit int) {
		times := ratio(median(took), median(t.cats))
		r.limited(fmt.Sprintf("CPU of `kamino-node %s` against `cat`", name), fmt.Sprintf("%.2f (%s)", times, short(median(took))),
			times > float64(limit), atMost(fmt.Sprint(limit)))
	}
	command("generalize", t.generalize, maxGeneralize)
	command("verify", t.verify, maxVerify)
	return r
}

// tryTree runs each command once. The first `cat` only fills the page cache.
func (o Options) tryTree(ctx context.Context, t *treeCost, root string) error {
	var unused []time.Duration
	cat := []string{"-c", `find "$0" -type f -exec cat {} + > /dev/null`, root}
	for _, step := range []struct {
		into   *[]time.Duration
		binary string
		args   []string
	}{
		{&unused, "/bin/sh", cat},
		{&t.cats, "/bin/sh", cat},
		{&t.generalize, o.node(), []string{"generalize", "--root", root, "--profile", "static"}},
		{&t.verify, o.node(), []string{"verify", root}},
	} {
		cost, err := measured(ctx, o.programs(nil), step.binary, step.args...)
		if err != nil {
			return err
		}
		*step.into = append(*step.into, cost.CPU)
	}
	return nil
}

// node is the path of kamino-node.
func (o Options) node() string { return filepath.Join(filepath.Dir(o.Kamino), "kamino-node") }

// makeTree writes the disk of a used node with files of an agent, and returns the size of these files.
func makeTree(root string) (size int64, err error) {
	if _, err := disk.UsedNode(root, disk.Static, disk.TemplateValues{}); err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range treeFiles {
		content := fileContent(random, i)
		if err := disk.WriteFile(filepath.Join(root, "opt/agent", fmt.Sprint(i%100), fmt.Sprintf("part-%d", i)), content, 0o644); err != nil {
			return size, err
		}
		size += int64(len(content))
	}
	return size, nil
}

// fileContent is a text of a few lines, or, for one file of ten, bytes as in a program.
func fileContent(random *rand.Rand, i int) []byte {
	if i%10 == 0 {
		content := make([]byte, 32<<10)
		for at := range content {
			content[at] = byte(random.Uint32())
		}
		return content
	}
	var content []byte
	for line := range 20 + random.IntN(100) {
		content = fmt.Appendf(content, "setting-%d of part %d is %s\n", line, i, []string{"on", "off", "default", "unset"}[random.IntN(4)])
	}
	return content
}
