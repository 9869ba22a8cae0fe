package apt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

const targetsOutput = `http://deb.debian.org/debian/|bookworm|main/binary-amd64/Packages|/var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages
http://deb.debian.org/debian/|bookworm|main/binary-all/Packages|/var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_main_binary-all_Packages
https://user:secret@apt.example.com/|stable|my_part/binary-amd64/Packages|/var/lib/apt/lists/apt.example.com_dists_stable_my%5fpart_binary-amd64_Packages
file:/mnt/repo/|./|Packages|/var/lib/apt/lists/_mnt_repo_._Packages
http://deb.debian.org/debian/|bookworm/updates|main/binary-amd64/Packages|/var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_updates_main_binary-amd64_Packages
N: a notice
`

func TestParseTargets(t *testing.T) {
	want := []Target{
		{URI: "http://deb.debian.org/debian", Suite: "bookworm", Files: []string{
			"var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_InRelease", "var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_Release"}},
		{URI: "https://apt.example.com", Suite: "stable", Files: []string{
			"var/lib/apt/lists/apt.example.com_dists_stable_InRelease", "var/lib/apt/lists/apt.example.com_dists_stable_Release"}},
		{URI: "file:/mnt/repo", Suite: "./", Files: []string{"var/lib/apt/lists/_mnt_repo_._InRelease", "var/lib/apt/lists/_mnt_repo_._Release"}},
		{URI: "http://deb.debian.org/debian", Suite: "bookworm/updates", Files: []string{
			"var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_updates_InRelease", "var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_updates_Release"}},
	}
	if diff := cmp.Diff(want, ParseTargets(targetsOutput)); diff != "" {
		t.Error(diff)
	}
}

