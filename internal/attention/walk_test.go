package attention_test

import (
	"bytes"
	"html"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/dashboard/web/page"
	"github.com/kamino-dev/kamino/internal/doctor"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// alert is an alert of the chart.
type alert struct {
	Alert       string
	Labels      struct{ Severity string }
	Annotations struct{ Summary, Description string }
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("../../charts/kamino/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Alerts []alert }
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Alerts) < 20 {
		t.Fatalf("%d alerts, %v", len(file.Alerts), err)
	}
	return file.Alerts
}

// expand is an annotation as Prometheus writes it.
func expand(t *testing.T, text, value string, labels map[string]string) string {
	t.Helper()
	parsed, err := template.New("").Funcs(template.FuncMap{"humanizeDuration": func(s string) string { return s }}).
		Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, map[string]any{"Labels": labels, "Value": value}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// state is the state behind an alert.
type state struct {
	kind   attention.Kind
	facts  attention.Facts
	labels map[string]string
	value  string
	// commands are in the description of the alert. An alert has fewer facts than the list, and may name another command.
	commands []string
	// ownSummary: the alert knows less than the list, and must not claim more.
	ownSummary bool
}

func pool(change func(*v1alpha1.PoolStatus)) attention.Facts {
	return attention.Facts{Policies: []v1alpha1.PrototypePolicy{attention.PolicyOf(change)}}
}

// says sets a decision that a condition repeats.
func says(kind, reason, message string) attention.Facts {
	f := pool(func(s *v1alpha1.PoolStatus) { s.Decision = &v1alpha1.PoolDecision{Reason: reason, Message: message} })
	f.Policies[0] = attention.With(f.Policies[0], kind, reason, "pool pool1: "+message)
	return f
}

func prototype(p v1alpha1.Prototype, change func(*v1alpha1.Prototype)) attention.Facts {
	if change != nil {
		change(&p)
	}
	return attention.Facts{Prototypes: []v1alpha1.Prototype{p}}
}

// older makes the policy older.
func older(f attention.Facts, d time.Duration) attention.Facts {
	f.Policies[0].CreationTimestamp = metav1.NewTime(attention.Now.Add(-d))
	return f
}

func fails(reason string) func(*v1alpha1.Prototype) {
	return func(p *v1alpha1.Prototype) { p.Status.Failure = &v1alpha1.Failure{Reason: reason, Message: "why"} }
}

// states make the state of each alert.
func states() map[string]state {
	of := map[string]string{"pool": "pool1"}
	because := func(reason string) map[string]string {
		return map[string]string{"pool": "pool1", "policy": "nightly", "reason": reason}
	}
	waiting := prototype(attention.Capture(v1alpha1.PhasePublishing), nil)
	waiting.Lease = attention.Dead
	lost := prototype(attention.Capture(v1alpha1.PhasePublishing), func(p *v1alpha1.Prototype) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(cloud.Denied), Message: "may not"}}
	})
	images := pool(func(s *v1alpha1.PoolStatus) { s.Images = 8 })
	images.Policies[0] = attention.With(images.Policies[0], v1alpha1.ConditionDegraded, v1alpha1.PolicyManyImages, imagecount.Sentence("pool1", 8)+"; more")
	joins := pool(func(s *v1alpha1.PoolStatus) {
		s.JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.08", State: string(joinhealth.Failing), Message: "2 of the last 2 nodes failed"}
	})
	noImage := func(candidates int32) attention.Facts {
		return pool(func(s *v1alpha1.PoolStatus) { s.CurrentVersion, s.ImageBuiltAt, s.Candidates = "", nil, candidates })
	}
	missing := cloud.Refuse("CurrentVersionMissing", "the recipe names version 2026.03.08, which no longer exists", "roll back with `kamino rollback pool1`")
	built := metav1.NewTime(attention.Now.Add(-attention.OldImage - time.Hour))
	return map[string]state{
		"KaminoControllerAbsent": {kind: attention.ControllerAbsent, facts: waiting, ownSummary: true, commands: []string{"kamino status"}},
		"KaminoNoLeader":         {kind: attention.ControllerAbsent, facts: waiting, commands: []string{"kamino status"}},
		"KaminoCaptureFailed": {kind: attention.CaptureFailed, labels: because("DrainTimeout"), commands: []string{"kamino status pool1"},
			facts: prototype(attention.Capture(v1alpha1.PhaseFailed), fails("DrainTimeout"))},
		"KaminoPolicyStalled": {kind: attention.PolicyStalled, labels: because("TooManyFailures"),
			facts: says(v1alpha1.ConditionStalled, v1alpha1.PolicyTooManyFailures, "3 captures failed")},
		"KaminoCurrentVersionMissing": {kind: attention.CurrentVersionMissing, labels: of, commands: []string{"kamino doctor pool1"},
			facts: attention.Facts{Pools: []attention.Pool{{Name: "pool1", Gone: &missing}}}},
		"KaminoPoolRolledBack": {kind: attention.PoolRolledBack, labels: of, commands: []string{"kamino acknowledge pool1"},
			facts: says(v1alpha1.ConditionStalled, v1alpha1.PolicyRolledBack, "pool pool1 rolled back")},
		"KaminoNodesDoNotJoin": {kind: attention.NodesDoNotJoin, labels: of, facts: joins, commands: []string{"kamino plan pool1"}},
		"KaminoPatchesNotChecked": {kind: attention.PatchesNotChecked, labels: because("RepositoryUnreachable"), facts: pool(func(s *v1alpha1.PoolStatus) {
			s.Patches = &v1alpha1.PatchesStatus{PendingPatches: v1alpha1.PendingPatches{Reason: "RepositoryUnreachable", Message: "no route"}}
		})},
		"KaminoPatchesQuarantined": {kind: attention.PatchesQuarantined, labels: of, commands: []string{"kamino plan pool1"},
			facts: says(v1alpha1.ConditionDegraded, v1alpha1.PolicyPatchesQuarantined, "the pending patches failed")},
		"KaminoTrialFailed": {kind: attention.TrialFailed, labels: of, facts: prototype(attention.Capture(v1alpha1.PhaseFailed), fails("TrialFailed")),
			commands: []string{"kamino history pool1"}},
		"KaminoAwaitingPromotion": {kind: attention.AwaitingPromotion, labels: of, facts: prototype(attention.Capture(v1alpha1.PhaseAwaitingPromotion), nil),
			commands: []string{"kamino promote pool1 VERSION"}},
		"KaminoManyImages": {kind: attention.ManyImages, labels: of, value: "8", facts: images, commands: []string{"kamino rebuild"}},
		"KaminoCaptureRefused": {kind: attention.CaptureRefused, labels: because("OnlyReadyNode"),
			facts: says(v1alpha1.ConditionDegraded, "OnlyReadyNode", "1 of 1 nodes is Ready")},
		"KaminoDonorHeldLong": {kind: attention.DonorHeldLong, labels: of, facts: prototype(attention.Held(v1alpha1.PhaseStarting, 2*time.Hour), nil),
			commands: []string{"kamino status pool1", "kamino cancel PROTOTYPE"}},
		"KaminoImageOld": {kind: attention.ImageOld, labels: of, value: "31d", facts: pool(func(s *v1alpha1.PoolStatus) { s.ImageBuiltAt = &built }),
			commands: []string{"kamino plan pool1"}},
		"KaminoNoCandidates":  {kind: attention.NoCandidates, labels: of, facts: older(noImage(0), 48*time.Hour), commands: []string{"kamino plan pool1"}},
		"KaminoNeverCaptured": {kind: attention.NeverCaptured, labels: of, facts: older(noImage(2), 96*time.Hour), commands: []string{"kamino plan pool1"}},
		"KaminoNodesFromGenericImage": {kind: attention.NodesFromGenericImage, labels: of, facts: pool(func(s *v1alpha1.PoolStatus) {
			s.CurrentVersion, s.ImageBuiltAt, s.LastResult = "", nil, &v1alpha1.CaptureResult{Result: v1alpha1.PhaseSucceeded}
		}), commands: []string{"kamino status pool1"}},
		"KaminoNotAllowed": {kind: attention.NotAllowed, labels: map[string]string{"kind": "Denied", "source": "prototype"}, facts: lost,
			commands: []string{"kamino doctor"}},
		"KaminoThrottled": {kind: attention.Throttled, facts: attention.Facts{Pools: []attention.Pool{
			{Name: "pool1", Fault: "429 Too Many Requests", FaultKind: cloud.Throttled}}}},
	}
}

