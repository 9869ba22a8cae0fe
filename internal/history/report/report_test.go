package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var (
	now   = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	since = now.AddDate(0, 0, -30)
)

// day is a time so many days after the beginning of the report.
func day(n int) time.Time { return since.AddDate(0, 0, n) }

// node was built on a day, and was Ready after some time; zero: the node is not Ready.
func node(version string, built int, took time.Duration) NodeFacts {
	n := NodeFacts{Version: version, Created: day(built)}
	if took > 0 {
		n.Ready = n.Created.Add(took)
	}
	return n
}

// facts are the facts of a pool with two versions and nodes of both.
func facts() Facts {
	return Facts{
		Pool: "pool1", Since: since, Now: now, Counted: true, PricePerGBMonth: -1,
		Versions: []VersionFacts{
			{Version: "2026.03.02", BuiltAt: day(1), PatchedAt: day(0), SizeGB: 30, Images: []string{"pause", "proxy"}},
			{Version: "2026.03.21", BuiltAt: day(20), PatchedAt: day(20), SizeGB: 30, Images: []string{"pause"}},
		},
		Nodes: []NodeFacts{
			node("", -5, 9*time.Minute), node("", 0, 10*time.Minute), node("", 0, 12*time.Minute), node("", 1, 20*time.Minute),
			node("2026.03.02", 2, 2*time.Minute), node("2026.03.02", 3, 3*time.Minute), node("2026.03.21", 21, time.Minute),
		},
	}
}

// tester is a test of package testing or of package rapid.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// figure finds a figure by name.
func figure(t tester, r Report, name string) Figure {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no figure %s", name)
	return Figure{}
}

// expect compares a figure: its value, and a part of its source. "unknown" is a figure without a value.
func expect(t tester, f Facts, name, value, source string) {
	t.Helper()
	got := figure(t, Of(f), name)
	text := "unknown"
	if got.Value != nil {
		text = fmt.Sprintf("%.4g", *got.Value)
	}
	if text != value || !strings.Contains(got.Source, source) {
		t.Errorf("%s is %s (%s), want %s (%s)", name, text, got.Source, value, source)
	}
	if got.Value == nil && !strings.HasPrefix(got.Source, "unknown: ") {
		t.Errorf("%s has neither a value nor a reason: %s", name, got.Source)
	}
	if got.Title == "" || got.Unit == "" || got.Kind == "" {
		t.Errorf("%s lacks a title, a unit or a kind: %+v", name, got)
	}
}

func TestBuilds(t *testing.T) {
	want := []Build{
		{Version: "2026.03.21", Nodes: 1, Measured: 1, MedianSeconds: 60, P95Seconds: 60},
		{Version: "2026.03.02", Nodes: 2, Measured: 2, MedianSeconds: 120, P95Seconds: 180},
		{Nodes: 3, Measured: 3, MedianSeconds: 720, P95Seconds: 1200},
	}
	if diff := cmp.Diff(want, Of(facts()).Builds); diff != "" {
		t.Error(diff)
	}
	f := facts()
	f.Versions = f.Versions[1:]
	f.Nodes[4].Failed = true
	want[1].Failed = 1
	if diff := cmp.Diff(want, Of(f).Builds); diff != "" {
		t.Errorf("after the deletion of a version: %s", diff)
	}
}

