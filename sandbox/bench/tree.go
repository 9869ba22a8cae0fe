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

// Tree is the cost of the commands that read a whole disk.
type Tree struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Cats, Generalize and Verify are the user and system times, one of each try.
	Cats       []time.Duration `json:"cats"`
	Generalize []time.Duration `json:"generalize"`
	Verify     []time.Duration `json:"verify"`
}

// Ratio of a command's CPU to that of `cat`.
func (t Tree) Ratio(of []time.Duration) float64 {
	return median(of).Seconds() / median(t.Cats).Seconds()
}

// RunTree measures `kamino-node generalize` and `kamino-node verify` on directory trees. Each try has a fresh tree.
func RunTree(ctx context.Context, o Options) (t Tree, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-tree-")
	if err != nil {
		return Tree{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for try := range treeTries {
		root := filepath.Join(dir, fmt.Sprint(try))
		if t.Bytes, err = makeTree(root); err != nil {
			return t, fmt.Errorf("make a tree: %w", err)
		}
		t.Files = treeFiles
		if err := o.tryTree(ctx, &t, root); err != nil {
			return t, err
		}
		if err := os.RemoveAll(root); err != nil {
			return t, err
		}
		o.Say("cat took %s of CPU, generalize %s, verify %s", short(t.Cats[try]), short(t.Generalize[try]), short(t.Verify[try]))
	}
	return t, nil
}

// tryTree runs each command once. The first `cat` only fills the page cache.
func (o Options) tryTree(ctx context.Context, t *Tree, root string) error {
	var unused []time.Duration
	cat := []string{"-c", `find "$0" -type f -exec cat {} + > /dev/null`, root}
	for _, step := range []struct {
		into   *[]time.Duration
		binary string
		args   []string
	}{
		{&unused, "/bin/sh", cat},
		{&t.Cats, "/bin/sh", cat},
		{&t.Generalize, o.node(), []string{"generalize", "--root", root, "--profile", "static"}},
		{&t.Verify, o.node(), []string{"verify", root}},
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

func (t Tree) rows() [][3]string {
	row := func(name string, of []time.Duration, limit int) [3]string {
		return [3]string{fmt.Sprintf("CPU of `kamino-node %s` against `cat`", name), fmt.Sprintf("%.2f (%s)", t.Ratio(of), short(median(of))),
			fmt.Sprintf("at most %d", limit)}
	}
	return [][3]string{
		{fmt.Sprintf("%d files without a package, %s: CPU of `cat`", t.Files, mebibytes(t.Bytes)), short(median(t.Cats)), ""},
		row("generalize", t.Generalize, maxGeneralize), row("verify", t.Verify, maxVerify),
	}
}

func (t Tree) checks() []check {
	return []check{{"kamino-node generalize", t.Ratio(t.Generalize) > maxGeneralize}, {"kamino-node verify", t.Ratio(t.Verify) > maxVerify}}
}
