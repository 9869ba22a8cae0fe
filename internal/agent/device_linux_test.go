package agent

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// TestMain lets the tests run the program itself: it runs itself again in a mount namespace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "generalize" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

const donorID = "0123456789abcdef0123456789abcdef"

// testDisk is a copy of a donor's disk on a loop device.
type testDisk struct {
	image, device string
	// root is the number of the root's partition, and kind its file system.
	root, kind string
	// esp is the kind of the ESP: ext4 with a kernel that has no FAT.
	esp   string
	nonce string
	// needles are secrets of the donor by name.
	needles map[string][]byte
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unable skips a test that this machine cannot run. CI has what the tests need.
func unable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// command runs a program. A machine without the program skips the test.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		unable(t, "%v", err)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// attach attaches the image to a device of its own.
func attach(t *testing.T, image string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("devices need root")
	}
	device := command(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() {
		_ = exec.Command("partx", "--delete", device).Run()
		_ = exec.Command("losetup", "--detach", device).Run()
	})
	// Not every kernel reads partition tables, and the device may have partitions of an earlier file.
	_ = exec.Command("partx", "--delete", device).Run()
	command(t, "partx", "--add", device)
	return device
}

// newDisk makes a disk in a directory, as a cloud does: GPT with a BIOS partition, an ESP, /boot, swap and a root.
func newDisk(t *testing.T, kind, dir string) *testDisk {
	t.Helper()
	d := &testDisk{image: filepath.Join(dir, "disk.raw"), root: "1", kind: kind, needles: map[string][]byte{}}
	f, err := os.Create(d.image)
	must(t, err)
	size := map[string]int64{"ext4": 170 << 20, "xfs": 410 << 20}[kind] // mkfs.xfs wants 300 MiB
	must(t, errors.Join(f.Truncate(size), f.Close()))
	script := "label: gpt\n14: size=4M, type=21686148-6449-6E6F-744E-656564454649\n15: size=40M, type=U\n16: size=32M\n2: size=16M, type=S\n1: type=L\n"
	cmd := exec.CommandContext(t.Context(), "sfdisk", "--quiet", d.image)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		unable(t, "sfdisk: %v %s", err, out)
	}
	d.device = attach(t, d.image)
	if kind == "xfs" {
		command(t, "mkfs.xfs", "-q", "-f", d.part("1"))
	} else {
		command(t, "mkfs.ext4", "-q", "-F", d.part("1"))
	}
	command(t, "mkfs.ext4", "-q", "-F", d.part("16"))
	if known, _ := os.ReadFile("/proc/filesystems"); strings.Contains(string(known), "\tvfat\n") {
		command(t, "mkfs.vfat", "-n", "UEFI", d.part("15"))
		d.esp = "vfat"
	} else {
		command(t, "mkfs.ext4", "-q", "-F", "-L", "UEFI", d.part("15"))
		d.esp = "ext4"
	}
	command(t, "mkswap", d.part("2"))
	nonce := make([]byte, 32)
	_, err = rand.Read(nonce)
	must(t, err)
	d.nonce = hex.EncodeToString(nonce)
	d.mounted(t, func(root string) { d.populate(t, root) })
	d.mounted(t, func(root string) {
		names, err := filepath.Glob(filepath.Join(root, "mnt/*/z*"))
		must(t, err)
		for _, name := range names {
			must(t, os.Remove(name))
		}
	})
	return d
}

func (d *testDisk) part(number string) string { return d.device + "p" + number }

// trims reports whether the device can trim.
func (d *testDisk) trims() bool {
	limit, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(d.device), "queue/discard_max_bytes"))
	return err != nil || strings.TrimSpace(string(limit)) != "0"
}

func (d *testDisk) uuid(t *testing.T, number string) string {
	t.Helper()
	return command(t, "blkid", "-p", "-s", "UUID", "-o", "value", d.part(number))
}