// TestBuildsLeaveOut nodes that say nothing about the time of a join.
func TestBuildsLeaveOut(t *testing.T) {
	for name, test := range map[string]struct {
		node     NodeFacts
		nodes    int
		measured int
	}{
		"a node before the report":          {node("2026.03.02", -1, time.Minute), 0, 0},
		"a node of unknown age":             {NodeFacts{Version: "2026.03.02", Ready: now}, 0, 0},
		"a node that is not Ready":          {node("2026.03.02", 2, 0), 1, 0},
		"a node that was away for a day":    {node("2026.03.02", 2, 24*time.Hour), 1, 0},
		"a node with a slow clock":          {NodeFacts{Version: "2026.03.02", Created: day(2), Ready: day(1)}, 1, 0},
		"a node at the limit":               {node("2026.03.02", 2, joinWithin), 1, 1},
		"a version with another spelling":   {node("2026.3.2", 2, time.Minute), 1, 1},
		"a node of the report's first hour": {node("2026.03.02", 0, time.Minute), 1, 1},
	} {
		f := facts()
		f.Versions, f.Nodes = f.Versions[:1], []NodeFacts{test.node}
		got := Build{}
		if all := Of(f).Builds; len(all) > 0 {
			got = all[0]
		}
		if got.Nodes != test.nodes || got.Measured != test.measured || got.Failed != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i+1))
	}
	for _, test := range []struct {
		of      []time.Duration
		percent int
		want    time.Duration
	}{
		{all, 50, 50}, {all, 95, 95}, {all, 100, 100}, {all, 1, 1},
		{all[:1], 50, 1}, {all[:1], 95, 1}, {all[:2], 50, 1}, {all[:3], 50, 2}, {all[:20], 95, 19},
	} {
		if got := quantile(test.of, test.percent); got != test.want {
			t.Errorf("%d%% of %d: %d, want %d", test.percent, len(test.of), got, test.want)
		}
	}
}

func TestTimeSaved(t *testing.T) {
	expect(t, facts(), "time-saved", fmt.Sprintf("%.4g", float64(2*(720-120)+(720-60))/3600), "3 nodes of versions")
	f := facts()
	f.Nodes = f.Nodes[4:]
	expect(t, f, "time-saved", "unknown", "no node of another image")
	f = facts()
	f.Nodes = f.Nodes[:4]
	expect(t, f, "time-saved", "unknown", "no node of a version")
	f = facts()
	f.Nodes[4].Ready, f.Nodes[5].Ready, f.Nodes[6].Ready = f.Nodes[4].Created.Add(30*time.Minute), f.Nodes[5].Created.Add(30*time.Minute),
		f.Nodes[6].Created.Add(30*time.Minute)
	expect(t, f, "time-saved", "-0.9", "3 nodes of versions") // a version may also be slower
}

func TestRebootsAvoided(t *testing.T) {
	expect(t, facts(), "reboots-avoided", "3", "tag kamino-patched-at")
	f := facts()
	f.Versions[0].PatchedAt = time.Time{}
	expect(t, f, "reboots-avoided", "1", "tag kamino-patched-at")
	f.Versions[1].PatchedAt = time.Time{}
	expect(t, f, "reboots-avoided", "unknown", "no version has the tag")
}

func TestPullsAvoided(t *testing.T) {
	f := facts()
	expect(t, f, "pulls-avoided", "5", "lists of the versions' contents")
	expect(t, f, "bytes-avoided", "unknown", "the kubelets report no sizes")
	f.ImageBytes = map[string]int64{"pause": 1 << 20, "proxy": 1 << 30, "other": 1 << 40}
	expect(t, f, "bytes-avoided", "2.003", "at most 50 images")
	f.Versions[0].Images = nil
	expect(t, f, "pulls-avoided", "1", "lists of the versions' contents")
	f.Versions[1].Images = []string{}
	expect(t, f, "pulls-avoided", "0", "lists of the versions' contents")
	f.Versions[1].Images = nil
	expect(t, f, "pulls-avoided", "unknown", "no version has a list")
	expect(t, f, "bytes-avoided", "unknown", "no version has a list")
	expect(t, f, "package-downloads-avoided", "unknown", "neither dpkg nor rpm")
}

