package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var (
	levelA = Level([]Installed{{Name: "openssl", Version: "3.0.16", Arch: "amd64"}})
	levelB = Level([]Installed{{Name: "openssl", Version: "3.0.17", Arch: "amd64"}})
)

func done() *Report {
	return &Report{
		Method: Patch, Token: boot, Manager: APT, OS: "debian 12", Before: levelA, After: levelB, Health: Healthy,
		Installed: []Change{{Name: "openssl", From: "3.0.16", To: "3.0.17", Arch: "amd64", Security: true, CVEs: []string{"CVE-2026-1"}}},
		Repositories: []Repository{{ID: "http://deb.debian.org/debian-security bookworm-security", Read: true,
			Date: time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)}},
		Reboot: RebootNeed{Need: Needed, Witnesses: []Witness{RebootRequiredFile}, Packages: []string{"openssl"}}, Bytes: 3 << 20, Seconds: 41,
	}
}

func TestComplete(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *Report)
		want   bool
	}{
		"complete": {
			change: func(*Report) {},
			want:   true,
		},
		"reboot": {
			change: func(r *Report) { *r = Report{Method: Reboot, Token: boot} },
			want:   true,
		},
		"failure": {
			change: func(r *Report) { r.Failure = &Failure{Reason: Locked} },
			want:   false,
		},
		"unread repository": {
			change: func(r *Report) { r.Repositories[0].Read = false },
			want:   false,
		},
		"failed package": {
			change: func(r *Report) { r.Failed = []string{"openssl"} },
			want:   false,
		},
		"broken manager": {
			change: func(r *Report) { r.Health = Broken },
			want:   false,
		},
		"interrupted manager": {
			change: func(r *Report) { r.Health = HealthInterrupted },
			want:   false,
		},
		"no word about health": {
			change: func(r *Report) { r.Health = "" },
			want:   false,
		},
		"held packages": {
			change: func(r *Report) { r.Held = []Held{{Name: "kubelet", Source: HeldByOrder}} },
			want:   true,
		},
	} {
		r := done()
		test.change(r)
		if got := r.Complete(); got != test.want {
			t.Errorf("%s: complete %t, want %t", name, got, test.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		method Method
		change func(r *Report)
		want   string
	}{
		"patch": {
			method: Patch,
			change: func(*Report) {},
			want:   "",
		},
		"failure": {
			method: Patch,
			change: func(r *Report) { *r = Report{Method: Patch, Token: boot, Failure: &Failure{Reason: Locked}} },
			want:   "",
		},
		"check": {
			method: Check,
			change: func(r *Report) { r.Method, r.After = Check, r.Before },
			want:   "",
		},
		"reboot": {
			method: Reboot,
			change: func(r *Report) { *r = Report{Method: Reboot, Token: boot} },
			want:   "",
		},
		"another method": {
			method: Check,
			change: func(*Report) {},
			want:   "the report is of method Patch under boot " + boot + ": want Check",
		},
		"another boot": {
			method: Patch,
			change: func(r *Report) { r.Token = "b" },
			want:   "the report is of method Patch under boot b",
		},
		"unknown reason": {
			method: Patch,
			change: func(r *Report) { r.Failure = &Failure{Reason: "Bad"} },
			want:   `the reason "Bad" is unknown`,
		},
		"odd level": {
			method: Patch,
			change: func(r *Report) { r.After = "sha256:1" },
			want:   `the patch level "sha256:1" is not sha256:HEX`,
		},
		"no level": {
			method: Patch,
			change: func(r *Report) { r.After = "" },
			want:   "the report has no patch level",
		},
		"no level before": {
			method: Patch,
			change: func(r *Report) { r.Before = "" },
			want:   "the report has no patch level",
		},
		"no repository": {
			method: Patch,
			change: func(r *Report) { r.Repositories = nil },
			want:   "the report names no repository",
		},
		"no word of reboot": {
			method: Patch,
			change: func(r *Report) { r.Reboot.Need = "" },
			want:   `the need of a reboot "" is unknown`,
		},
		"check that patches": {
			method: Check,
			change: func(r *Report) { r.Method = Check },
			want:   "a check has changed the patch level",
		},
	} {
		r, o := done(), good()
		o.Method = test.method
		test.change(r)
		err := r.Answers(o)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestEncodeAndDecode(t *testing.T) {
	want := done()
	want.Pending = []Change{{Name: "a", To: "2", Security: true}, {Name: "b", To: "2"}}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	want.Counts = Counts{Pending: 2, Security: 1, Installed: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Decode(append(bytes.TrimSuffix(text, []byte("}")), `,"later":1}`...)); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
	for _, bad := range []string{"", "[]", "{", `{"seconds":"x"}`, strings.Repeat(" ", MaxReport+1)} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%.20q is decoded", bad)
		}
	}
}

// A release of a distribution may have more changes than fit. The levels and the counts still cover all.
func TestALongReportIsCut(t *testing.T) {
	r := done()
	r.Installed = nil
	for i := range 3000 {
		change := Change{Name: fmt.Sprintf("package-%d", i), From: "1.0", To: "2.0", Arch: "amd64", Origin: "Debian-Security:12/stable-security",
			Security: true, CVEs: []string{"CVE-2026-12345"}}
		r.Pending, r.Installed = append(r.Pending, change), append(r.Installed, change)
	}
	r.Failure = &Failure{Reason: InstallFailed, Message: strings.Repeat("é", MaxMessage)}
	text, err := r.Encode()
	if err != nil || len(text) > MaxReport || len(text) < MaxReport*3/4 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counts{Pending: 3000, Security: 3000, Installed: 3000}); got.Counts != want {
		t.Errorf("counts %+v, want %+v", got.Counts, want)
	}
	if got.Omitted != 6000-len(got.Pending)-len(got.Installed) || got.Omitted == 0 {
		t.Errorf("%d omitted, %d and %d kept", got.Omitted, len(got.Pending), len(got.Installed))
	}
	if len(got.Failure.Message) > MaxMessage || !strings.HasSuffix(got.Failure.Message, "é…") {
		t.Errorf("the message has %d bytes", len(got.Failure.Message))
	}
	if len(r.Installed) != 3000 || r.Installed[0].CVEs == nil || len(r.Failure.Message) != 2*MaxMessage {
		t.Error("Encode has changed the report itself")
	}
}

// CVEs go before packages do.
func TestCVEsAreCutFirst(t *testing.T) {
	r := done()
	for i := range 200 {
		r.Installed = append(r.Installed, Change{Name: fmt.Sprintf("p%d", i), To: "2", CVEs: strings.Fields(strings.Repeat("CVE-2026-12345 ", 50))})
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil || got.Omitted != 0 || len(got.Installed) != 201 || got.Installed[5].CVEs != nil {
		t.Errorf("%d omitted, %d installed, CVEs %v: %v", got.Omitted, len(got.Installed), got.Installed[5].CVEs, err)
	}
}

func TestAReportThatCannotBeCut(t *testing.T) {
	r := done()
	r.Kernel = strings.Repeat("k", MaxReport)
	if _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "without any package") {
		t.Errorf("%v", err)
	}
}

func TestLevel(t *testing.T) {
	a, b := Installed{Name: "a", Version: "1", Arch: "amd64"}, Installed{Name: "b", Version: "1", Arch: "all"}
	base := Level([]Installed{a, b})
	if Level([]Installed{b, a}) != base {
		t.Error("the order of the list changes the level")
	}
	newer, other, half := a, a, a
	newer.Version, other.Arch, half.State = "2", "arm64", "half-configured"
	seen := map[string]bool{base: true}
	for _, list := range [][]Installed{{newer, b}, {other, b}, {half, b}, {a}, {a, a, b}, nil} {
		l := Level(list)
		if seen[l] || !level.MatchString(l) {
			t.Errorf("%v has the level %s", list, l)
		}
		seen[l] = true
	}
	if levelA == levelB {
		t.Error("two versions have one level")
	}
}

func TestDigest(t *testing.T) {
	a, b := Change{Name: "a", To: "2", From: "1"}, Change{Name: "b", To: "2"}
	if Digest([]Change{a, b}) != Digest([]Change{b, {Name: "a", To: "2", From: "0", Origin: "x", Security: true}}) {
		t.Error("the digest must depend on the new packages only")
	}
	if Digest([]Change{a}) == Digest([]Change{a, b}) {
		t.Error("another package has the same digest")
	}
}

// TestPendingSet: the digest of a whole transaction also identifies a report whose list is cut. Other pods report no digest.
func TestPendingSet(t *testing.T) {
	pending := []Change{{Name: "a", To: "2"}, {Name: "b", To: "2"}}
	whole := Report{Pending: pending}
	cut := Report{Pending: pending[:1], Set: Digest(pending), Omitted: 1}
	if whole.PendingSet() != cut.PendingSet() {
		t.Errorf("the sets are %s and %s", whole.PendingSet(), cut.PendingSet())
	}
	cut.Set = "2 packages"
	if err := cut.Answers(Order{}); err == nil || !strings.Contains(err.Error(), `the patch level "2 packages" is not sha256:HEX`) {
		t.Errorf("a set that is no digest: %v", err)
	}
}

// The words of the contract must not change: a controller and a pod may be of different versions.
func TestReasonsAreWords(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || r == "" || strings.ContainsAny(string(r), " -_") {
			t.Errorf("the reason %q is no word of its own", r)
		}
		seen[r] = true
	}
	text, err := json.Marshal(Failure{Reason: HeldPackage, Message: "m"})
	if err != nil || string(text) != `{"reason":"HeldPackage","message":"m"}` {
		t.Errorf("%s %v", text, err)
	}
}

func TestWithoutCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"E: https://user:secret@m/dists http://other@n/": "E: https://m/dists http://n/", "http://m/a@b": "http://m/a@b", "a // b@c": "a // b@c", "": "",
	} {
		if got := WithoutCredentials(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