// TestEveryAlert makes the state of each alert: no place that a person looks at is silent, and all have the words of the alert.
func TestEveryAlert(t *testing.T) {
	worlds := states()
	for _, a := range alerts(t) {
		world, is := worlds[a.Alert]
		if !is {
			t.Errorf("no state for %s: add the state to states, and its item to package attention", a.Alert)
			continue
		}
		delete(worlds, a.Alert)
		t.Run(a.Alert, func(t *testing.T) {
			world.facts.Now = attention.Now
			if len(world.facts.Pools) == 0 {
				world.facts.Pools = []attention.Pool{{Name: "pool1"}}
			}
			items := attention.List(world.facts)
			at := slices.IndexFunc(items, func(i attention.Item) bool { return i.Kind == world.kind })
			if at < 0 || len(items) != 1 {
				t.Fatalf("no item %s, or others as well: %+v", world.kind, items)
			}
			i := items[at]
			if summary := expand(t, a.Annotations.Summary, world.value, world.labels); summary != i.Title && !world.ownSummary {
				t.Errorf("the summary is %q, and the title %q", summary, i.Title)
			}
			if a.Labels.Severity != string(i.Severity) {
				t.Errorf("the severity is %s, and that of the item %s", a.Labels.Severity, i.Severity)
			}
			description := expand(t, a.Annotations.Description, world.value, world.labels)
			for _, command := range world.commands {
				if !strings.Contains(description, command) {
					t.Errorf("the description lacks %s: %s", command, description)
				}
			}
			everywhere(t, world.facts, i)
		})
	}
	for name := range worlds {
		t.Errorf("%s is no alert", name)
	}
}

