package quiesce

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	installed = "Package: curl\nStatus: install ok installed\nVersion: 8.5.0-2\n"
	half      = "\nPackage: vim\nStatus: install ok half-installed\nVersion: 9\n"
	removed   = "\nPackage: nano\nStatus: deinstall ok config-files\nVersion: 7\n"
	broken    = "\nPackage: perl\nStatus: install reinstreq installed\nVersion: 5\n"
	status    = "var/lib/dpkg/status"
)

// TestSigns has what a disk shows of work in progress. Files without a holder, old downloads and finished packages are quiet.
func TestSigns(t *testing.T) {
	const ingest = "var/lib/containerd/io.containerd.content.v1.content/ingest/abc/"
	now := time.Now()
	for name, test := range map[string]struct {
		files map[string]string
		// old are files that changed an hour ago.
		old  []string
		want []string
	}{
		"quiet":             {files: map[string]string{status: installed + removed, "var/lib/dpkg/lock": "", "var/lib/dpkg/lock-frontend": "", "var/lib/dpkg/updates/tmp.i": ""}},
		"no packages":       {files: map[string]string{status: "", "etc/hostname": "x"}},
		"half installed":    {files: map[string]string{status: installed + half}, want: []string{"packages are not completely installed, and no program completes them: vim. Run dpkg --configure -a"}},
		"to be reinstalled": {files: map[string]string{status: installed + broken}, want: []string{"packages are not completely installed, and no program completes them: perl. Run dpkg --configure -a"}},
		"interrupted":       {files: map[string]string{status: installed, "var/lib/dpkg/updates/0001": ""}, want: []string{"dpkg was interrupted, and no program repairs it: run dpkg --configure -a"}},
		"dnf, alive": {files: map[string]string{"var/cache/dnf/metadata_lock.pid": "812\n", "proc/812/comm": "dnf\n"},
			want: []string{"dnf (process 812) holds /var/cache/dnf/metadata_lock.pid: it changes packages"}},
		"yum in /run":      {files: map[string]string{"run/yum.pid": "812", "proc/812/comm": "python2.7\n"}, want: []string{"python2.7 (process 812) holds /run/yum.pid: it changes packages"}},
		"dnf, dead":        {files: map[string]string{"var/cache/dnf/metadata_lock.pid": "812\n"}},
		"dnf, another":     {files: map[string]string{"var/cache/dnf/metadata_lock.pid": "812\n", "proc/812/comm": "kubelet\n"}},
		"dnf, garbage":     {files: map[string]string{"var/cache/dnf/metadata_lock.pid": "\x00\x00", "proc/0/comm": "dnf\n"}},
		"containerd":       {files: map[string]string{ingest + "data": "x", ingest + "ref": "x"}, want: []string{"containerd pulls an image: /var/lib/containerd/io.containerd.content.v1.content/ingest/abc"}},
		"containerd, left": {files: map[string]string{ingest + "data": "x", ingest + "ref": "x"}, old: []string{ingest + "data", ingest + "ref"}},
		"containerd of RKE2": {files: map[string]string{"var/lib/rancher/rke2/agent/containerd/io.containerd.content.v1.content/ingest/abc/data": "x"},
			want: []string{"containerd pulls an image: /var/lib/rancher/rke2/agent/containerd/io.containerd.content.v1.content/ingest/abc"}},
		"containerd elsewhere": {files: map[string]string{"etc/containerd/config.toml": "root = \"/data/c\"\n", "data/c/io.containerd.metadata.v1.bolt/meta.db": "x", "data/c/io.containerd.content.v1.content/ingest/abc/data": "x"},
			want: []string{"containerd pulls an image: /data/c/io.containerd.content.v1.content/ingest/abc"}},
		"Docker, download": {files: map[string]string{"var/lib/docker/tmp/GetImageBlob123": "x"}, want: []string{"docker pulls an image: /var/lib/docker/tmp/GetImageBlob123"}},
		"Docker, layer":    {files: map[string]string{"var/lib/docker/image/overlay2/layerdb/tmp/write-set-1/diff": "x"}, want: []string{"docker pulls an image: /var/lib/docker/image/overlay2/layerdb/tmp/write-set-1"}},
		"CRI-O, download":  {files: map[string]string{"var/tmp/container_images_storage1/1": "x"}, want: []string{"CRI-O or Podman pulls an image: /var/tmp/container_images_storage1"}},
		"CRI-O, layer": {files: map[string]string{"var/lib/containers/storage/overlay-layers/layers.json": `[{"id":"a","flags": {"incomplete": true}}]`},
			want: []string{"CRI-O or Podman pulls an image: /var/lib/containers/storage/overlay-layers/layers.json"}},
		"CRI-O, done": {files: map[string]string{"var/lib/containers/storage/overlay-layers/layers.json": `[{"id":"a"}]`, "var/lib/containers/storage/overlay-layers/layers.lock": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := plant(t, test.files)
			for _, p := range test.old {
				if err := os.Chtimes(filepath.Join(tr.Dir(), p), now, now.Add(-time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := look(tr, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, s.busy()); diff != "" {
				t.Errorf("busy with (-want +got):\n%s", diff)
			}
		})
	}
}

// locker is a process that locks a file for writing, or for reading, until the test ends it.
func locker(t *testing.T, file, how string) (pid int, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "lock", file, how)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	end = func() { _ = errors.Join(in.Close(), cmd.Wait()) }
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// TestLocks: each lock of a package manager counts while a process holds it for writing, and names the process. Packages
// between two states are the work of the holder.
func TestLocks(t *testing.T) {
	files := map[string]string{status: installed + half, "var/lib/containers/storage/overlay-layers/layers.lock": ""}
	all := []string{"var/lib/containers/storage/overlay-layers/layers.lock"}
	for _, l := range locked {
		if !strings.HasPrefix(l.path, "var/run/") {
			files[l.path] = ""
			all = append(all, l.path)
		}
	}
	tr := plant(t, files)
	if err := os.Symlink("../run", filepath.Join(tr.Dir(), "var/run")); err != nil {
		t.Fatal(err)
	}
	busy := func() []string {
		t.Helper()
		s, err := look(tr, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return s.busy()
	}
	before := busy()
	if len(before) != 1 || !strings.Contains(before[0], "vim") {
		t.Fatalf("without a lock: %q", before)
	}
	for _, p := range all {
		pid, end := locker(t, filepath.Join(tr.Dir(), p), "write")
		plantIn(t, tr.Dir(), map[string]string{fmt.Sprintf("proc/%d/comm", pid): "apt-get\n"})
		got := busy()
		if want := fmt.Sprintf("apt-get (process %d) holds /%s: ", pid, p); len(got) == 0 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: busy with %q, want %q", p, got, want)
		}
		if working := strings.HasPrefix(p, "var/lib/dpkg/"); working != (len(got) == 1) {
			t.Errorf("%s: packages between two states are named beside the lock: %q", p, got)
		}
		end()
		if diff := cmp.Diff(before, busy()); diff != "" {
			t.Errorf("%s: after the lock (-want +got):\n%s", p, diff)
		}
	}
	// Readers change nothing.
	locker(t, filepath.Join(tr.Dir(), "var/lib/rpm/.rpm.lock"), "read")
	if diff := cmp.Diff(before, busy()); diff != "" {
		t.Errorf("with a reader (-want +got):\n%s", diff)
	}
}

// A list of packages that cannot be read is an error, and not a quiet node.
func TestUnreadableList(t *testing.T) {
	for _, content := range []string{"Package: curl\nStatus: installed\n", "\n"} {
		if s, err := look(plant(t, map[string]string{status: content}), time.Now()); err == nil {
			t.Errorf("%q: %+v", content, s)
		}
	}
}

// TestUUIDs reads the UUID of file systems that the programs of the system make.
func TestUUIDs(t *testing.T) {
	const want = "0bde4000-1111-4222-8333-0123456789ab"
	for kind, command := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-F", "-U", want}, "xfs": {"mkfs.xfs", "-q", "-f", "-m", "uuid=" + want},
	} {
		image := filepath.Join(t.TempDir(), "image")
		f, err := os.Create(image)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(320 << 20); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), command[0], append(command[1:], image)...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
		if got, err := readUUID(kind, f); err != nil || got != want {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		other := map[string]string{"ext4": "xfs", "xfs": "ext4"}[kind]
		if got, err := readUUID(other, f); err == nil {
			t.Errorf("%s has a UUID of %s: %q", kind, other, got)
		}
	}
	if got, err := readUUID("ext4", strings.NewReader("short")); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short device: %q, %v", got, err)
	}
}

// TestMain is also the helper, and a program with a lock.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "freeze":
		err = Freeze(os.Args[2], 0)
	case "lock":
		err = holdLock(os.Args[2], os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// holdLock holds a lock until the end of the input.
func holdLock(file, how string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: map[string]int16{"write": syscall.F_WRLCK, "read": syscall.F_RDLCK}[how]}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
