package dnf

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

// failedPost is dnf 4.14's history of a transaction whose %post failed. dnf exited 0.
const failedPost = `Transaction ID : 3
Begin time     : Fri Nov 27 03:10:01 2026
Begin rpmdb    : 1234
End time       : Fri Nov 27 03:10:02 2026 (1 seconds)
End rpmdb      : 5678
User           : root <root>
Return-Code    : Success
Releasever     : 2023
Command Line   : -y upgrade
Comment        :
Packages Altered:
    Upgrade  foo-2.0-1.noarch @updates
    Upgraded foo-1.0-1.noarch @@System
Scriptlet output:
   1 warning: %post(foo-2.0-1.noarch) scriptlet failed, exit status 1
   2
`

func TestParseHistory(t *testing.T) {
	for name, test := range map[string]struct {
		output      string
		want        History
		interrupted bool
	}{
		"failed script": {output: failedPost, want: History{ID: "3", ReturnCode: "Success", Failed: []string{"foo-2.0-1.noarch"}}},
		"fine":          {output: "Transaction ID : 12\nReturn-Code    : Success\n", want: History{ID: "12", ReturnCode: "Success"}},
		"failure":       {output: "Transaction ID : 4\nReturn-Code    : Failure: 1\n", want: History{ID: "4", ReturnCode: "Failure: 1"}},
		"aborted":       {output: "Transaction ID : 5\nReturn-Code    : ** Aborted **\n", want: History{ID: "5", ReturnCode: "** Aborted **"}, interrupted: true},
		"none":          {output: ""},
	} {
		got := ParseHistory(test.output)
		if diff := cmp.Diff(test.want, got); diff != "" || got.Interrupted() != test.interrupted {
			t.Errorf("%s: interrupted %t %s", name, got.Interrupted(), diff)
		}
	}
	if got := FailedScripts("error: lua script failed: [string \"%post(foo-5.0-1.noarch)\"]:1: no\n"); !slices.Equal(got, []string{"foo-5.0-1.noarch"}) {
		t.Errorf("%v", got)
	}
	if got := FailedScripts("  warning: %posttrans(bar-1-1.noarch) scriptlet failed, signal 9\nfine\n"); !slices.Equal(got, []string{"bar-1-1.noarch"}) {
		t.Errorf("%v", got)
	}
}

const repoInfo = `Repo-id            : amazonlinux
Repo-name          : Amazon Linux 2023 repository
Repo-revision      : 1764201601
Repo-updated       : Thu Nov 26 23:59:59 2026
Repo-pkgs          : 3
Repo-expire        : 172800 second(s) (last: Fri Nov 27 03:00:00 2026)

Repo-id            : extra
Repo-updated       : unknown
Total packages: 4
`

