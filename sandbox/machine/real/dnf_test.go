//go:build machines

package real

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	patchdisk "github.com/kamino-dev/kamino/internal/agent/patch/disk"
	"github.com/kamino-dev/kamino/internal/agent/patch/host"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// dnfRoot is a root directory of Amazon Linux 2023 for Debian's dnf: packages made by rpmbuild, repositories of two releases
// over HTTP. It has no systemd and no shell.
type dnfRoot struct {
	dir, root, url string
	node           host.Node
	units          *directUnits
	// notice is the output of check-release-update, which is a plugin of Amazon's.
	notice string
	dead   bool
}

// directUnits runs a unit's program at once.
type directUnits struct {
	root  *dnfRoot
	ended map[string]host.UnitState
}

func (u *directUnits) State(_ context.Context, name string) (host.UnitState, error) {
	return u.ended[name], nil
}

func (u *directUnits) Start(ctx context.Context, unit host.Unit) error {
	if u.ended[unit.Name].Known {
		return nil
	}
	cmd := u.root.exec(ctx, unit.Environment, unit.Program, unit.Args...)
	out, _ := cmd.CombinedOutput() // The state has the exit code.
	state := host.UnitState{Known: true, Ended: true, Code: cmd.ProcessState.ExitCode(), Result: "success"}
	if state.Code != 0 {
		state.Result = "exit-code"
	}
	u.ended[unit.Name] = state
	return os.WriteFile(filepath.Join(u.root.root, unit.Log), out, 0o600)
}

func (u *directUnits) Active(context.Context, []string) ([]string, error) { return nil, nil }
func (u *directUnits) Reboot(context.Context) error                       { return nil }