// mounted mounts the root, /boot and the ESP for some work.
func (d *testDisk) mounted(t *testing.T, work func(root string)) {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount(d.part("1"), root, d.kind, 0, ""); err != nil {
		unable(t, "mounting is not allowed here: %v", err)
	}
	points := []string{root}
	for _, m := range [][3]string{{"16", "boot", "ext4"}, {"15", "boot/efi", d.esp}} {
		point := filepath.Join(root, m[1])
		must(t, os.MkdirAll(point, 0o755))
		must(t, unix.Mount(d.part(m[0]), point, m[2], 0, ""))
		points = append(points, point)
	}
	work(root)
	for _, point := range slices.Backward(points) {
		must(t, unix.Unmount(point, 0))
	}
}

func put(t *testing.T, root, name string, content []byte) {
	t.Helper()
	p := filepath.Join(root, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, content, 0o600))
}

// secret returns random text, which is remembered as a needle.
func (d *testDisk) secret(t *testing.T, name string) []byte {
	t.Helper()
	b := make([]byte, 24)
	_, err := rand.Read(b)
	must(t, err)
	d.needles[name] = []byte(hex.EncodeToString(b))
	return d.needles[name]
}

// populate writes the files of a donor, deletes some, and fills the swap space.
func (d *testDisk) populate(t *testing.T, root string) {
	t.Helper()
	fstab := fmt.Sprintf("UUID=%s / %s defaults 0 1\nUUID=%s /boot ext4 defaults 0 2\nLABEL=UEFI /boot/efi %s defaults 0 1\nUUID=%s none swap sw 0 0\n",
		d.uuid(t, "1"), d.kind, d.uuid(t, "16"), d.esp, d.uuid(t, "2"))
	for name, content := range map[string]string{
		"etc/machine-id": donorID + "\n", "etc/hostname": "worker-7f3a\n", "etc/fstab": fstab, "etc/os-release": "ID=debian\n",
		"etc/kubernetes/certs/client.crt": "x", "var/log/syslog": "x", "boot/config": "x",
		quiesce.NonceDir + "/order-1": d.nonce + "\n",
		quiesce.NonceDir + "/order-0": "older",
	} {
		put(t, root, name, []byte(content))
	}
	d.needles["machine ID"] = []byte(donorID)
	id, err := hex.DecodeString(donorID)
	must(t, err)
	d.needles["machine ID as bytes"] = id
	put(t, root, "var/log/journal/"+donorID+"/system.journal", bytes.Repeat(id, 40))
	for _, name := range []string{"var/lib/kubelet/pods/p/volumes/data", "root/.bash_history", "boot/efi/loader/random-seed", "boot/loader/random-seed", "var/log/pods/x/0.log"} {
		put(t, root, name, bytes.Repeat(append(d.secret(t, name), '\n'), 500))
	}
	command(t, "ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", filepath.Join(root, "etc/ssh-key"))
	must(t, os.MkdirAll(filepath.Join(root, "etc/ssh"), 0o755))
	must(t, os.Rename(filepath.Join(root, "etc/ssh-key"), filepath.Join(root, "etc/ssh/ssh_host_rsa_key")))
	must(t, os.Rename(filepath.Join(root, "etc/ssh-key.pub"), filepath.Join(root, "etc/ssh/ssh_host_rsa_key.pub")))
	key, err := os.ReadFile(filepath.Join(root, "etc/ssh/ssh_host_rsa_key"))
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(key)), "\n")
	d.needles["host key"] = []byte(lines[len(lines)-3])
	// Deleted before the copy, and still in free blocks.
	put(t, root, "opt/deleted", bytes.Repeat(append(d.secret(t, "deleted"), '\n'), 20000))
	put(t, root, "opt/deleted-log", []byte(strings.Repeat("node worker-7f3a has 0123456789ABCDEF0123456789abcdef\n", 2000)))
	// Names that are removed, in a directory with a list of its blocks, in a directory with one block, and as targets of links.
	for _, dir := range []string{"mnt/list", "mnt/block"} {
		for i := range map[string]int{"mnt/list": 12000, "mnt/block": 10}[dir] {
			put(t, root, fmt.Sprintf("%s/%s-%d", dir, strings.Repeat("n", 200), i), nil)
		}
		put(t, root, filepath.Join(dir, "z"+string(d.secret(t, "name in "+dir))), nil)
	}
	target := string(d.secret(t, "target of links"))
	for i := range 20 {
		must(t, os.Symlink("/"+target, filepath.Join(root, fmt.Sprintf("mnt/block/z%d", i))))
	}
	unix.Sync()
	must(t, os.RemoveAll(filepath.Join(root, "opt")))
	swap, err := os.OpenFile(d.part("2"), os.O_RDWR, 0)
	must(t, err)
	_, err = swap.WriteAt(bytes.Repeat(d.secret(t, "swap"), 100), 8<<20)
	must(t, errors.Join(err, swap.Close()))
}

