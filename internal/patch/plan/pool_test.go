package plan

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// checked is a complete report with pending patches.
func checked(pending ...string) *patch.Report {
	r := &patch.Report{Method: patch.Check, Health: patch.Healthy, Repositories: []patch.Repository{{ID: "main", Read: true}}}
	for _, name := range pending {
		r.Pending = append(r.Pending, patch.Change{Name: name, To: "2"})
	}
	return r
}

func TestWhenAPioneerBegins(t *testing.T) {
	const every = 6 * time.Hour
	unread := checked()
	unread.Repositories[0].Read = false
	openssl := map[string]bool{patch.Digest(checked("openssl").Pending): true}
	begun := func(days ...float64) (all []time.Time) {
		for _, n := range days {
			all = append(all, noon.Add(-time.Duration(n*24*float64(time.Hour))))
		}
		return all
	}
	ago := func(d time.Duration, r *patch.Report) *Check { return (*Check)(nil).Next(noon.Add(-d), r) }
	for _, c := range []struct {
		name string
		p    PioneerFacts
		step Step
		why  Reason
		in   time.Duration
	}{
		{"never checked", PioneerFacts{}, LookForPatches, "", 0},
		{"checked long ago", PioneerFacts{Checked: ago(every, checked("openssl"))}, LookForPatches, "", 0},
		{"checked before the last pioneer", PioneerFacts{ChangedAt: noon.Add(-time.Hour), Checked: ago(time.Hour, checked("openssl"))}, LookForPatches, "", 0},
		{"checked after the last pioneer", PioneerFacts{ChangedAt: noon.Add(-2 * time.Hour), Checked: ago(time.Hour, checked("openssl"))}, BeginPioneer, "", 0},
		{"pending", PioneerFacts{Checked: ago(time.Hour, checked("openssl"))}, BeginPioneer, "", 0},
		{"nothing pending", PioneerFacts{Checked: ago(time.Hour, checked())}, Rest, UpToDate, 5 * time.Hour},
		{"a repository was not read", PioneerFacts{Checked: ago(20*time.Minute, unread)}, Rest, NotChecked, 40 * time.Minute},
		{"a repository was not read an hour ago", PioneerFacts{Checked: ago(time.Hour, unread)}, LookForPatches, "", 0},
		{"failed before", PioneerFacts{Checked: ago(time.Hour, checked("openssl")), Failed: openssl}, Rest, PatchesQuarantined, 5 * time.Hour},
		{"another set", PioneerFacts{Checked: ago(time.Hour, checked("openssl", "curl")), Failed: openssl}, BeginPioneer, "", 0},
		{"busy", PioneerFacts{Busy: true}, Rest, PoolBusy, 0},
		{"busy and pending", PioneerFacts{Busy: true, Checked: ago(time.Hour, checked("openssl"))}, Rest, PoolBusy, 0},
		{"too young", PioneerFacts{MinAge: 2 * time.Hour, Checked: ago(time.Hour, checked("openssl"))}, Rest, TooYoung, time.Hour},
		{"too young beyond the next check", PioneerFacts{MinAge: 48 * time.Hour, Checked: ago(time.Hour, checked("openssl"))}, Rest, TooYoung, 5 * time.Hour},
		{"two of three in a week", PioneerFacts{Begun: begun(1, 2, 8, 9), Checked: ago(time.Hour, checked("openssl"))}, BeginPioneer, "", 0},
		{"three in a week", PioneerFacts{Begun: begun(1, 8, 2, 6), Checked: ago(time.Hour, checked("openssl"))}, Rest, TooManyPioneers, 5 * time.Hour},
		{"three in a week, the first almost a week ago", PioneerFacts{Begun: begun(1, 2, 6.9), Checked: ago(time.Hour, checked("openssl"))},
			Rest, TooManyPioneers, 144 * time.Minute},
		{"three in a week, and nothing pending", PioneerFacts{Begun: begun(1, 2, 3), Checked: ago(time.Hour, checked())}, Rest, UpToDate, 5 * time.Hour},
		{"old enough", PioneerFacts{MinAge: time.Hour, Checked: ago(time.Hour, checked("openssl"))}, BeginPioneer, "", 0},
	} {
		c.p.Now, c.p.Every, c.p.MaxPerWeek = noon, every, 3
		step, why, at := c.p.Next()
		want := time.Time{}
		if c.in > 0 {
			want = noon.Add(c.in)
		}
		if step != c.step || why != c.why || !at.Equal(want) {
			t.Errorf("%s: %s %s at %s, want %s %s at %s", c.name, step, why, at, c.step, c.why, want)
		}
	}
}