// reasons are the reasons of a section of the reference.
func reasons(t *testing.T, where string) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reasons.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sections []struct {
		Where   string
		Reasons []struct{ Names []string }
	}
	if err := yaml.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		for _, reason := range section.Reasons {
			if section.Where == where {
				names = append(names, reason.Names...)
			}
		}
	}
	if len(names) < 5 {
		t.Fatalf("%s has the reasons %v", where, names)
	}
	return names
}

// TestEveryReason makes each reason of a condition that needs a person: each place shows the words of the condition.
func TestEveryReason(t *testing.T) {
	ofPolicies := slices.Concat(reasons(t, "condition of a policy"), reasons(t, "a capture does not begin"))
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionDegraded} {
		for _, reason := range ofPolicies {
			p := attention.With(attention.PolicyOf(), kind, reason, "What is wrong with pool pool1 is this")
			said(t, reason, attention.Facts{Policies: []v1alpha1.PrototypePolicy{p}})
		}
	}
	for _, reason := range slices.Concat(reasons(t, "a capture is stalled"), reasons(t, "error of the cloud")) {
		said(t, reason, prototype(attention.Held(v1alpha1.PhaseStarting, time.Minute), func(p *v1alpha1.Prototype) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason,
				Message: "What is wrong with pool pool1 is this"}}
		}))
	}
	for _, reason := range reasons(t, "a capture failed") {
		if reason != "NothingToPatch" && reason != "Quarantined" && reason != "Superseded" { // a person wanted it, or the pool is up to date
			said(t, reason, prototype(attention.Capture(v1alpha1.PhaseFailed), func(p *v1alpha1.Prototype) {
				p.Status.Failure = &v1alpha1.Failure{Reason: reason, Message: "What is wrong with pool pool1 is this"}
			}))
		}
	}
}

// said checks that one item has the reason and the words of the condition, everywhere.
func said(t *testing.T, reason string, f attention.Facts) {
	t.Helper()
	f.Now, f.Lease, f.Pools = attention.Now, attention.Works, []attention.Pool{{Name: "pool1"}}
	items := attention.List(f)
	if len(items) != 1 || items[0].Reason != reason || items[0].Cause != "What is wrong with pool pool1 is this" {
		t.Errorf("%s: %+v", reason, items)
		return
	}
	everywhere(t, f, items[0])
}

// everywhere checks the places that a person looks at: status, doctor and the dashboard.
func everywhere(t *testing.T, f attention.Facts, i attention.Item) {
	t.Helper()
	var status, checked bytes.Buffer
	if err := print.Status(&status, output.Table, print.Report{Attention: attention.List(f)}, f.Now); err != nil {
		t.Fatal(err)
	}
	f2 := doctor.FindingOf(i)
	if f2.Level == doctor.OK {
		t.Errorf("doctor says ok: %+v", f2)
	}
	if err := print.Doctor(&checked, output.Table, doctor.Report{Findings: []doctor.Finding{f2}}); err != nil {
		t.Fatal(err)
	}
	facts := dashboard.Facts{Now: f.Now, Policies: f.Policies, Lease: f.Lease}
	shown := dashboard.PoolFacts{History: history.History{Pool: "pool1", Recipe: cloud.Recipe{Version: "2026.03.08"}}, Prototypes: f.Prototypes}
	for _, p := range f.Pools {
		shown.History.Gone, shown.Trouble, shown.TroubleKind = p.Gone, p.Fault, p.FaultKind
	}
	facts.Pools = []dashboard.PoolFacts{shown}
	seen := string(page.HTML(dashboard.Of(facts)))
	for place, text := range map[string]string{"status": status.String(), "doctor": checked.String(), "the dashboard": html.UnescapeString(seen)} {
		text = strings.Join(strings.Fields(text), " ")
		for _, words := range []string{i.Title, i.Next, i.Command} {
			if !strings.Contains(text, words) {
				t.Errorf("%s lacks %q:\n%s", place, words, text)
			}
		}
	}
	for _, line := range strings.Split(status.String(), "\n") {
		if len([]rune(line)) > 80 && !strings.Contains(line, "Run: ") {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
}
