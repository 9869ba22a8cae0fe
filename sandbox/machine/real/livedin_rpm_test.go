//go:build machines

package real

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// rpmID is the machine ID of the donor of an RPM system.
const rpmID = "5b1d0e6f2a9c4b7d8e3f1a6c0d9b2e47"

// rpmLayout is a node on an RPM system: files at the real paths in the real forms, which testdata has, and what is right for each of
// them. In paths and contents, names between @ are values.
type rpmLayout struct {
	profile, release string
	// initramfs is an option of dracut.
	initramfs string
	// refused are the rules that refuse the node as it is, and found the texts that its findings name after that. Scripts in the root
	// directory are the remedies of both, and rules are the owner's own.
	refused, found         []string
	remedy, rebuild, rules string
	// gone are files that no clone may have. All others stay as they are, but those of edited.
	gone, edited []string
}

// TestLivedInRPM requires of nodes on an RPM system what is right for each file: refused with a remedy, removed, or unchanged. The
// package manager itself says which files of packages differ.
func TestLivedInRPM(t *testing.T) {
	bin := agentProgram(t)
	if testing.Short() {
		t.Skip("needs a system of 700 megabytes")
	}
	requireTools(t, programs)
	requireSpace(t, t.TempDir())
	for name, layout := range rpmLayouts {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			root := rpmRoot(t)
			version := layout.install(t, root, name+".txtar")
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, rules, layout.rules, 0o644)
			args := []string{"--root", root, "--profile", layout.profile, "--profile-file", rules}
			for _, script := range []string{layout.remedy, layout.rebuild} {
				if script == "" {
					continue
				}
				code, output := kaminoOn(t, bin, append([]string{"inspect"}, args[:4]...)...)
				if code != 3 {
					t.Errorf("the look at the node as it is ends with %d: %s", code, output)
				}
				layout.testRefused(t, version, string(output), script == layout.rebuild)
				inRoot(t, root, func() { build(t, "set -eu\nversion="+version+"\n"+script, "chroot", root, "sh", "-s") })
			}
			if code, output := kaminoOn(t, bin, append([]string{"inspect"}, args...)...); code != 0 {
				t.Fatalf("the look ends with %d: %s", code, output)
			}
			before, changed := files(t, root), rpmVerify(t, root)
			if code, output := kaminoOn(t, bin, append([]string{"generalize"}, args...)...); code != 0 {
				t.Fatalf("the run ends with %d: %s", code, output)
			}
			if code, output := kaminoOn(t, bin, "verify", root, "--profile", layout.profile, "--profile-file", rules); code != 0 {
				t.Errorf("verify after the run ends with %d: %s", code, output)
			}
			if diff := cmp.Diff(changed, rpmVerify(t, root)); diff != "" {
				t.Errorf("files of packages differ (-before +after):\n%s", diff)
			}
			layout.testFates(t, version, before, files(t, root))
			t.Logf("%d files, %d of packages that differ; %.0f s", len(before), len(changed), time.Since(begun).Seconds())
		})
	}
}

// install writes the files of a layout, its initramfs, and the entry of its boot menu as Red Hat's kernel-install does.
func (l rpmLayout) install(t *testing.T, root, archive string) (version string) {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(root, "usr/lib/modules/*"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("the versions of the kernel: %q, %v", modules, err)
	}
	version = filepath.Base(modules[0])
	values := strings.NewReplacer("@MACHINEID@", rpmID, "@HOSTNAME@", donorName, "@MISSING@", missing, "@KEY@", privateKey(t), "@HEX64@", hexDigits(64), "@HEX32@", hexDigits(32),
		"@PASSWORD@", strings.ToLower(rand.Text()), "@TOKEN@", "K10"+hexDigits(64)+"::server:"+hexDigits(32))
	for _, file := range txtar.Parse([]byte(values.Replace(livedInScript(t, archive)))).Files {
		at, content := filepath.Join(root, file.Name), string(file.Data)
		target, isLink := strings.CutPrefix(strings.TrimSpace(content), "-> ")
		if !isLink {
			write(t, at, content, 0o644)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "etc/os-release"), l.release, 0o644)
	inRoot(t, root, func() {
		build(t, fmt.Sprintf("set -eu\nexport TMPDIR=/tmp\ndracut --quiet --force %s /boot/initramfs-%s.img %s\n", l.initramfs, version, version)+`
mkdir -p /boot/grub2 /boot/loader/entries
grub-editenv /boot/grub2/grubenv create
grub-editenv /boot/grub2/grubenv set "saved_entry=$(cat /etc/machine-id)-`+version+`"
`, "chroot", root, "sh", "-s")
	})
	write(t, filepath.Join(root, "boot/grub2/grub.cfg"), "set timeout=0\nload_env\nset default=\"${saved_entry}\"\ninsmod blscfg\nblscfg\n", 0o644)
	write(t, filepath.Join(root, "boot/loader/entries", rpmID+"-"+version+".conf"), filled(`title Linux (@VERSION@)
version @VERSION@
linux /boot/vmlinuz-@VERSION@
initrd /boot/initramfs-@VERSION@.img $tuned_initrd
options root=UUID=0f1e2d3c-1b2a-4111-8111-1a2b3c4d5e6f ro console=ttyS0,115200n8
grub_users $grub_users
grub_arg --unrestricted
grub_class kernel
`, version), 0o644)
	return version
}