// exec runs the host's dnf and rpm on the root directory.
func (d *dnfRoot) exec(ctx context.Context, environment []string, program string, args ...string) *exec.Cmd {
	switch {
	case slices.Contains(args, "check-release-update"):
		program, args = "printf", []string{"%s", d.notice}
	case strings.HasSuffix(program, "/rpm"):
		args = append([]string{"--root", d.root}, args...)
	default:
		args = append([]string{
			"--installroot=" + d.root, "--setopt=reposdir=" + filepath.Join(d.root, "etc/yum.repos.d"),
			"--setopt=cachedir=" + filepath.Join(d.dir, "cache"), "--disableplugin=local",
		}, args...)
		if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--releasever=") }) {
			args = append(args, "--releasever=2023.1.1")
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(slices.Clone(environment), "HOME="+d.dir)
	return cmd
}

func newDNF(t *testing.T) *dnfRoot {
	t.Helper()
	requireTools(t, dnfPrograms)
	d := &dnfRoot{dir: t.TempDir()}
	d.root = filepath.Join(d.dir, "root")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(filepath.Join(d.dir, "repo")))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.dead {
			panic(http.ErrAbortHandler)
		}
		files.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	d.url = server.URL
	for path, content := range map[string]string{
		"etc/os-release":            "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n",
		"proc/sys/kernel/osrelease": "6.1.90-99.173.amzn2023.x86_64\n",
		// skip_if_unavailable is on in the repositories of Amazon Linux.
		"etc/yum.repos.d/amazonlinux.repo": "[amazonlinux]\nname=test\nbaseurl=" + d.url + "/$releasever\ngpgcheck=0\nskip_if_unavailable=1\nmetadata_expire=0\n",
	} {
		write(t, filepath.Join(d.root, path), content, 0o644)
	}
	// Debian's rpm keeps its database in the home directory, and Amazon Linux here.
	write(t, filepath.Join(d.dir, ".rpmmacros"), "%_dbpath /var/lib/rpm\n", 0o644)
	d.units = &directUnits{root: d, ended: map[string]host.UnitState{}}
	d.node = host.Node{Root: d.root, Now: time.Now, Exec: d.exec, Units: d.units, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	return d
}

// add builds a package into the repository of a release.
func (d *dnfRoot) add(t *testing.T, release, name, version, fields, post string) {
	t.Helper()
	spec := filepath.Join(d.dir, "build", name+".spec")
	text := fmt.Sprintf("Name: %s\nVersion: %s\nRelease: 1\nSummary: test\nLicense: MIT\nBuildArch: noarch\n%s\n%%description\ntest\n", name, version, fields)
	if post != "" {
		text += "%post -p <lua>\n" + post + "\n"
	}
	write(t, spec, text+"%files\n", 0o644)
	run(t, "rpmbuild", "--quiet", "-bb", "--define", "_topdir "+filepath.Join(d.dir, "build"), "--define", "_rpmdir "+filepath.Join(d.dir, "repo", release), spec)
}

// publish writes the metadata of a release. advisory names the package with a security advisory; empty for none.
func (d *dnfRoot) publish(t *testing.T, release, advisory, version string) {
	t.Helper()
	repo := filepath.Join(d.dir, "repo", release)
	run(t, "createrepo_c", "-q", repo)
	if advisory == "" {
		return
	}
	file := filepath.Join(d.dir, "updateinfo.xml")
	write(t, file, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<updates><update from="test" status="stable" type="security" version="1"><id>ALAS2023-2026-1</id><title>%[1]s</title><severity>Important</severity>
<issued date="2026-11-20 00:00:00"/><references><reference href="x" id="CVE-2026-12345" type="cve" title="CVE-2026-12345"/></references><description>d</description>
<pkglist><collection short="c"><name>c</name><package name="%[1]s" version="%[2]s" release="1" epoch="0" arch="noarch" src="%[1]s.src.rpm"><filename>%[1]s-%[2]s-1.noarch.rpm</filename></package></collection></pkglist>
</update></updates>`, advisory, version), 0o644)
	run(t, "modifyrepo_c", "--mdtype=updateinfo", file, filepath.Join(repo, "repodata"))
}

// order carries out an order.
func (d *dnfRoot) order(t *testing.T, method patch.Method, patches patch.Set) *patch.Report {
	t.Helper()
	var log bytes.Buffer
	n := d.node
	n.Log, n.UID = &log, fmt.Sprintf("order-%d", len(d.units.ended))
	r := n.Carry(t.Context(), patch.Order{Method: method, Patches: patches, Hold: patch.DefaultHold(), Drained: true})
	if level := d.level(t); level != r.After && r.After != "" {
		t.Errorf("the level of the disk is %s, and of the running system %s", level, r.After)
	}
	t.Logf("%s %s:\n%s%+v", method, patches, log.String(), r.Failure)
	return r
}

// level is the patch level by the files of the disk.
func (d *dnfRoot) level(t *testing.T) string {
	t.Helper()
	root, err := tree.Open(d.root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	level, err := patchdisk.Level(root)
	if err != nil || level == "" {
		t.Errorf("the level %q: %v", level, err)
	}
	return level
}

// TestDNF carries out orders with a real dnf: checked by the history and the list of packages, not by exit codes.
func TestDNF(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five minutes")
	}
	d := newDNF(t)
	for _, name := range []string{"base", "foo", "kubelet", "script"} {
		d.add(t, "2023.1.1", name, "1.0", "", "")
	}
	d.publish(t, "2023.1.1", "", "")
	install := d.exec(t.Context(), []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, "dnf", "-y", "install", "base", "foo", "kubelet", "script")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := d.order(t, patch.Check, patch.All)
	if !r.Complete() || len(r.Pending) > 0 || r.OS != "amzn 2023" || len(r.Repositories) != 1 || r.Repositories[0].Date.IsZero() || r.Reboot.Need != patch.NotNeeded {
		t.Fatalf("%+v", r)
	}
	t.Run("release", func(t *testing.T) {
		for _, name := range []string{"base", "foo", "kubelet", "script"} {
			d.add(t, "2023.2.2", name, "1.0", "", "")
		}
		d.add(t, "2023.2.2", "foo", "2.0", "Requires: later", "")
		d.add(t, "2023.2.2", "later", "1.0", "", "")
		d.add(t, "2023.2.2", "base", "2.0", "", "")
		d.add(t, "2023.2.2", "kubelet", "2.0", "", "")
		d.publish(t, "2023.2.2", "foo", "2.0")
		// Nothing is ever pending within the release of the image.
		if r := d.order(t, patch.Check, patch.All); len(r.Pending) > 0 {
			t.Errorf("pending are %v", names(r.Pending))
		}
		d.notice = "  dnf upgrade --releasever=2023.2.2\n"
		r := d.order(t, patch.Check, patch.Security)
		if !r.Complete() || !slices.Equal(names(r.Pending), []string{"foo", "later"}) || !slices.Equal(r.Pending[0].CVEs, []string{"CVE-2026-12345"}) || r.Bytes == 0 {
			t.Errorf("%+v", r)
		}
		r = d.order(t, patch.Patch, patch.Security)
		isComplete(t, r, "foo", "later")
		r = d.order(t, patch.Patch, patch.All)
		isComplete(t, r, "base")
		if !slices.Contains(r.Held, patch.Held{Name: "kubelet", To: "2.0-1", Source: patch.HeldByOrder}) {
			t.Errorf("held are %+v", r.Held)
		}
	})
	t.Run("dead repository", func(t *testing.T) {
		d.dead = true
		defer func() { d.dead = false }()
		r := d.order(t, patch.Check, patch.All)
		isFailure(t, r, patch.RepositoryNotRead, "dnf cannot read the repositories (exit code 1)", "repomd.xml")
		if len(r.Repositories) != 1 || r.Repositories[0].Read {
			t.Errorf("%+v", r.Repositories)
		}
	})
	t.Run("held dependency", func(t *testing.T) {
		d.add(t, "2023.2.2", "foo", "3.0", "Requires: kubelet >= 2.0", "")
		d.publish(t, "2023.2.2", "foo", "3.0")
		r := d.order(t, patch.Patch, patch.All)
		isFailure(t, r, patch.HeldPackage, "the patches need a change of the held packages kubelet; nothing was installed")
	})
	t.Run("held package is obsolete", func(t *testing.T) {
		d.add(t, "2023.2.2", "foo", "4.0", "Obsoletes: kubelet", "")
		d.publish(t, "2023.2.2", "foo", "4.0")
		isFailure(t, d.order(t, patch.Patch, patch.All), patch.HeldPackage, "the patches need a change of the held packages kubelet; nothing was installed")
	})
	t.Run("failed script", func(t *testing.T) {
		d.add(t, "2023.2.2", "foo", "5.0", "", `error("no")`)
		d.publish(t, "2023.2.2", "foo", "5.0")
		r := d.order(t, patch.Patch, patch.All)
		isFailure(t, r, patch.InstallFailed, "dnf exited 0, but scripts of these packages failed: foo-5.0-1.noarch")
		if !slices.Equal(r.Failed, []string{"foo-5.0-1.noarch"}) || !slices.Contains(names(r.Installed), "foo") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("second pod", func(t *testing.T) {
		d.add(t, "2023.2.2", "foo", "6.0", "", "")
		d.publish(t, "2023.2.2", "foo", "6.0")
		first := d.order(t, patch.Patch, patch.All)
		isComplete(t, first, "foo")
		n := d.node
		n.Log, n.UID = &bytes.Buffer{}, fmt.Sprintf("order-%d", len(d.units.ended)-1)
		again := n.Carry(t.Context(), patch.Order{Method: patch.Patch, Patches: patch.All, Hold: patch.DefaultHold(), Drained: true})
		isComplete(t, again, "foo")
		if again.Before != first.Before || again.After != first.After {
			t.Errorf("the second pod reports %+v, the first one %+v", again, first)
		}
	})
}