// TestCacheGain: the cache saves time where a pull is slower than the first read of a volume, and costs time elsewhere.
func TestCacheGain(t *testing.T) {
	f := facts()
	f.Versions[0].Images, f.Versions[1].Images = []string{"old"}, []string{"model", "pause"}
	f.ImageBytes = map[string]int64{"model": 30 << 30, "old": 1 << 40}
	if slices.ContainsFunc(Of(f).Figures, func(figure Figure) bool { return figure.Name == "cache-gain" }) {
		t.Error("there is a figure without rates")
	}
	f.PullRate, f.VolumeRate = 200, 300
	expect(t, f, "cache-gain", "51.2", "30.0 GiB of images in version 2026.03.21: 154 s to pull at 200 MiB/s, 102 s to read at 300 MiB/s")
	f.VolumeRate = 100
	expect(t, f, "cache-gain", "-153.6", "307 s to read at 100 MiB/s")
	f.ImageBytes = nil
	expect(t, f, "cache-gain", "unknown", "whose sizes the kubelets report")
}

func TestExposure(t *testing.T) {
	// The two nodes of the old version are behind since the newest patch, ten days before the end.
	expect(t, facts(), "exposure", "480", "without 4 nodes of unknown patch level")
	f := facts()
	f.Nodes[4].PatchedAt = day(20) // patched in place
	expect(t, f, "exposure", "240", "annotations of nodes")
	f.Nodes[5].Created = day(25) // the pool's recipe still named the old version
	expect(t, f, "exposure", "120", "annotations of nodes")
	f.Nodes[0].PatchedAt, f.Nodes[1].PatchedAt, f.Nodes[2].PatchedAt, f.Nodes[3].PatchedAt = day(20), day(20), day(20), day(20)
	expect(t, f, "exposure", "120", "annotations of nodes")
	f = facts()
	f.Nodes = f.Nodes[:4]
	expect(t, f, "exposure", "unknown", "the patch level of 4 nodes is unknown")
	f.Nodes = nil
	expect(t, f, "exposure", "0", "tag kamino-patched-at")
	f.Versions = nil
	expect(t, f, "exposure", "unknown", "no version has the tag")
}

func TestFailedJoins(t *testing.T) {
	f := facts()
	expect(t, f, "failed-joins", "0", "removed nodes are not counted")
	f.Nodes[0].Failed, f.Nodes[3].Failed, f.Nodes[6].Failed = true, true, true // the first node is older than the report
	expect(t, f, "failed-joins", "2", "removed nodes are not counted")
}

// TestWithoutInstances: a cloud that cannot list instances makes figures unknown, not zero.
func TestWithoutInstances(t *testing.T) {
	f := facts()
	f.Counted, f.Nodes = false, nil
	for _, name := range []string{"time-saved", "reboots-avoided", "pulls-avoided", "bytes-avoided", "exposure", "failed-joins"} {
		expect(t, f, name, "unknown", "the cloud cannot list the pool's instances")
	}
	if builds := Of(f).Builds; len(builds) > 0 {
		t.Errorf("builds %+v", builds)
	}
}

// capture is a Prototype of a day with the time of its donor out of service and of its trial; a negative end is still running.
func capture(built int, phase v1alpha1.Phase, from, to int) v1alpha1.Prototype {
	p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(day(built))}}
	p.Status.Phase = phase
	begin, end := metav1.NewMicroTime(day(built).Add(time.Duration(from)*time.Minute)), metav1.NewMicroTime(day(built).Add(time.Duration(to)*time.Minute))
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &begin}
	p.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseRunningTrial, StartedAt: begin}}
	if to >= 0 {
		p.Status.Donor.ReleasedAt, p.Status.Steps[0].FinishedAt = &end, &end
	}
	return p
}