func filled(text, version string) string {
	return strings.NewReplacer("@VERSION@", version, "@MACHINEID@", rpmID).Replace(text)
}

var refusingRule = regexp.MustCompile(`\brule ([a-z0-9-]+): `)

// testRefused requires the refusals of a layout, and no others: by rules first, and by findings after their remedies.
func (l rpmLayout) testRefused(t *testing.T, version, output string, byFindings bool) {
	t.Helper()
	if byFindings {
		for _, text := range l.found {
			if !strings.Contains(output, filled(text, version)) {
				t.Errorf("the look does not name %s: %s", text, output)
			}
		}
		return
	}
	var rules []string
	for _, m := range refusingRule.FindAllStringSubmatch(output, -1) {
		rules = append(rules, m[1])
	}
	slices.Sort(rules)
	if diff := cmp.Diff(l.refused, slices.Compact(rules)); diff != "" {
		t.Errorf("rules that refuse (-want +got):\n%s\n%s", diff, output)
	}
}

// testFates compares the files before and after the run.
func (l rpmLayout) testFates(t *testing.T, version string, before, after map[string]string) {
	t.Helper()
	is := func(patterns []string, path string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			matches, err := filepath.Match(filled(pattern, version), path)
			return err == nil && matches
		})
	}
	gone, edited := slices.Concat(l.gone, rpmGone), slices.Concat(l.edited, rpmEdited)
	for path, sum := range before {
		now, stays := after[path]
		switch {
		case is(gone, path) && stays:
			t.Errorf("/%s stays", path)
		case is(gone, path):
		case !stays && !strings.HasPrefix(path, "var/log/") && !strings.HasPrefix(path, "tmp/"):
			t.Errorf("/%s is removed", path)
		case stays && now != sum && !is(edited, path):
			t.Errorf("/%s is changed", path)
		}
	}
	for _, pattern := range slices.Concat(l.gone, edited) {
		found := false
		for path := range before {
			found = found || is([]string{pattern}, path)
		}
		if !found {
			t.Errorf("no file was at /%s", pattern)
		}
	}
	entry := "boot/loader/entries/" + strings.Repeat("0", 32) + "-" + version + ".conf"
	if after[entry] == "" {
		t.Errorf("/%s is missing", entry)
	}
}

// rpmRoot unpacks an RPM system: programs of Debian as packages of rpm, in a real database. It is made once a month.
func rpmRoot(t *testing.T) string {
	t.Helper()
	tarball := cached(t, "rpm", serverPackages+rpmSpec+strings.Join(ofDebian, ","), func(tarball string) { buildRPM(t, tarball) })
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", tarball, "-C", root)
	return root
}

// rpmVerify returns the files of packages that differ from the database, with what differs.
func rpmVerify(t *testing.T, root string) (differ []string) {
	t.Helper()
	verify := exec.CommandContext(t.Context(), "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--verify", "--all", "--nodeps", "--noscripts", "--nomtime")
	var problems bytes.Buffer
	verify.Stderr = &problems
	output, _ := verify.Output() // It fails if a file differs.
	if problems.Len() > 0 {
		t.Fatalf("rpm --verify: %s", problems.String())
	}
	for line := range strings.Lines(string(output)) {
		differ = append(differ, strings.TrimSpace(line))
	}
	slices.Sort(differ)
	return differ
}