func TestRepositories(t *testing.T) {
	date := time.Date(2026, 11, 26, 23, 59, 59, 0, time.UTC)
	const failed = "Errors during downloading metadata for repository 'extra':\n  - Curl error (7): Couldn't connect to server for http://127.0.0.1:1/repodata/repomd.xml\nError: Failed to download metadata for repo 'extra': Cannot download repomd.xml\n"
	for name, test := range map[string]struct {
		info, output string
		read         bool
		want         []patch.Repository
	}{
		"read": {repoInfo, "", true, []patch.Repository{{ID: "amazonlinux", Read: true, Date: date}, {ID: "extra", Read: true}}},
		"dead": {repoInfo, failed, false, []patch.Repository{
			{ID: "amazonlinux", Date: date, Problem: "dnf stopped before it read the repository"}, {ID: "extra", Problem: "the metadata cannot be downloaded"}}},
		"dead and not cached": {"", failed, false, []patch.Repository{{ID: "extra", Problem: "the metadata cannot be downloaded"}}},
		"none":                {"", "", true, nil},
	} {
		if diff := cmp.Diff(test.want, Repositories(test.info, test.output, test.read)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestReboot(t *testing.T) {
	const required = "Core libraries or services have been updated since boot-up:\n  * glibc\n  * kernel\n\nReboot is required to fully utilize these updates.\nMore information: https://x\n"
	const fine = "No core libraries or services have been updated since boot-up.\nReboot should not be necessary.\n"
	kernels := []string{"vmlinuz-6.1.119-129.201.amzn2023.x86_64", "vmlinuz-6.1.90-99.173.amzn2023.x86_64"}
	const old, newest = "6.1.90-99.173.amzn2023.x86_64", "6.1.119-129.201.amzn2023.x86_64"
	for name, test := range map[string]struct {
		output, running string
		want            patch.RebootNeed
	}{
		"fine":     {fine, newest, patch.RebootNeed{Need: patch.NotNeeded}},
		"required": {required, newest, patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.NeedsRestarting}, Packages: []string{"glibc", "kernel"}}},
		"kernel":   {fine, old, patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.NewerKernel}}},
		"both": {required, old, patch.RebootNeed{
			Need: patch.Needed, Witnesses: []patch.Witness{patch.NeedsRestarting, patch.NewerKernel}, Packages: []string{"glibc", "kernel"}}},
		"no plugin":         {"No such command: needs-restarting.", newest, patch.RebootNeed{Need: patch.NeedUnknown}},
		"no plugin, kernel": {"No such command: needs-restarting.", old, patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.NewerKernel}}},
		"another machine":   {fine, "6.18.0", patch.RebootNeed{Need: patch.NotNeeded}},
	} {
		if diff := cmp.Diff(test.want, Reboot(test.output, kernels, test.running)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTrouble(t *testing.T) {
	for name, test := range map[string]struct {
		step   Step
		output string
		reason patch.Reason
		says   string
	}{
		"dead mirror": {
			StepUpdate, "Last metadata...\nErrors during downloading metadata for repository 'u':\n  - Curl error (7): Couldn't connect to server\nError: Failed to download metadata for repo 'u': Cannot download repomd.xml: All mirrors were tried\n",
			patch.RepositoryNotRead, "dnf cannot read the repositories (exit code 1): Errors during downloading metadata for repository 'u':; - Curl error (7)",
		},
		"bad signature": {StepUpdate, "Error: Failed to download metadata for repo 'u': repomd.xml GPG signature verification error: Bad GPG signature\n", patch.RepositoryNotTrusted, "Bad GPG signature"},
		"unsigned":      {StepInstall, "Package foo-2.0-1.noarch.rpm is not signed\nError: GPG check FAILED\n", patch.RepositoryNotTrusted, "Error: GPG check FAILED"},
		"locked":        {StepSimulate, "Error: Failed to obtain the transaction lock (logged in as: root).\n", patch.Locked, "transaction lock"},
		"space": {
			StepInstall, "Error: Transaction test error:\n  installing package foo needs 4MB more space on the / filesystem\n\nError Summary\n-------------\nDisk Requirements:\n   At least 4MB more space needed on the / filesystem.\n",
			patch.NoSpace, "needs 4MB more space on the / filesystem",
		},
		"download":   {StepInstall, "Error: Error downloading packages:\n  Cannot download foo-2.0-1.noarch.rpm: All mirrors were tried\n", patch.DownloadFailed, "Cannot download foo-2.0-1.noarch.rpm"},
		"unresolved": {StepSimulate, "Error: \n Problem: package foo-2.0-1.noarch requires bar, but none of the providers can be installed\n", patch.Unresolved, "requires bar"},
		"credential": {StepUpdate, "Error: Cannot download http://user:secret@m/repodata/repomd.xml\n", patch.RepositoryNotRead, "http://m/repodata"},
		"unknown":    {StepInstall, "something\n", patch.InstallFailed, "dnf cannot install the patches (exit code 1): no message"},
		"no release": {StepRelease, "", patch.RepositoryNotRead, "dnf cannot find the newest release"},
	} {
		got := Trouble(test.step, test.output, 1)
		if got.Reason != test.reason || !strings.Contains(got.Message, test.says) || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: %+v, want %s: %q", name, got, test.reason, test.says)
		}
	}
}
