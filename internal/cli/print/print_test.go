package print

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/estimate"
)

var update = flag.Bool("update", false, "write the golden files again")

var now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// golden compares with testdata/NAME.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func at(seconds int) metav1.MicroTime {
	return metav1.NewMicroTime(now.Add(time.Duration(seconds) * time.Second))
}

// followed is a running capture, state after state.
func followed() []*v1alpha1.Prototype {
	p := &v1alpha1.Prototype{}
	p.Name = "pool1-2026.03.09"
	p.UID = "u1"
	p.CreationTimestamp = metav1.NewTime(now)
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.09", Donor: v1alpha1.Donor{NodeName: "node-1", ProviderID: "x://1"}}
	var states []*v1alpha1.Prototype
	keep := func() { states = append(states, p.DeepCopy()) }
	enter := func(phase v1alpha1.Phase, second int, progress string) {
		end := at(second)
		if n := len(p.Status.Steps); n > 0 {
			p.Status.Steps[n-1].FinishedAt = &end
		}
		p.Status.Phase, p.Status.Progress = phase, progress
		p.Status.Steps = append(p.Status.Steps, v1alpha1.Step{Phase: phase, StartedAt: at(second)})
		keep()
	}
	keep()
	enter(v1alpha1.PhasePreflight, 0, "")
	reserved := at(2)
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &reserved}
	enter(v1alpha1.PhaseDraining, 3, "pods left: 3")
	p.Status.Progress = "pods left: 1"
	keep()
	enter(v1alpha1.PhaseSnapshotting, 41, "")
	released := at(252)
	p.Status.Donor.ReleasedAt = &released
	enter(v1alpha1.PhasePublishing, 260, "replicating 40%")
	end := at(5000)
	p.Status.Steps[len(p.Status.Steps)-1].FinishedAt = &end
	p.Status.Phase, p.Status.Progress = v1alpha1.PhaseSucceeded, ""
	p.Status.Image = &v1alpha1.ImageStatus{ID: "/images/kamino-pool1-prototype/versions/2026.03.09", ReplicationPercent: 100}
	p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Message: "the pool's recipe points at 2026.03.09"}}
	keep()
	return states
}

// tried is a capture in its trial.
func tried() *v1alpha1.Prototype {
	p := followed()[4]
	end := at(300)
	p.Status.Steps[len(p.Status.Steps)-1].FinishedAt = &end
	p.Status.Steps = append(p.Status.Steps, v1alpha1.Step{Phase: v1alpha1.PhaseRunningTrial, StartedAt: end})
	p.Status.Phase, p.Status.Progress = v1alpha1.PhaseRunningTrial, "Soaked: node pool1-trial-0 is watched until 12:15:00Z"
	came, later := at(380), at(400)
	p.Status.Trial = &v1alpha1.TrialStatus{
		Result: v1alpha1.TrialPending, Message: "Soaked: Ready for 4m", Attempt: 2, StartedAt: &end,
		Node: "pool1-trial-0", Instance: "x://9",
		Checks: []v1alpha1.TrialCheck{
			{Name: "Provisioned", Result: v1alpha1.TrialPassed, Message: "it runs", At: &came},
			{Name: "Registered", Result: v1alpha1.TrialPassed, Message: "node pool1-trial-0 is there", At: &later},
			{Name: "Job", Result: v1alpha1.TrialSkipped, Message: "there is none", At: &came},
			{Name: "Soaked", Result: v1alpha1.TrialPending, Message: "node pool1-trial-0 is watched until 12:15:00Z"},
			{Name: "Later", Result: v1alpha1.TrialPending, Message: v1alpha1.TrialWaiting},
		},
		NodeInfo: &v1alpha1.TrialNode{Kernel: "6.1", Kubelet: "v1.36.3", Images: 12, ReadyAfter: &metav1.Duration{Duration: 90 * time.Second}},
	}
	return p
}

// TestLinesOfATrial: each check is written once with its result, and again after a change.
func TestLinesOfATrial(t *testing.T) {
	var out bytes.Buffer
	view := NewLines(&out)
	p := tried()
	view.Show(Progress{Prototype: p}, now.Add(401*time.Second))
	view.Show(Progress{Prototype: p}, now.Add(402*time.Second))
	p = p.DeepCopy()
	p.Status.Trial.Checks[3].Result, p.Status.Trial.Checks[3].At, p.Status.Trial.Checks[3].Message = v1alpha1.TrialFailed, new(at(600)),
		"it is not Ready any more"
	view.Show(Progress{Prototype: p}, now.Add(600*time.Second))
	golden(t, "trial.txt", out.Bytes())
}