func TestCosts(t *testing.T) {
	f := facts()
	expect(t, f, "captures-succeeded", "0", "Prototypes")
	expect(t, f, "donor-hours", "0", "0 Prototypes")
	f.Captures = []v1alpha1.Prototype{
		capture(-2, v1alpha1.PhaseSucceeded, 0, 600),      // before the report
		capture(-1, v1alpha1.PhaseSucceeded, 0, 24*60+30), // half an hour of the report
		capture(1, v1alpha1.PhaseSucceeded, 0, 30),
		capture(2, v1alpha1.PhaseFailed, 0, 30),
		capture(30, v1alpha1.PhaseDraining, -60, -1), // an hour before the end of the report
		{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(day(3))}, Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseFailed}},
	}
	expect(t, f, "captures-succeeded", "1", "Prototypes")
	expect(t, f, "captures-failed", "2", "Prototypes")
	expect(t, f, "drains", "4", "status.donor")
	expect(t, f, "donor-hours", "2.5", "4 Prototypes")
	expect(t, f, "trial-hours", "2.5", "4 Prototypes")
	f.Captures[3].Status.Donor.ReleasedAt = nil // the capture ended without the donor
	expect(t, f, "donor-hours", "2.5", "4 Prototypes")
	at := metav1.NewMicroTime(f.Captures[3].Status.Steps[0].FinishedAt.Add(time.Hour))
	f.Captures[3].Status.Steps = append(f.Captures[3].Status.Steps,
		v1alpha1.Step{Phase: v1alpha1.PhaseCleaningUp, StartedAt: *f.Captures[3].Status.Steps[0].FinishedAt, FinishedAt: &at})
	expect(t, f, "trial-hours", "2.5", "4 Prototypes")
	f.Captures[3].Status.Trial = &v1alpha1.TrialStatus{Result: v1alpha1.TrialFailed} // its node stays for an inspection
	expect(t, f, "trial-hours", "3.5", "4 Prototypes")
}

func TestPioneers(t *testing.T) {
	f := facts()
	patched := func(reserved, finished int) v1alpha1.Prototype {
		p := capture(2, v1alpha1.PhaseSucceeded, reserved, reserved+30)
		p.Status.Patch = &v1alpha1.PatchStatus{StartedAt: metav1.NewTime(day(2))}
		if finished > 0 {
			p.Status.Patch.FinishedAt = metav1.NewTime(day(2).Add(time.Duration(finished) * time.Minute))
		}
		return p
	}
	refused := patched(0, 15)
	refused.Status.Donor = nil
	running := patched(0, 0)
	running.Status.Phase = v1alpha1.PhasePatching
	running.CreationTimestamp, running.Status.Donor, running.Status.Patch.StartedAt = metav1.NewTime(now), nil, metav1.NewTime(now.Add(-45*time.Minute))
	f.Captures = []v1alpha1.Prototype{patched(60, 50), refused, running, capture(3, v1alpha1.PhaseSucceeded, 0, 30)}
	expect(t, f, "pioneer-hours", "2", "3 Prototypes")
}

func TestStorage(t *testing.T) {
	f := facts()
	// 30 GiB for 29 days, and 30 GiB for 10 days.
	want := fmt.Sprintf("%.4g", 30*39.0*24/730)
	expect(t, f, "storage", want, "one copy each")
	for _, figure := range Of(f).Figures {
		if figure.Name == "storage-price" {
			t.Error("a price without a price")
		}
	}
	f.PricePerGBMonth = 0.1
	expect(t, f, "storage-price", fmt.Sprintf("%.4g", 3*39.0*24/730), "0.1 per GiB and month")
	f.PricePerGBMonth = 0
	expect(t, f, "storage-price", "0", "0 per GiB and month")
	f.Versions[0].SizeGB = 0
	expect(t, f, "storage", fmt.Sprintf("%.4g", 30*10.0*24/730), "without 1 version of unknown size")
	f.Versions[0].SizeGB, f.Versions[1].SizeGB = 0, 0
	expect(t, f, "storage", "unknown", "the cloud reports no sizes")
	expect(t, f, "storage-price", "unknown", "the cloud reports no sizes")
	f.Versions = nil
	expect(t, f, "storage", "0", "one copy each")
	f = facts()
	older, newer := capture(-1, v1alpha1.PhaseSucceeded, 0, 1), capture(15, v1alpha1.PhaseSucceeded, 0, 1)
	older.Spec.Version, newer.Spec.Version = "2026.02.28", "2026.03.21"
	older.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue}}
	f.Captures = []v1alpha1.Prototype{older, newer}
	expect(t, f, "storage", want, "without 1 deleted version of unknown end")
	f.Captures[1].Status.Retired = []string{"2026.02.28"} // a minute after the begin of day 15
	expect(t, f, "storage", fmt.Sprintf("%.4g", 30*(39.0*24+15*24+1.0/60)/730), "largest present version")
	f = facts()
	f.Versions[0].BuiltAt = time.Time{} // unknown: from the beginning of the report
	expect(t, f, "storage", fmt.Sprintf("%.4g", 30*40.0*24/730), "one copy each")
}