// TestTheAgeOfASetOfPatches: the same set keeps its age, also over a check that read nothing. A new set is new.
func TestTheAgeOfASetOfPatches(t *testing.T) {
	var c *Check
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	unread := checked()
	unread.Repositories[0].Read = false
	for i, step := range []struct {
		report *patch.Report
		since  int
	}{{checked("openssl"), 0}, {checked("openssl"), 0}, {checked("openssl", "curl"), 2}, {unread, 2}, {checked("openssl", "curl"), 2}, {checked(), 5}} {
		c = c.Next(hour(i), step.report)
		if !c.Since.Equal(hour(step.since)) || !c.At.Equal(hour(i)) {
			t.Errorf("check %d: since %s", i, c.Since)
		}
	}
}

// TestTheResultOfAReport: only a complete report is a patch, and only an unchanged node refused a patch.
func TestTheResultOfAReport(t *testing.T) {
	report := func(change func(*patch.Report)) *patch.Report {
		r := &patch.Report{
			Method: patch.Patch, Before: "a", After: "b", Health: patch.Healthy, Repositories: []patch.Repository{{ID: "main", Read: true}},
			Reboot: patch.RebootNeed{Need: patch.NotNeeded},
		}
		change(r)
		return r
	}
	failed := func(reason patch.Reason) func(*patch.Report) {
		return func(r *patch.Report) { r.After, r.Failure = "a", &patch.Failure{Reason: reason} }
	}
	for _, c := range []struct {
		name   string
		change func(*patch.Report)
		want   Result
	}{
		{"installed", func(*patch.Report) {}, Patched},
		{"installed with a reboot", func(r *patch.Report) { r.Reboot.Need = patch.Needed }, Patched},
		{"nothing to install", func(r *patch.Report) { r.After = "a" }, Current},
		{"nothing to install, and a reboot", func(r *patch.Report) { r.After, r.Reboot.Need = "a", patch.Needed }, Patched},
		{"nothing to install, and perhaps a reboot", func(r *patch.Report) { r.After, r.Reboot.Need = "a", patch.NeedUnknown }, Patched},
		{"a script failed", func(r *patch.Report) { r.Failed = []string{"grub"} }, Incomplete},
		{"a script failed, at the same level", func(r *patch.Report) { r.After, r.Failed = "a", []string{"grub"} }, Incomplete},
		{"broken", func(r *patch.Report) { r.After, r.Health = "a", patch.Broken }, Incomplete},
		{"interrupted", func(r *patch.Report) { r.After, r.Health = "a", patch.HealthInterrupted }, Incomplete},
		{"installed, and a repository was not read", func(r *patch.Report) { r.Repositories[0].Read = false }, Incomplete},
		{"a repository was not read", func(r *patch.Report) { r.After, r.Repositories[0].Read = "a", false }, Refused},
		{"the install failed", failed(patch.InstallFailed), Incomplete},
		{"systemd failed", failed(patch.NodeFailed), Incomplete},
		{"locked", failed(patch.Locked), Refused},
		{"a held package", failed(patch.HeldPackage), Refused},
		{"no report of a level", func(r *patch.Report) { *r = patch.Report{Failure: &patch.Failure{Reason: patch.Unsupported}} }, Refused},
	} {
		if got := ResultOf(report(c.change)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, reason := range patch.Reasons() {
		if got := ResultOf(report(failed(reason))); got == Patched || got == Current {
			t.Errorf("%s is %s", reason, got)
		}
	}
}