func TestPlanOfATrial(t *testing.T) {
	const trial = "  test the version on a trial node outside the pool, which must stay Ready for 10m00s and pass all checks, and is then removed"
	for mode, want := range map[v1alpha1.TrialMode]string{
		v1alpha1.TrialOff: "", "": trial, v1alpha1.TrialApart: trial,
	} {
		for promotion, waits := range map[v1alpha1.PromotionMode]bool{"": false, v1alpha1.PromotionAutomatic: false, v1alpha1.PromotionManual: true} {
			p := followed()[0]
			p.Spec.Settings.Trial.Mode, p.Spec.Settings.Promotion.Mode = mode, promotion
			message := strings.Join(planLines(Plan{Prototype: p}), "\n")
			if strings.Contains(message, "test the version") != (want != "") || !strings.Contains(message, want) {
				t.Errorf("trial %q is not printed as %q:\n%s", mode, want, message)
			}
			if strings.Contains(message, "wait up to 7d") != waits || strings.Contains(message, "kamino promote pool1 2026.03.09") != waits {
				t.Errorf("promotion %q:\n%s", promotion, message)
			}
		}
	}
}

// TestPlanOfFurtherTrials names each machine type, and what its trial costs.
func TestPlanOfFurtherTrials(t *testing.T) {
	p := followed()[0]
	p.Spec.Settings.Trial = v1alpha1.TrialSettings{MachineTypes: []string{"g5.xlarge"}, Soak: &metav1.Duration{Duration: 7 * time.Minute}}
	for past, want := range map[time.Duration]string{0: "at least 7m00s", 26 * time.Minute: "about 13m00s"} {
		var before []v1alpha1.Prototype
		if past > 0 {
			from, to := metav1.NewMicroTime(now), metav1.NewMicroTime(now.Add(past))
			tried := *p.DeepCopy()
			tried.Status.Phase = v1alpha1.PhaseSucceeded
			tried.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseRunningTrial, StartedAt: from, FinishedAt: &to}}
			before = append(before, tried)
		}
		e := estimate.Of(before, p.Spec.Settings.CopiesDonor()).Tried(p.Spec.Settings)
		want = "  test the version again on a trial node of type g5.xlarge, which costs " + want + " of that machine"
		for of, message := range map[string][]string{
			"capture": planLines(Plan{Prototype: p, Estimate: e}), "pool": captureLines(PoolPlan{Donor: "a", Captures: true, Estimate: e}),
		} {
			if text := strings.Join(message, "\n"); strings.Count(text, want) != 1 {
				t.Errorf("the plan of a %s does not say %q:\n%s", of, want, text)
			}
		}
	}
	p.Spec.Settings.Trial.Mode = v1alpha1.TrialOff
	if e := (estimate.Estimate{}).Tried(p.Spec.Settings); len(e.Trials) > 0 {
		t.Errorf("without a trial: %+v", e.Trials)
	}
}

func TestDescribeTrial(t *testing.T) {
	var out bytes.Buffer
	p := tried()
	p.Status.Trial.Result, p.Status.Trial.FinishedAt = v1alpha1.TrialFailed, new(at(900))
	if err := Describe(&out, "", Description{Prototype: p}, now.Add(1000*time.Second)); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(out.String(), "\nTrial:\n")
	golden(t, "describetrial.txt", []byte(section))
}

// A donor out of service: until when at the latest, and what then, unless no process works.
func TestDescribeHeldDonor(t *testing.T) {
	p := followed()[4].DeepCopy()
	p.Status.Phase, p.Status.Donor = v1alpha1.PhaseStarting, &v1alpha1.DonorStatus{ReservedAt: new(at(0))}
	for _, c := range []struct {
		items      []attention.Item
		says, none string
	}{
		{nil, "Out of service:   39s so far; the node is back by 12:45 UTC (in 44m21s) at the latest\n", "NEEDS YOU"},
		{[]attention.Item{{Severity: attention.Critical, Kind: attention.ControllerAbsent, Title: "No process works.", Next: "nothing", Command: "kamino capture node-1"}},
			"NEEDS YOU: 1 critical\ncritical  No process works.\n          Next: nothing.\n          Run: kamino capture node-1\n", "is back by"},
	} {
		var out bytes.Buffer
		if err := Describe(&out, "", Description{Prototype: p, Attention: c.items}, at(39).Time); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), c.none) {
			t.Errorf("with %d items:\n%s", len(c.items), out.String())
		}
	}
}

func TestLinesRepeatNothing(t *testing.T) {
	var out bytes.Buffer
	view := NewLines(&out)
	for i, state := range followed() {
		progress := Progress{Prototype: state, Driver: "this command does the work"}
		if i == 4 {
			progress.Trouble = "no answer from the API server"
		}
		view.Show(progress, now.Add(time.Duration(i)*time.Minute))
		view.Show(progress, now.Add(time.Duration(i)*time.Minute+time.Second)) // nothing new: nothing said
	}
	golden(t, "lines.txt", out.Bytes())
}