// rpmSpec is the head of the specification of all packages.
const rpmSpec = `Name: system
Version: 1.0
Release: 1
Summary: test
License: MIT
AutoReqProv: no
%global __os_install_post %{nil}
%global _build_id_links none
%global _unpackaged_files_terminate_build 0
%global _binary_payload w0.ufdio
%description
test
%install
cp -al ROOT/. %{buildroot}
`

// ofDebian is what no RPM system has.
var ofDebian = []string{
	"var/lib/dpkg", "var/lib/apt", "var/cache/apt", "var/cache/debconf", "etc/apt", "etc/debian_version", "etc/initramfs-tools", "var/lib/initramfs-tools", "boot/grub", "etc/grub.d",
	"etc/kernel/postinst.d",
}

func buildRPM(t *testing.T, tarball string) {
	t.Helper()
	requireTools(t, dnfPrograms)
	root := filepath.Join(t.TempDir(), "root")
	freshSystem(t, root, serverPackages)
	d := newDNF(t)
	run(t, "cp", "-a", filepath.Join(d.root, "etc/yum.repos.d"), filepath.Join(root, "etc"))
	d.root = root
	text, packages := strings.ReplaceAll(rpmSpec, "ROOT", root), 0
	for name, list := range packagesOf(t, root) {
		text += fmt.Sprintf("%%package -n %[1]s\nSummary: test\nAutoReqProv: no\n%%description -n %[1]s\ntest\n%%files -n %[1]s\n%[2]s\n", name, strings.Join(list, "\n"))
		packages++
	}
	at := filepath.Join(d.dir, "build/system.spec")
	write(t, at, text, 0o644)
	rpms := filepath.Join(d.dir, "rpms")
	build(t, "", "rpmbuild", "--quiet", "-bb", "--target", "x86_64", "--define", "_topdir "+filepath.Join(d.dir, "build"), "--define", "_rpmdir "+rpms, at)
	// The files are there already.
	install := d.exec(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "/usr/bin/rpm", "--install", "--justdb", "--nodeps", "--noscripts", "--ignorearch", "--ignoreos")
	found, err := filepath.Glob(filepath.Join(rpms, "x86_64/*.rpm"))
	if err != nil || len(found) != packages {
		t.Fatalf("%d packages of %d: %v", len(found), packages, err)
	}
	install.Args = append(install.Args, found...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("rpm: %v\n%s", err, out)
	}
	// Patches of two releases give the system a history, logs and a cache of dnf.
	cache := "--setopt=cachedir=" + filepath.Join(root, "var/cache/dnf")
	for _, release := range []string{"2023.1.1", "2023.2.2"} {
		d.add(t, release, "site-agent", release, "", "")
		d.publish(t, release, "", "")
		dnf := d.exec(t.Context(), []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, "dnf", "-y", "--releasever="+release, cache, "--setopt=logdir=/var/log", "install", "site-agent")
		if out, err := dnf.CombinedOutput(); err != nil {
			t.Fatalf("dnf: %v\n%s", err, out)
		}
	}
	for _, debian := range ofDebian {
		if err := os.RemoveAll(filepath.Join(root, debian)); err != nil {
			t.Fatal(err)
		}
	}
	images, err := filepath.Glob(filepath.Join(root, "boot/initrd.img-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		if err := os.Remove(image); err != nil {
			t.Fatal(err)
		}
	}
	build(t, "", "tar", "-cf", tarball, "-C", root, ".")
}

// packagesOf returns the files of Debian's packages as lines of a specification.
func packagesOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(root, "var/lib/dpkg/info/*.list"))
	if err != nil || len(lists) < 100 {
		t.Fatalf("%d packages: %v", len(lists), err)
	}
	all := map[string][]string{}
	for _, list := range lists {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(list), ".list"), ":")
		content, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.FieldsSeq(string(content)) {
			// The signs have a meaning in a specification.
			if path == "/." || strings.ContainsAny(path, "[]{}*?\"'%\\$") {
				continue
			}
			// Directories that are links to those below /usr.
			if top, _, _ := strings.Cut(path[1:], "/"); slices.Contains([]string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}, top) {
				path = "/usr" + path
			}
			info, err := os.Lstat(filepath.Join(root, path))
			switch {
			case err != nil:
				continue // removed by a trigger, or diverted
			case info.IsDir():
				path = "%dir " + path
			case info.Mode()&fs.ModeSymlink == 0 && !info.Mode().IsRegular():
				continue
			}
			if !slices.Contains(all[name], path) {
				all[name] = append(all[name], path)
			}
		}
	}
	return all
}