// left returns the needles on the raw disk.
func (d *testDisk) left(t *testing.T) (found []string) {
	t.Helper()
	unix.Sync()
	f, err := os.Open(d.image)
	must(t, err)
	defer f.Close()
	buffer, kept := make([]byte, 4<<20), 0
	for {
		n, err := io.ReadFull(f, buffer[kept:])
		for name, needle := range d.needles {
			if bytes.Contains(buffer[:kept+n], needle) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		if err != nil {
			slices.Sort(found)
			return found
		}
		copy(buffer, buffer[len(buffer)-64:])
		kept = 64
	}
}

// sum is the checksum of the raw disk.
func (d *testDisk) sum(t *testing.T) [32]byte {
	t.Helper()
	unix.Sync()
	f, err := os.Open(d.image)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return [32]byte(h.Sum(nil))
}

// free fails the test if something still uses the device.
func (d *testDisk) free(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(d.device, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		t.Errorf("the device is still in use: %v", err)
		return
	}
	f.Close()
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "kamino-copy-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestCleanCopies cleans whole disks. It needs root.
func TestCleanCopies(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kinds := []string{"ext4", "xfs without trim", "xfs", "ext4 without trim"}
	if testing.Short() {
		kinds = kinds[:2]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			kind, trims, _ := strings.Cut(kind, " ")
			dir := t.TempDir()
			if trims != "" { // as volumes of AWS: files in ramfs have no holes
				if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
					unable(t, "mounting is not allowed here: %v", err)
				}
				t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			}
			d := newDisk(t, kind, dir)
			if trims != "" && d.trims() {
				t.Error("the device can trim")
			}
			if before := d.left(t); len(before) != len(d.needles) {
				t.Fatalf("the disk of the donor has %v, want all of %d", before, len(d.needles))
			}
			manifest := filepath.Join(t.TempDir(), "manifest.json")
			out, code := program(t, "generalize", "--device", d.device, "--machine-id", donorID, "--root-uuid", d.uuid(t, "1"), "--nonce-name",
				"order-1", "--nonce", d.nonce, "--profile", "static", "--manifest", manifest)
			if code != exit.Done || !strings.Contains(out, "rules of profile static/") || !strings.Contains(out, "The raw device was read") {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			d.free(t)
			if left := d.left(t); len(left) > 0 {
				t.Errorf("still on the disk: %v\n%s", left, out)
			}
			for _, check := range [][]string{{"e2fsck", "-n", "-f", d.part("16")}, {"fsck." + d.esp, "-n", d.part("15")}, {"fsck." + kind, "-n", d.part("1")}} {
				command(t, check[0], check[1:]...)
			}
			if kind == "xfs" {
				command(t, "xfs_repair", "-n", d.part("1"))
			}
			d.mounted(t, func(root string) {
				inside, err := os.ReadFile(filepath.Join(root, generalize.ManifestPath))
				outside, _ := os.ReadFile(manifest)
				if err != nil || !bytes.Equal(inside, outside) {
					t.Errorf("the manifests differ (%v)", err)
				}
				for _, gone := range []string{"/" + quiesce.NonceDir, "/boot/efi/loader/random-seed", "/boot/loader/random-seed", "/etc/ssh/ssh_host_rsa_key"} {
					if _, err := os.Lstat(filepath.Join(root, gone)); err == nil {
						t.Errorf("%s is still there", gone)
					}
				}
				for _, stays := range []string{"/etc/fstab", "/boot/config"} {
					if _, err := os.Lstat(filepath.Join(root, stays)); err != nil {
						t.Error(err)
					}
				}
			})
			if got := d.uuid(t, "2"); got == "" {
				t.Error("the swap space has lost its header")
			}
		})
	}
}