// TestAFailureIsNoEndOfATrouble: the cause of a failure stays, although the capture no longer waits.
func TestAFailureIsNoEndOfATrouble(t *testing.T) {
	var out bytes.Buffer
	view := NewLines(&out)
	p := followed()[2]
	view.Show(Progress{Prototype: p, Trouble: "node node-1 was not drained"}, now)
	p.Status.Failure = &v1alpha1.Failure{Reason: "DrainTimeout"}
	view.Show(Progress{Prototype: p}, now)
	if strings.Contains(out.String(), "trouble is over") {
		t.Errorf("a failed capture ends its trouble:\n%s", out.String())
	}
}

// A percentage that changes each second does not write a line each second.
func TestLinesLimitPercentages(t *testing.T) {
	var out bytes.Buffer
	view := NewLines(&out)
	p := followed()[4]
	for second := range 100 {
		p.Status.Progress = fmt.Sprintf("replicating %d%%", second)
		view.Show(Progress{Prototype: p.DeepCopy()}, now.Add(time.Duration(second)*time.Second))
	}
	p.Status.Progress = "waiting for deletion"
	view.Show(Progress{Prototype: p}, now.Add(100*time.Second))
	if got := strings.Count(out.String(), "replicating"); got != 10 {
		t.Errorf("printed %d times:\n%s", got, out.String())
	}
	if !strings.Contains(out.String(), "waiting for deletion") {
		t.Errorf("another progress was not printed at once:\n%s", out.String())
	}
}

// A late follower reads the same steps with the same times.
func TestLinesJoinLate(t *testing.T) {
	states := followed()
	steps := func(shown ...*v1alpha1.Prototype) string {
		var out bytes.Buffer
		view := NewLines(&out)
		for _, state := range shown {
			state = state.DeepCopy()
			state.Status.Progress = ""
			view.Show(Progress{Prototype: state}, now)
		}
		return out.String()
	}
	early, late := steps(states...), steps(states[len(states)-1])
	sorted := func(text string) string {
		lines := map[string]bool{}
		for line := range strings.Lines(text) {
			lines[line] = true
		}
		return strings.Join(sortedKeys(lines), "")
	}
	if diff := cmp.Diff(sorted(early), sorted(late)); diff != "" {
		t.Errorf("followed and joined late differ (-followed +late):\n%s", diff)
	}
}

func TestLinesSurviveALostStatus(t *testing.T) {
	states := followed()
	var out bytes.Buffer
	view := NewLines(&out)
	view.Show(Progress{Prototype: states[3]}, now)
	view.Show(Progress{Prototype: states[0]}, now)
	view.Show(Progress{Prototype: states[4]}, now)
	if got := strings.Count(out.String(), "  Snapshotting\n"); got != 1 {
		t.Errorf("the step after the loss was printed %d times:\n%s", got, out.String())
	}
}

func TestLiveBlocks(t *testing.T) {
	states := followed()
	failed := states[3].DeepCopy()
	failed.Status.Failure = &v1alpha1.Failure{Reason: "ImageFailed", Message: "m"}
	view := &Live{style: Style{Unicode: true}}
	var out bytes.Buffer
	for _, shown := range []Progress{
		{Driver: "the controller c does the work"},
		{Prototype: states[3], Driver: "this command does the work"},
		{Prototype: states[4], Trouble: "the API server has\nnot answered"},
		{Prototype: states[len(states)-1]},
		{Prototype: failed},
		{Prototype: tried()},
	} {
		out.WriteString(strings.Join(view.block(shown, now.Add(50*time.Second)), "\n") + "\n\n")
	}
	golden(t, "live.txt", out.Bytes())
}

func TestColoursOnlyWhereAllowed(t *testing.T) {
	state := Progress{Prototype: followed()[4], Trouble: "t"}
	plain := strings.Join((&Live{style: Style{}}).block(state, now), "\n")
	if strings.Contains(plain, "\x1b") {
		t.Errorf("escape sequences without colour: %q", plain)
	}
	for _, r := range plain {
		if r > 127 {
			t.Errorf("%q in a terminal that knows ASCII only", r)
		}
	}
	if colored := strings.Join((&Live{style: Style{Color: true}}).block(state, now), "\n"); !strings.Contains(colored, green) {
		t.Errorf("no colour: %q", colored)
	}
}

