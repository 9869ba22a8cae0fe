package apt

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/patch"
)

func TestTrouble(t *testing.T) {
	for name, test := range map[string]struct {
		step   Step
		output string
		reason patch.Reason
		says   string
	}{
		"dead mirror": {
			StepUpdate, "Err:1 http://m stable InRelease\n  Connection refused\nE: Failed to fetch http://m/dists/stable/InRelease  Could not connect\nE: Some index files failed to download.\n",
			patch.RepositoryNotRead, "apt cannot read the repositories (exit code 100): Failed to fetch http://m/dists/stable/InRelease  Could not connect; Some index files failed to download.",
		},
		"truncated index": {
			StepUpdate, "E: Failed to fetch http://m/dists/stable/main/binary-all/Packages  File has unexpected size (3 != 816). Mirror sync in progress?\n",
			patch.RepositoryNotRead, "File has unexpected size",
		},
		"expired": {
			StepUpdate, "E: Release file for http://m/dists/stable/InRelease is expired (invalid since 3d 4h). Updates for this repository will not be applied.\n",
			patch.RepositoryExpired, "is expired (invalid since 3d 4h)",
		},
		"not signed":      {StepUpdate, "E: The repository 'http://m stable Release' is not signed.\n", patch.RepositoryNotTrusted, "is not signed"},
		"unknown key":     {StepUpdate, "W: GPG error: http://m stable InRelease: NO_PUBKEY 01\nE: The repository is not signed.\n", patch.RepositoryNotTrusted, "NO_PUBKEY"},
		"bad signature":   {StepUpdate, "W: GPG error: http://m stable InRelease: The following signatures were invalid: BADSIG 01 key\n", patch.RepositoryNotTrusted, "BADSIG"},
		"lock of lists":   {StepUpdate, "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 12 (apt-get)\n", patch.Locked, "held by process 12"},
		"frontend lock":   {StepInstall, "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n", patch.Locked, "frontend lock"},
		"interrupted":     {StepSimulate, "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n", patch.Interrupted, "dpkg was interrupted"},
		"no security":     {StepSimulate, "E: The value '/-security$/' is invalid for APT::Default-Release as such a release is not available in the sources\n", patch.RepositoryNotRead, "APT::Default-Release"},
		"unmet":           {StepSimulate, "The following packages have unmet dependencies:\n a : Depends: b\nE: Unmet dependencies. Try 'apt --fix-broken install'\n", patch.Unresolved, "unmet dependencies"},
		"cache is full":   {StepInstall, "E: You don't have enough free space in /var/cache/apt/archives/.\n", patch.NoSpace, "enough free space"},
		"disk is full":    {StepInstall, "dpkg: error processing archive a.deb (--unpack):\n cannot copy extracted data: failed to write (No space left on device)\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n", patch.NoSpace, "No space left on device"},
		"wrong checksum":  {StepInstall, "E: Failed to fetch http://m/a.deb  Hash Sum mismatch\nE: Unable to fetch some archives, maybe run apt-get update?\n", patch.DownloadFailed, "Hash Sum mismatch"},
		"script":          {StepInstall, "dpkg: error processing package tool (--configure):\n installed tool package post-installation script subprocess returned error exit status 1\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n", patch.InstallFailed, "dpkg: error processing package tool (--configure): installed tool package post-installation script subprocess returned error exit status 1; Sub-process"},
		"hold":            {StepInstall, "E: Held packages were changed and -y was used without --allow-change-held-packages.\n", patch.HeldPackage, "Held packages"},
		"removal":         {StepInstall, "E: Packages need to be removed but remove is disabled.\n", patch.WouldRemove, "remove is disabled"},
		"repair":          {StepRepair, "dpkg: error processing package tool (--configure):\n", patch.Interrupted, "repair the interrupted package manager"},
		"no message":      {StepInstall, "", patch.InstallFailed, "apt cannot install the patches (exit code 100): no message"},
		"harmless output": {StepKernels, "Reading package lists...\nNO_PUBKEY in a package's text\n", patch.InstallFailed, "no message"},
	} {
		got := Trouble(test.step, test.output, 100)
		if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: %+v, want %s: %q", name, got, test.reason, test.says)
		}
	}
}

func TestAMessageHasFewLines(t *testing.T) {
	got := Trouble(StepInstall, strings.Repeat("E: broken\n", 100), 1)
	if n := strings.Count(got.Message, "broken"); n != maxComplaints {
		t.Errorf("%d lines", n)
	}
}