// TestCopyOfAMountedDisk: the image was copied while its file systems were mounted, so the journals must be replayed.
func TestCopyOfAMountedDisk(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kinds := []string{"xfs", "ext4"}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			snapshot := filepath.Join(t.TempDir(), "copy.raw")
			d.mounted(t, func(root string) {
				put(t, root, quiesce.NonceDir+"/order-2", []byte(d.nonce))
				f, err := os.Open(root)
				must(t, err)
				must(t, errors.Join(unix.Syncfs(int(f.Fd())), f.Close()))
				command(t, "cp", "--sparse=always", d.image, snapshot)
			})
			c := *d
			c.image, c.device = snapshot, attach(t, snapshot)
			args := []string{
				"generalize",
				"--device",
				c.device,
				"--machine-id",
				donorID,
				"--nonce-name",
				"order-2",
				"--profile",
				"static",
				"-o",
				"json",
				"--root-uuid",
				d.uuid(t, "1"),
			}
			if out, code := program(t, append(args, "--nonce", strings.Repeat("00", 32))...); code != exit.Failed ||
				!strings.Contains(out, "does not hold the donor's last flush, so it is discarded") {
				t.Errorf("another nonce: exit code %d\n%s", code, out)
			}
			var printed, log bytes.Buffer
			e := Environment{Out: &printed, Err: &log, Now: nil, Getenv: func(string) string { return "" }, Devices: offline.Linux{}}
			if code := e.Run(t.Context(), append(args, "--nonce", d.nonce)); code != exit.Done {
				t.Fatalf("exit code %d\n%s", code, log.String())
			}
			var result offline.Result
			if err := json.Unmarshal(printed.Bytes(), &result); err != nil || result.Manifest.Met != result.Manifest.Rules || result.Raw.Count != 0 ||
				!strings.Contains(result.Root, d.uuid(t, "1")) {
				t.Errorf("%+v, %v", result, err)
			}
			c.free(t)
			if left := c.left(t); len(left) > 0 {
				t.Errorf("still on the disk: %v\n%s", left, log.String())
			}
		})
	}
}