func TestStatusTables(t *testing.T) {
	report := Report{
		Pools: []PoolStatus{
			{
				Pool: cloud.Pool{Name: "pool1", Capacity: 3, Location: "westeurope", Traits: map[string]string{"generation": "V2", "architecture": "x64"},
					Recipe: cloud.Recipe{Image: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/SIG_g/images/kamino-pool1-prototype/versions/2026.03.01", Short: "SIG_g/images/kamino-pool1-prototype/versions/2026.03.01", Version: "2026.03.01", Bootstrap: []string{"customData", "extension vmssCSE"}}},
				Nodes: 3, ReadyNodes: 2,
				Versions: []VersionStatus{
					{Version: "2026.03.09", State: cloud.Pending, Percent: 40, ID: "id3", Verified: "rules=7 files=200 findings=0 tool=v1",
						Donor: "node-1", BuiltAt: now.Add(-time.Hour), Proof: "static/1/sha256:ab"},
					{Version: "2026.03.01", State: cloud.Complete, Percent: 100, ID: "id2", Donor: "node-2", BuiltAt: now.AddDate(0, 0, -8),
						Current: true, SizeGB: 30, Prototype: "p2"},
					{Version: "2026.02.01", State: cloud.Failed, ID: "id1", Error: "quota exceeded"},
					{Version: "2026.01.01", State: cloud.Complete, ID: "id0", Prior: true, Quarantined: "no network"},
				},
			},
			{Pool: cloud.Pool{Name: "pool2", Recipe: cloud.Recipe{Image: "ubuntu:2204", Version: "2026.01.01", Latest: true},
				Refusals: []cloud.Refusal{{Reason: "Windows", Message: "it runs Windows"}}}, Nodes: 1},
			{Pool: cloud.Pool{Name: "pool3"}, Nodes: 1, Versions: []VersionStatus{{Version: "2026.03.09", State: cloud.Pending, ID: "id4"}}, Error: "denied"},
		},
		Captures: []v1alpha1.Prototype{*followed()[4]},
	}
	var out bytes.Buffer
	for _, format := range []output.Format{output.Text, output.Wide} {
		if err := Status(&out, format, report, now); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	if err := Status(&out, output.Text, Report{}, now); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.txt", out.Bytes())
}

func TestPrototypeFormats(t *testing.T) {
	states := followed()
	p := states[len(states)-1]
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kamino"}}
	var out bytes.Buffer
	for _, format := range []output.Format{output.Table, output.Wide, output.Name, output.YAML, output.JSON} {
		out.WriteString("# " + string(format) + "\n")
		if err := Prototype(&out, format, p, now.Add(3*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), "managedFields") {
		t.Error("the API server's bookkeeping is shown")
	}
	golden(t, "prototype.txt", out.Bytes())
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := Age(now.Add(-d), now); got != want {
			t.Errorf("Age(%s) = %s, want %s", d, got, want)
		}
	}
	if got := Age(time.Time{}, now); got != None {
		t.Errorf("Age of no time = %s", got)
	}
}

func TestParseFormat(t *testing.T) {
	if _, err := output.ParseFormat("", output.JSON); err != nil {
		t.Error(err)
	}
	if _, err := output.ParseFormat("json", output.JSON); err != nil {
		t.Error(err)
	}
	if _, err := output.ParseFormat("wide", output.JSON, output.YAML); err == nil || !strings.Contains(err.Error(), "use json, yaml") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestHistoryShowsJoins in columns; an unjudged version has no zero.
func TestHistoryShowsJoins(t *testing.T) {
	h := history.History{Pool: "pool1", Counted: true, Versions: []history.Version{
		{Version: "2026.03.03", Use: history.Newer, State: cloud.Complete,
			Joins: &history.Joins{Judged: 3, Joined: 1, Failed: 2, Waiting: 4, MedianSeconds: 48}, Suspect: "its nodes did not join", Nodes: []string{}},
		{Version: "2026.03.02", Use: history.Current, State: cloud.Complete, Joins: &history.Joins{Waiting: 1}, Nodes: []string{}},
		{Version: "2026.03.01", Use: history.Prior, State: cloud.Complete, Nodes: []string{}},
	}}
	var out strings.Builder
	for format, want := range map[output.Format][]string{
		output.Table: {"2026.03.03 newer,suspect Complete 0 1/3 4 - retire -", "2026.03.02 current Complete 0 - 1 ", "2026.03.01 prior Complete 0 - - "},
		output.Wide:  {"2026.03.03 newer,suspect Complete - - 0 1/3 4 48s - - retire 3 2", "2026.03.01 prior Complete - - 0 - - - - - retire - -"},
		output.JSON:  {`"joins": { "judged": 3, "joined": 1, "failed": 2, "waiting": 4, "medianSeconds": 48 }`},
	} {
		out.Reset()
		if err := History(&out, format, h, nil, now); err != nil {
			t.Fatal(err)
		}
		message := strings.Join(strings.Fields(out.String()), " ")
		for _, part := range want {
			if !strings.Contains(message, part) {
				t.Errorf("%q does not say %q:\n%s", format, part, out.String())
			}
		}
	}
}
