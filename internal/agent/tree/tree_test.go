package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plant creates a tree and a witness outside the tree that must stay unchanged.
func plant(t testing.TB, files map[string]string) (tr *Tree, dir, witness string) {
	t.Helper()
	top := t.TempDir()
	dir, witness = filepath.Join(top, "root"), filepath.Join(top, "witness")
	for _, d := range []string{dir, witness} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, witness, "file", "untouched")
	for name, content := range files {
		put(t, dir, name, content)
	}
	opened, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened, dir, witness
}

// put creates a file, a link ("-> target") or a directory (name with a final "/").
func put(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	switch target, link := strings.CutPrefix(content, "-> "); {
	case link:
		err = os.Symlink(target, p)
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(p, 0o755)
	default:
		err = os.WriteFile(p, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func paths(matches []Match) []string {
	var all []string
	for _, m := range matches {
		text := m.Path
		if m.Via != "" {
			text += " via " + m.Via
		}
		all = append(all, text)
	}
	return all
}

func TestGlob(t *testing.T) {
	tr, _, witness := plant(t, map[string]string{
		"etc/ssh/ssh_host_rsa_key": "", "etc/ssh/sshd_config": "", "etc/file": "",
		"home/a/.ssh/authorized_keys": "", "home/b/.ssh": "", "home/.hidden/.ssh/id": "",
		"var/log/a": "", "var/log/d/b": "", "var/log/d/e/c": "", "var/log/empty/": "",
		"var/run": "-> /run", "run/x.json": "", "lib": "-> usr/lib", "usr/lib/udev/rule": "",
		"loop": "-> loop", "ring/a": "-> b", "ring/b": "-> a", "dangling": "-> /nowhere", "up": "-> ../../../..",
		"data/link/inner/f": "", "srv/away": "-> /data/link", "deep/self": "-> .", "odd/new\nline/f": "", "odd/\xff\xfe/f": "", "odd/-rf/f": "",
	})
	put(t, tr.Dir(), "escape", "-> "+witness)
	put(t, tr.Dir(), "relative-escape", "-> ../witness")
	for pattern, want := range map[string][]string{
		"etc/ssh/ssh_host_*":         {"etc/ssh/ssh_host_rsa_key"},
		"etc/file/x":                 nil,
		"nowhere/*":                  nil,
		"home/*/.ssh/*":              {"home/.hidden/.ssh/id", "home/a/.ssh/authorized_keys"},
		"var/log/**":                 {"var/log/a", "var/log/d", "var/log/d/b", "var/log/d/e", "var/log/d/e/c", "var/log/empty"},
		"var/**/c":                   {"var/log/d/e/c"},
		"var/**/log":                 {"var/log"},
		"var/run/*.json":             nil,
		"lib/udev/rule":              {"usr/lib/udev/rule via lib"},
		"srv/*/inner/*":              {"data/link/inner/f via srv/away"},
		"loop/x":                     nil,
		"ring/a/*":                   nil,
		"ring/*":                     {"ring/a", "ring/b"},
		"dangling/*":                 nil,
		"dangling":                   {"dangling"},
		"escape/file":                nil,
		"relative-escape/file":       nil,
		"up/etc/file":                {"etc/file via up"},
		"deep/*/*/*/*/*/x":           nil,
		"odd/*/f":                    {"odd/-rf/f", "odd/new\nline/f", "odd/\xff\xfe/f"},
		"[":                          nil,
		"etc/[fg]ile":                {"etc/file"},
		"up/up/up/up/up/up/etc/file": {"etc/file via up"},
	} {
		for _, tr.byName = range []bool{false, true} {
			found, err := tr.Glob(pattern)
			if err != nil {
				t.Errorf("%s: %v", pattern, err)
				continue
			}
			if diff := cmp.Diff(want, paths(found)); diff != "" {
				t.Errorf("%s, each name looked up: %t (-want +got):\n%s", pattern, tr.byName, diff)
			}
		}
	}
}

// TestMissing: most patterns of a profile match nothing on a machine, so this must be cheap.
func TestMissing(t *testing.T) {
	tr, _, _ := plant(t, map[string]string{"var/lib/a/b/x": ""})
	if lookup(tr, "var") != nil {
		t.Skip("this kernel looks up one name per call")
	}
	for _, pattern := range []string{"var/lib/a/b/none", "var/lib/none/a/b/c", "var/lib/a/b/x/y/*", "none/*/a"} {
		before := tr.Asked()
		found, err := tr.Glob(pattern)
		if asked, names := tr.Asked()-before, strings.Count(pattern, "/")+1; err != nil || len(found) > 0 || asked > names {
			t.Errorf("%s: found %v, %d names asked for, want at most %d (%v)", pattern, paths(found), asked, names, err)
		}
	}
}

func TestResolve(t *testing.T) {
	tr, _, _ := plant(t, map[string]string{
		"etc/machine-id": "x", "var/lib/dbus/machine-id": "-> /etc/machine-id", "a": "-> b", "b": "-> ../../etc", "loop": "-> /loop", "gone": "-> nowhere",
	})
	for p, want := range map[string]string{
		"var/lib/dbus/machine-id": "etc/machine-id", "a/machine-id": "etc/machine-id", ".": ".", "etc/../..": ".", "a/..": ".",
	} {
		if got, _, err := tr.Resolve(p); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", p, got, err, want)
		}
	}
	for _, p := range []string{"loop", "loop/x", "gone", "etc/machine-id/x"} {
		if got, _, err := tr.Resolve(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %q, %v; want fs.ErrNotExist", p, got, err)
		}
	}
}

func TestRemove(t *testing.T) {
	tr, dir, witness := plant(t, map[string]string{
		"top/file": "12345", "top/sub/file": "123", "top/sub/empty/": "", "top/to-witness": "-> ../../witness", "beside/file": "x",
		"via": "-> top", "top/\n": "", "top/..x": "", "top/\xff": "",
	})
	put(t, dir, "top/absolute", "-> "+witness)
	if err := syscall.Mkfifo(filepath.Join(dir, "top/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Remove("via/file", nil); !errors.Is(err, ErrLink) {
		t.Errorf("through a link: %v, want ErrLink", err)
	}
	if _, err := tr.Remove(".", nil); err == nil {
		t.Error("the root was removed")
	}
	if _, err := tr.Remove("../witness", nil); err == nil {
		t.Error("a path out of the tree was removed")
	}
	got, err := tr.Remove("top", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Dirs != 3 || got.Files != 8 || got.Bytes < 8 {
		t.Errorf("removed %+v", got)
	}
	if again, err := tr.Remove("top", nil); err != nil || again != (Removed{}) {
		t.Errorf("again: %+v, %v", again, err)
	}
	for _, p := range []string{filepath.Join(witness, "file"), filepath.Join(dir, "beside/file")} {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
}

func TestRemoveKeeps(t *testing.T) {
	tr, dir, _ := plant(t, map[string]string{"a/keep/x": "", "a/b/c": "", "a/d/keep": "", "a/e": ""})
	if _, err := tr.Remove("a", func(p string) bool { return strings.HasSuffix(p, "/keep") }); err != nil {
		t.Fatal(err)
	}
	var left []string
	_ = tr.Walk(".", func(p string, info fs.FileInfo) error {
		if !info.IsDir() {
			left = append(left, p)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"a/d/keep", "a/keep/x"}, left); diff != "" {
		t.Errorf("left in %s (-want +got):\n%s", dir, diff)
	}
}

// TestRemoveDeep removes a tree that is deeper than the limits of file descriptors and path length.
func TestRemoveDeep(t *testing.T) {
	tr, _, _ := plant(t, map[string]string{"top/x": ""})
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	const depth = 3000
	dig(t, tr, "top", "directory", depth)
	lower := old
	lower.Cur = 512
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()
	got, err := tr.Remove("top", nil)
	if err != nil || got.Dirs != depth+1 {
		t.Errorf("removed %+v, %v", got, err)
	}
	if _, err := tr.Lstat("top"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("top: %v", err)
	}
}

// dig creates nested directories, each with a file.
func dig(t *testing.T, tr *Tree, top, name string, depth int) {
	t.Helper()
	at, err := tr.root.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := errors.Join(at.Mkdir(name, 0o755), at.WriteFile("file", []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	at.Close()
}

// TestDeep limits the requests to the kernel per name, at any depth.
func TestDeep(t *testing.T) {
	const depth = 3000
	tr, _, _ := plant(t, map[string]string{"top/x": ""})
	dig(t, tr, "top", "d", depth)
	var files []Match
	for what, pass := range map[string]func() (int, error){
		"Glob": func() (int, error) {
			found, err := tr.Glob("top/**")
			return len(found), err
		},
		"Glob, names below": func() (int, error) {
			found, err := tr.Glob("top/**/file")
			files = found
			return 2 * len(found), err
		},
		"Glob, one that is nowhere": func() (int, error) {
			found, err := tr.Glob("top/**/none")
			return 2*depth + len(found), err
		},
		"Walk": func() (int, error) {
			count := 0
			err := tr.Walk("top", func(p string, info fs.FileInfo) error {
				count++
				_, err := tr.Lstat(p)
				return err
			})
			return count, err
		},
	} {
		before := tr.Asked()
		count, err := pass()
		if asked := tr.Asked() - before; err != nil || count < 2*depth || asked > 4*maxHop*count {
			t.Errorf("%s: %d found, %d names asked for, %v", what, count, asked, err)
		}
	}
	if len(tr.held) > 0 {
		t.Errorf("%d directories are held open after the last pass", len(tr.held))
	}
	end, before := tr.Pass(), tr.Asked()
	for _, m := range files {
		if removed, err := tr.Remove(m.Path, nil); err != nil || removed.Files != 1 {
			t.Fatalf("remove a file: %+v, %v", removed, err)
		}
	}
	end()
	if asked := tr.Asked() - before; asked > 8*maxHop*len(files) {
		t.Errorf("Remove of %d files: %d names asked for", len(files), asked)
	}
}

func TestRemoveUnreadable(t *testing.T) {
	tr, dir, _ := plant(t, map[string]string{"top/closed/file": ""})
	if err := os.Chmod(filepath.Join(dir, "top/closed"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Remove("top", nil); err != nil {
		t.Error(err)
	}
}

func TestReplace(t *testing.T) {
	tr, dir, witness := plant(t, map[string]string{"etc/file": "old", "etc/link": "-> file", "out": "-> ../witness", "d/": ""})
	if err := os.Chmod(filepath.Join(dir, "etc/file"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "etc/file"), filepath.Join(dir, "etc/other-name")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Replace("etc/file", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.Replace("new/dir/file", []byte("new"), 0o604); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"etc/file": "-rw-r----- new", "etc/other-name": "-rw-r----- old", "new/dir/file": "-rw----r-- new"} {
		info, err := os.Stat(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(filepath.Join(dir, p))
		if got := info.Mode().String() + " " + string(content); got != want {
			t.Errorf("%s is %q, want %q", p, got, want)
		}
	}
	for _, p := range []string{"etc/link", "out/file", "d", "etc/file/x"} {
		if err := tr.Replace(p, []byte("new"), 0o600); err == nil {
			t.Errorf("%s was replaced", p)
		}
	}
	if content, _ := os.ReadFile(filepath.Join(witness, "file")); string(content) != "untouched" {
		t.Errorf("the witness holds %q", content)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "etc")); len(entries) != 3 {
		t.Errorf("something is left over: %v", entries)
	}
}

func TestRead(t *testing.T) {
	tr, dir, _ := plant(t, map[string]string{"file": "content", "link": "-> /file", "d/": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(filepath.Join(dir, "big"))
	if err == nil {
		err = big.Truncate(MaxFile + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	big.Close()
	if content, err := tr.Read("link"); err != nil || string(content) != "content" {
		t.Errorf("link: %q, %v", content, err)
	}
	for _, p := range []string{"d", "fifo", "big", "nowhere"} {
		if _, err := tr.Read(p); err == nil {
			t.Errorf("%s was read", p)
		}
	}
}

// name draws names of files, including unusual names.
var name = rapid.OneOf(
	rapid.SampledFrom([]string{"a", "b", ".c", "..d", "*", "**", "?", "[", "\\", " ", "\n", "-rf", "\xff", "é"}),
	rapid.StringMatching(`[a-c]{1,2}`),
)

// TestNothingOutsideChanges creates trees with links to any place, and removes the matches of patterns.
func TestNothingOutsideChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		top := t.TempDir()
		dir, witness := filepath.Join(top, "root"), filepath.Join(top, "witness")
		put(t, witness, "a/b/c", "untouched")
		put(t, dir, "a/", "")
		inside, err := os.OpenRoot(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer inside.Close()
		targets := []string{"..", "../..", "../witness", witness, "/", "/a", "a", ".", "/nowhere", "../../witness/a", "/proc/self/root" + witness}
		for range rapid.IntRange(0, 12).Draw(r, "entries") {
			parts := rapid.SliceOfN(name, 1, 4).Draw(r, "path")
			p := path.Join(parts...)
			_ = inside.MkdirAll(path.Dir(p), 0o755)
			if rapid.Bool().Draw(r, "link") {
				_ = inside.Symlink(rapid.SampledFrom(targets).Draw(r, "target"), p)
			} else {
				_ = inside.WriteFile(p, []byte("x"), 0o644)
			}
		}
		tr, err := Open(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer tr.Close()
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"*", "**", "a", "b", "?", "..d", "a*"}), 1, 4).Draw(r, "pattern"), "/")
		found, err := tr.Glob(pattern)
		if err != nil {
			r.Fatalf("%s: %v", pattern, err)
		}
		tr.byName = true
		if slowly, err := tr.Glob(pattern); err != nil || !slices.Equal(paths(found), paths(slowly)) {
			r.Fatalf("%s: found %q, and %q by looking up each name (%v)", pattern, paths(found), paths(slowly), err)
		}
		for _, m := range found {
			if strings.HasPrefix(m.Path, "../") || strings.HasPrefix(m.Path, "/") {
				r.Fatalf("%s found %q", pattern, m.Path)
			}
			if m.Via == "" {
				_, _ = tr.Remove(m.Path, nil)
				if _, err := tr.Lstat(m.Path); err == nil {
					r.Errorf("%q is still there", m.Path)
				}
			}
			_ = tr.Replace(m.Path, []byte("new"), 0o600)
		}
		if content, err := os.ReadFile(filepath.Join(witness, "a/b/c")); err != nil || string(content) != "untouched" {
			r.Fatalf("the witness holds %q (%v)", content, err)
		}
		if entries, _ := os.ReadDir(top); len(entries) != 2 {
			r.Fatalf("beside the root: %v", entries)
		}
	})
}

// FuzzPath passes paths of a bad profile or a hostile name to every function that changes a tree.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"etc/passwd", "../witness/file", "/../witness/file", "a/../../witness/file", "out/file", "absolute/file", "./.", "a//b", "\x00", "**/*", "out/**", strings.Repeat("a/", 90)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		tr, dir, witness := plant(t, map[string]string{"etc/passwd": "x", "out": "-> ../witness", "in": "-> etc"})
		put(t, dir, "absolute", "-> "+witness)
		found, err := tr.Glob(Rel(p))
		if err == nil {
			for _, m := range found {
				if m.Path == "." || slices.Contains(strings.Split(m.Path, "/"), "..") {
					t.Errorf("%q found %q", p, m.Path)
				}
			}
		}
		for _, q := range []string{p, Rel(p)} {
			_ = tr.Replace(q, []byte("new"), 0o600)
			_ = tr.Link("/", q)
			_, _ = tr.Read(q)
			_, _ = tr.Remove(q, nil)
		}
		if content, err := os.ReadFile(filepath.Join(witness, "file")); err != nil || string(content) != "untouched" {
			t.Fatalf("%q reached the witness: %q, %v", p, content, err)
		}
		if entries, err := os.ReadDir(witness); err != nil || len(entries) != 1 {
			t.Fatalf("%q left something beside the witness: %v", p, entries)
		}
	})
}