// TestRefusedDevices: whatever is refused leaves every byte of the disk as it was.
func TestRefusedDevices(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := newDisk(t, "ext4", t.TempDir())
	write := func(number string, offset int64, magic string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			f, err := os.OpenFile(d.part(number), os.O_RDWR, 0)
			must(t, err)
			before := make([]byte, len(magic))
			_, err = f.ReadAt(before, offset)
			must(t, err)
			_, err = f.WriteAt([]byte(magic), offset)
			must(t, err)
			must(t, f.Sync())
			t.Cleanup(func() {
				_, err := f.WriteAt(before, offset)
				must(t, errors.Join(err, f.Sync(), f.Close()))
			})
		}
	}
	uuid := d.uuid(t, "1")
	for _, c := range []struct {
		is      string
		prepare func(t *testing.T)
		args    []string
		code    int
		says    string
	}{
		{"LVM", write("14", 512, "LABELONE\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00LVM2 001"), nil, exit.Refused,
			"partition 14 holds a physical volume of LVM"},
		{"LUKS", write("14", 0, "LUKS\xba\xbe\x00\x01"), nil, exit.Refused, "partition 14 holds an encrypted volume"},
		{"md", write("1", 0, "\xfc\x4e\x2b\xa9"), nil, exit.Refused, "partition 1 holds a member of a software RAID"},
		{"btrfs", write("14", 64<<10+64, "_BHRfS_M"), nil, exit.Refused, "partition 14 holds a btrfs file system"},
		{"a wrong UUID", nil, []string{"--root-uuid", "6a7b1c1e-0c1d-4c5e-9d4e-2f6c1b3a5d7f"}, exit.Refused,
			"no file system of the device has the UUID"},
		{"a wrong serial number", nil, []string{"--serial", "vol-1"}, exit.Refused, "shows no serial number, and the copy is vol-1"},
		{"a missing program", nil, []string{"--machine-root", t.TempDir()}, exit.Refused, "this machine has no e2fsck"},
		{"a partition", nil, []string{"--device", d.part("1")}, exit.Refused, "is a partition"},
		{"no device", nil, []string{"--device", d.image}, exit.Refused, "is not a block device"},
		{"a nonce without a name", nil, []string{"--nonce", d.nonce}, exit.Usage, "--nonce-name"},
		{"a dry run", nil, []string{"--dry-run"}, exit.Usage, "replays the journal"},
		{"a root", nil, []string{"--root", "/"}, exit.Usage, "--device excludes --root"},
		{"an unknown profile", nil, []string{"--profile", "other"}, exit.Usage, "unknown profile"},
	} {
		t.Run(c.is, func(t *testing.T) {
			if c.prepare != nil {
				c.prepare(t)
			}
			before := d.sum(t)
			args := append([]string{"generalize", "--device", d.device, "--root-uuid", uuid, "--profile", "static"}, c.args...)
			if out, code := program(t, args...); code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, want %d and %q\n%s", code, c.code, c.says, out)
			}
			if d.sum(t) != before {
				t.Error("the disk has changed")
			}
			d.free(t)
		})
	}
}

// TestDiscardedCopies: a copy of another machine, or with file systems that lead elsewhere, is of no use, and nothing else changes.
func TestDiscardedCopies(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := newDisk(t, "ext4", t.TempDir())
	outside := t.TempDir()
	for _, c := range []struct {
		is      string
		prepare func(root string)
		args    []string
		says    string
	}{
		{"another machine", nil, []string{"--machine-id", strings.Repeat("f", 32)}, "the copy has the machine ID \"" + donorID},
		{"no nonce", nil, []string{"--nonce-name", "order-9", "--nonce", d.nonce}, "so it is discarded"},
		{"a package half installed", func(root string) {
			put(t, root, "var/lib/dpkg/status", []byte("Package: a\nStatus: install ok half-installed\nVersion: 1\n\n"))
		}, nil, "the package a is half-installed"},
		{"a mount point behind a link", func(root string) {
			must(t, os.RemoveAll(filepath.Join(root, "var/lib/dpkg")))
			must(t, os.Symlink(outside, filepath.Join(root, "srv")))
			fstab, err := os.ReadFile(filepath.Join(root, "etc/fstab"))
			must(t, err)
			put(t, root, "etc/fstab", bytes.Replace(fstab, []byte(" /boot ext4"), []byte(" /srv ext4"), 1))
		}, nil, "is not a directory, or is behind a link"},
		{"an unnamed file system", func(root string) { put(t, root, "etc/fstab", nil) }, nil,
			"holds a file system (ext4) that /etc/fstab of the copy does not mount"},
	} {
		t.Run(c.is, func(t *testing.T) {
			if c.prepare != nil {
				d.mounted(t, c.prepare)
			}
			args := append([]string{"generalize", "--device", d.device, "--root-uuid", d.uuid(t, "1"), "--profile", "static"}, c.args...)
			if out, code := program(t, args...); code != exit.Failed || !strings.Contains(out, "the copy is discarded") ||
				!strings.Contains(out, c.says) {
				t.Errorf("exit code %d, want %q\n%s", code, c.says, out)
			}
			d.free(t)
			d.mounted(t, func(root string) {
				if id, _ := os.ReadFile(filepath.Join(root, "etc/machine-id")); string(id) != donorID+"\n" {
					t.Error("the rules ran")
				}
			})
		})
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("something was made outside: %v", entries)
	}
}
