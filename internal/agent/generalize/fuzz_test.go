//go:build unix

package generalize

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rules"
)

// FuzzRun builds a tree from a script and generalizes the tree. A script can make links to the outside, loops,
// special names and pipes. Nothing outside the root may change. A second check must confirm each rule that the run
// reports as met, without further changes.
//
// A line of the script is a kind, a path, and after a space a target or a content. The kinds are f for a file, d
// for a directory, l for a link, h for a hard link and p for a pipe. An @ in a target is the witness outside the
// root.
func FuzzRun(f *testing.F) {
	for _, seed := range []string{
		"fetc/machine-id 0123456789abcdef0123456789abcdef\nfetc/hostname donor\nfetc/hosts 127.0.1.1 donor",
		"lvar/log @\nltmp @\nlroot @\nlhome @",
		"lvar @/var\nletc @\nlswapfile @/file",
		"lvar/log ../../witness\nlvar/tmp ../../../witness\nlhome/a ../../witness",
		"letc/machine-id @/file\nletc/hosts @/file\nletc/fstab ../../witness/file\nletc/passwd @/file",
		"lvar/lib/kubelet/pods @\nlvar/lib/cloud/instance @\nlvar/lib/cloud/data ../../../../witness",
		"ltmp/loop loop\nltmp/a b\nltmp/b a\nlvar/log/self .\nlvar/log/up ..\nlvar/log/root /",
		"petc/machine-id\npvar/log/syslog\npetc/hosts\npetc/kubernetes/kubelet.conf",
		"dswapfile\ndetc/machine-id\ndvar/log/ancestry.log/x\ndetc/hosts",
		"fvar/log/a\x1b[2J x\nfvar/log/.. x\nf../witness/file x\nfvar/log/\xff\xfe x\nfroot/.ssh/-rf x",
		"fetc/hosts 10.0.0.1 donor\nhetc/machine-id etc/hosts\nhvar/log/hard etc/hosts",
		"letc/systemd/system @\nletc/cloud/cloud.cfg.d @\nletc/kamino @\nlvar/lib/kamino @",
		"lvar/lib/kamino/generalize.json @/file\nlvar/log/ancestry.log @/file\nletc/kamino/first-boot.sh @/file",
		"fvar/lib/etcd/member x\nfetc/kubernetes/pki/ca.key x",
	} {
		f.Add(seed)
	}
	profile, err := rules.Load(v1alpha1.ProfileStatic)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, script string) {
		top := t.TempDir()
		dir, witness := filepath.Join(top, "root"), filepath.Join(top, "witness")
		writeFile(t, witness, "file", "untouched")
		writeFile(t, witness, "var/log/file", "untouched")
		must(t, os.Mkdir(dir, 0o755))
		build(t, dir, witness, script)
		outside := snapshot(t, witness)
		_, err := run(t, dir, runner(profile))
		if err == nil {
			again, err := run(t, dir, runner(profile))
			if err != nil {
				t.Errorf("met once, and then: %v", err)
			}
			for _, o := range again.Outcomes {
				if o.Changed != 0 {
					t.Errorf("the second run says that rule %s changed %d", o.Rule, o.Changed)
				}
			}
		}
		if diff := cmp.Diff(outside, snapshot(t, witness)); diff != "" {
			t.Fatalf("the run left its root:\n%s", diff)
		}
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
			t.Fatalf("beside the root: %v, %v", entries, err)
		}
	})
}

// build creates the files of a script, and skips lines that fail.
func build(t *testing.T, dir, witness, script string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for i, line := range strings.Split(script, "\n") {
		if i == 40 || len(line) < 2 {
			continue
		}
		name, rest, _ := strings.Cut(line[1:], " ")
		rest = strings.ReplaceAll(rest, "@", witness)
		_ = root.MkdirAll(filepath.Dir(name), 0o755)
		switch line[0] {
		case 'f':
			_ = root.WriteFile(name, []byte(rest), 0o644)
		case 'd':
			_ = root.MkdirAll(name, 0o755)
		case 'l':
			_ = root.Symlink(rest, name)
		case 'h':
			_ = root.Link(rest, name)
		case 'p':
			if parent, err := root.OpenRoot(filepath.Dir(name)); err == nil {
				_ = syscall.Mkfifo(filepath.Join(parent.Name(), filepath.Base(name)), 0o644)
				_ = parent.Close()
			}
		}
	}
}