// TestEveryFigureHasASource in any world, and no figure of an amount is negative.
func TestEveryFigureHasASource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.IntRange(-40, 40)
		f := Facts{Pool: "pool1", Since: since, Now: now, Counted: rapid.Bool().Draw(t, "counted"),
			PricePerGBMonth: float64(rapid.IntRange(-1, 1).Draw(t, "price"))}
		moment := func(label string) time.Time {
			if rapid.Bool().Draw(t, label) {
				return time.Time{}
			}
			return day(draw.Draw(t, label))
		}
		version := rapid.SampledFrom([]string{"", "2026.03.02", "2026.03.21", "2025.01.01"})
		for _, name := range []string{"2026.03.02", "2026.03.21"} {
			f.Versions = append(f.Versions, VersionFacts{
				Version: name, BuiltAt: moment("built"), PatchedAt: moment("patched"), SizeGB: int32(rapid.IntRange(0, 30).Draw(t, "size")),
			})
		}
		for range rapid.IntRange(0, 6).Draw(t, "nodes") {
			f.Nodes = append(f.Nodes, NodeFacts{Version: version.Draw(t, "version"), Created: moment("created"), Ready: moment("ready"),
				PatchedAt: moment("patched"), PendingSince: moment("pending"), Failed: rapid.Bool().Draw(t, "failed")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "captures") {
			f.Captures = append(f.Captures, capture(draw.Draw(t, "decided"), v1alpha1.PhaseSucceeded, draw.Draw(t, "from"), draw.Draw(t, "to")))
		}
		r := Of(f)
		nodes := 0
		for _, b := range r.Builds {
			if nodes += b.Nodes; b.Measured > b.Nodes || b.MedianSeconds > b.P95Seconds {
				t.Errorf("build %+v", b)
			}
		}
		if nodes > len(f.Nodes) {
			t.Errorf("%d nodes of %d", nodes, len(f.Nodes))
		}
		for _, figure := range r.Figures {
			if figure.Source == "" || figure.Value == nil != strings.HasPrefix(figure.Source, "unknown: ") {
				t.Errorf("figure without a source: %+v", figure)
			}
			if figure.Value != nil && *figure.Value < 0 && figure.Name != "time-saved" {
				t.Errorf("figure %s is %g", figure.Name, *figure.Value)
			}
		}
	})
}

func TestText(t *testing.T) {
	for value, want := range map[float64]string{
		0:       "0 hours",
		-0.0056: "-20 seconds",
		0.0972:  "5.8 minutes",
		0.5:     "30 minutes",
		0.999:   "59.9 minutes",
		1:       "1 hour",
		1.04:    "1 hour",
		12.34:   "12.3 hours",
		20:      "20 hours",
	} {
		if got := (Figure{Value: &value, Unit: "hours"}).Text(); got != want {
			t.Errorf("%g is %q, want %q", value, got, want)
		}
	}
	one, some := 1.0, 0.05
	if got := (Figure{Value: &one, Unit: "captures"}).Text() + ", " + (Figure{Value: &some, Unit: "node-hours"}).Text(); got != "1 capture, 3 node-minutes" {
		t.Errorf("got %q", got)
	}
}