func TestParseRelease(t *testing.T) {
	got := ParseRelease(`-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Origin: Debian
Label: Debian-Security
Suite: oldstable-security
Version: 12
Codename: bookworm-security
Date: Fri, 20 Nov 2026 09:44:06 UTC
Valid-Until: Fri, 27 Nov 2026 09:44:06 UTC
SHA256:
 0123 4 main/Date: x
Label: not this
`)
	want := Release{
		Label: "Debian-Security", Suite: "oldstable-security", Version: "12", Codename: "bookworm-security",
		Date: time.Date(2026, 11, 20, 9, 44, 6, 0, time.UTC), ValidUntil: time.Date(2026, 11, 27, 9, 44, 6, 0, time.UTC),
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for text, want := range map[string]time.Time{
		"Date: Fri, 20 Nov 2026 09:44:06 +0000": want.Date, "Date: Fri,  6 Nov 2026 09:44:06 UTC": time.Date(2026, 11, 6, 9, 44, 6, 0, time.UTC),
		"Date: yesterday": {}, "": {},
	} {
		if got := ParseRelease(text).Date; !got.Equal(want) {
			t.Errorf("%q has the date %v", text, got)
		}
	}
}

func TestOrigin(t *testing.T) {
	for _, test := range []struct {
		release Release
		want    string
	}{
		{Release{Label: "Debian", Suite: "oldstable", Version: "12.12", Codename: "bookworm"}, "Debian:12.12/oldstable"},
		{Release{Label: "kamino-test", Suite: "stable"}, "kamino-test:stable"},
		{Release{Label: "x", Codename: "sid"}, "x:sid"},
		{Release{Suite: "stable"}, "stable"},
	} {
		if got := test.release.Origin(); got != test.want {
			t.Errorf("%+v is %q, want %q", test.release, got, test.want)
		}
	}
}

func TestExpired(t *testing.T) {
	for name, test := range map[string]struct {
		until   time.Time
		expired bool
	}{
		"no date": {}, "valid": {until: now.Add(time.Second)}, "just over": {until: now, expired: true}, "over": {until: now.Add(-72 * time.Hour), expired: true},
	} {
		r := patch.Repository{ID: "http://x stable", Read: true}
		f := Expired(&r, Release{ValidUntil: test.until}, now)
		if (f != nil) != test.expired || r.Read == test.expired {
			t.Errorf("%s: %+v %+v", name, f, r)
		}
		if f != nil && (f.Reason != patch.RepositoryExpired || !strings.HasPrefix(f.Message, "repository http://x stable is stale: its index was valid until 2026-11-")) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestRepositories(t *testing.T) {
	main := Target{URI: "http://127.0.0.1:8080/debian", Suite: "bookworm"}
	security := Target{URI: "http://127.0.0.1:8080/debian", Suite: "bookworm-security"}
	nested := Target{URI: "http://127.0.0.1:8080/debian", Suite: "bookworm/updates"}
	flat := Target{URI: "file:/mnt/repo", Suite: "./"}
	for name, test := range map[string]struct {
		targets []Target
		output  string
		// problems by the index of the target; absent for a read repository.
		problems map[int]string
	}{
		"read": {targets: []Target{main, security, flat}, output: `Hit:1 http://127.0.0.1:8080/debian bookworm InRelease
Get:2 http://127.0.0.1:8080/debian bookworm-security InRelease [1,234 B]
Get:3 file:/mnt/repo ./ InRelease
Ign:3 file:/mnt/repo ./ InRelease
Get:4 file:/mnt/repo ./ Release [816 B]
Get:5 http://127.0.0.1:8080/debian bookworm-security/main amd64 Packages [2 B]
Reading package lists...
`},
		"refused": {targets: []Target{main, security}, output: `Hit:1 http://127.0.0.1:8080/debian bookworm-security InRelease
Ign:2 http://127.0.0.1:8080/debian bookworm InRelease
Err:2 http://127.0.0.1:8080/debian bookworm InRelease
  Could not connect to 127.0.0.1:8080 (127.0.0.1). - connect (111: Connection refused)
Reading package lists...
E: Failed to fetch http://127.0.0.1:8080/debian/dists/bookworm/InRelease  Could not connect
`, problems: map[int]string{0: "Could not connect to 127.0.0.1:8080 (127.0.0.1). - connect (111: Connection refused)"}},
		"an index is missing": {targets: []Target{main}, output: `Get:1 http://127.0.0.1:8080/debian bookworm InRelease [1 B]
Err:2 http://127.0.0.1:8080/debian bookworm/main amd64 Packages
  404  Not Found [IP: 127.0.0.1 8080]
`, problems: map[int]string{0: "404  Not Found [IP: 127.0.0.1 8080]"}},
		"no message": {targets: []Target{main}, output: "Err:1 http://127.0.0.1:8080/debian bookworm InRelease\n", problems: map[int]string{0: unread}},
		"silence":    {targets: []Target{main}, output: "Reading package lists...\n", problems: map[int]string{0: "apt-get update does not mention the repository"}},
		// apt 2.6 keeps the old index, and exits 0 without Error-Mode=any.
		"wrong signature": {targets: []Target{main, security}, output: `Get:1 http://127.0.0.1:8080/debian bookworm InRelease [1 B]
Hit:2 http://127.0.0.1:8080/debian bookworm-security InRelease
W: An error occurred during the signature verification. The repository is not updated and the previous index files will be used. GPG error: http://127.0.0.1:8080/debian bookworm InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 0123
W: Some index files failed to download. They have been ignored, or old ones used instead.
`, problems: map[int]string{0: "An error occurred during the signature verification. The repository is not updated and the previous index files will be used. GPG error: http://127.0.0.1:8080/debian bookworm InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 0123"}},
		"a suite within a suite": {targets: []Target{main, nested}, output: `Hit:1 http://127.0.0.1:8080/debian bookworm InRelease
Err:2 http://127.0.0.1:8080/debian bookworm/updates InRelease
  404  Not Found
`, problems: map[int]string{1: "404  Not Found"}},
		"an old keyring is harmless": {targets: []Target{main}, output: `Hit:1 http://127.0.0.1:8080/debian bookworm InRelease
W: http://127.0.0.1:8080/debian/dists/bookworm/InRelease: Key is stored in legacy trusted.gpg keyring (/etc/apt/trusted.gpg), see the DEPRECATION section in apt-key(8) for details.
`},
		"another repository": {targets: []Target{main}, output: "Hit:1 http://127.0.0.1:8080/debian bookworm InRelease\nHit:2 http://elsewhere bookworm InRelease\nErr:3 http://elsewhere sid InRelease\n  404  Not Found\n"},
	} {
		got := Repositories(test.targets, test.output)
		if len(got) != len(test.targets) {
			t.Fatalf("%s: %d repositories", name, len(got))
		}
		for i, r := range got {
			if want := test.problems[i]; r.Problem != want || r.Read != (want == "") || r.ID != test.targets[i].ID() {
				t.Errorf("%s: %+v, want the problem %q", name, r, want)
			}
		}
	}
}

// A report is stored in the cluster: no password of a repository may be in it.
func TestNoCredentialsAreReported(t *testing.T) {
	targets := ParseTargets("https://user:secret@apt.example.com/|stable|main/binary-amd64/Packages|/x\n")
	output := "Err:1 https://user:secret@apt.example.com stable InRelease\n  401  Unauthorized https://user:secret@apt.example.com/dists\nE: Failed to fetch https://user:secret@apt.example.com/dists/stable/InRelease  401\n"
	repository := Repositories(targets, output)[0]
	failure := Trouble(StepUpdate, output, 100)
	for _, text := range []string{targets[0].ID(), repository.ID, repository.Problem, failure.Message} {
		if strings.Contains(text, "secret") || text == "" {
			t.Errorf("%q", text)
		}
	}
	if repository.Read {
		t.Error("the repository counts as read")
	}
}
