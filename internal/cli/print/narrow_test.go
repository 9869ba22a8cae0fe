package print

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/selection"
)

// realistic has names as long as a cloud makes them.
type realistic struct {
	cloud, pool, image string
	nodes              [3]string
}

var clouds = []realistic{
	{"aws", "eks-workers-20260301-a7f3c1", "ami-0123456789abcdef0",
		[3]string{"ip-10-4-180-11.eu-central-1.compute.internal", "ip-10-4-180-112.eu-central-1.compute.internal",
			"ip-10-4-7-9.eu-central-1.compute.internal"}},
	{"azure", "k8s-agentpool1-24816321-vmss", "SIG_kubernetes/images/kamino-k8s-agentpool1-24816321-vmss/versions/2026.03.0902",
		[3]string{"k8s-agentpool1-24816321-vmss000003", "k8s-agentpool1-24816321-vmss00000a", "k8s-agentpool1-24816321-vmss00001z"}},
}

func (r realistic) capture() *v1alpha1.Prototype {
	p := tried()
	p.Name, p.Spec.Pool, p.Spec.Version, p.Spec.Donor.NodeName = r.pool+"-2026.03.0902", r.pool, "2026.03.0902", r.nodes[0]
	p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: "AwaitingPromotion"}}
	return p
}

func (r realistic) status(w io.Writer, format output.Format) error {
	failed := r.capture()
	failed.Status.Phase, failed.Status.Progress, failed.Status.Failure = v1alpha1.PhaseFailed, "",
		&v1alpha1.Failure{Reason: "GeneralizationFailed", Message: "it did"}
	version := func(name string, donor int) VersionStatus {
		return VersionStatus{Version: name, State: cloud.Complete, Donor: r.nodes[donor], BuiltAt: now.AddDate(0, 0, -8), Proof: "static/1+ours1/sha256:ab"}
	}
	report := Report{Captures: []v1alpha1.Prototype{*r.capture(), *failed}}
	for i := range 2 {
		p := PoolStatus{
			Pool:  cloud.Pool{Name: r.pool + []string{"", "2"}[i], Capacity: 12, Recipe: cloud.Recipe{Image: r.image, Version: "2026.03.0902", Latest: i == 1}},
			Nodes: 12, ReadyNodes: 11, Versions: []VersionStatus{version("2026.03.0902", 0), version("2026.03.01", 1), version("2026.02.01", 2)},
		}
		p.Versions[0].State, p.Versions[0].Percent = cloud.Pending, 40
		p.Versions[1].Current, p.Versions[2].Prior, p.Versions[2].Quarantined = true, true, "no network"
		report.Pools = append(report.Pools, p)
	}
	return Status(w, format, report, now)
}

func (r realistic) history(w io.Writer, format output.Format) error {
	h := history.History{Pool: r.pool, Counted: true, Recipe: cloud.Recipe{Version: "2026.03.0902"}}
	for i, use := range []history.Use{history.Newer, history.Current, history.Prior} {
		h.Versions = append(h.Versions, history.Version{
			Version: "2026.03.0902", Use: use, State: cloud.Complete, Donor: r.nodes[i], Lineage: "2026.03.01", Nodes: []string{r.nodes[0]},
			BuiltAt: now.AddDate(0, 0, -8), Joins: &history.Joins{Judged: 13, Joined: 11, Failed: 2, Waiting: 4, MedianSeconds: 148},
			Suspect: "its nodes did not join", Proof: "static/1+ours1/sha256:ab", Keep: i > 0,
		})
	}
	return History(w, format, h, nil, now)
}

func (r realistic) plan(w io.Writer, format output.Format, full bool) error {
	next := metav1.NewTime(now.Add(59 * time.Minute))
	p := PoolPlan{
		Pool: r.pool, Policy: "default-for-all-pools", Version: "2026.03.0902", Donor: r.nodes[0],
		Decision: v1alpha1.PoolDecision{Reason: "OutsideMaintenanceWindow", Message: "the window opens soon"},
		Status:   v1alpha1.PoolStatus{CurrentVersion: "2026.03.01", Candidates: 2, Nodes: 12, NextRun: &next},
		Nodes: []selection.NodeVerdict{
			{Node: r.nodes[0], PatchedAt: now.AddDate(0, 0, -1), ReadySince: now.Add(-20 * time.Hour)},
			{Node: r.nodes[1], PatchedAt: now.AddDate(0, 0, -1),
				Refusals: []cloud.Refusal{{Reason: "NotReadyLongEnough",
					Message: "node " + r.nodes[1] + " has been Ready for 12m of 1h: wait until 12:48, or lower selection.minReadyTime"}}},
		},
	}
	if full {
		return nodeTable(w, p, format == output.Wide, now)
	}
	return PoolPlans(w, format, []PoolPlan{p}, false, now)
}

func (r realistic) reservations(w io.Writer, format output.Format) error {
	return Reservations(w, format, ReservationReport{Nodes: []reservations.Node{
		{Name: r.nodes[0], State: reservations.ByReplacement, Since: now.Add(-time.Hour), Cordoned: true},
		{Name: r.nodes[1], State: reservations.Stripped, Cordoned: true, Ready: true},
	}}, now)
}

func (r realistic) auto(w io.Writer, format output.Format) error {
	return AutoResults(w, format, AutoReport{Pools: []AutoResult{
		{Pool: r.pool, Policy: "default", Result: AutoCaptured, Version: "2026.03.0902", Donor: r.nodes[0], Took: "42m10s", Reason: "Captured"},
		{Pool: r.pool + "2", Policy: "default", Result: AutoRefused, Code: 3,
			Message: "the cloud refuses snapshots of disk " + r.image + ": ask for a larger quota"},
	}})
}

// progress is the view of a terminal with 80 columns.
func (r realistic) progress(w io.Writer, _ output.Format) error {
	p := r.capture()
	p.Status.Progress = "the new node is not Ready yet: node " + r.nodes[1]
	NewLive(NewTerminal(w, func() (int, int) { return narrow, 40 }),
		Style{Unicode: true}).Show(Progress{Prototype: p, Driver: "this command does the work"}, now.Add(401*time.Second))
	return nil
}

// TestNarrowOutput: tables and the progress of a capture fit into 80 columns, with the names of real clouds. A wide table
// keeps every name.
func TestNarrowOutput(t *testing.T) {
	for _, c := range clouds {
		for name, write := range map[string]func(io.Writer, output.Format) error{
			"status": c.status, "history": c.history, "reservations": c.reservations, "auto": c.auto, "progress": c.progress,
			"plans": func(w io.Writer, f output.Format) error { return c.plan(w, f, false) },
			"plan":  func(w io.Writer, f output.Format) error { return c.plan(w, f, true) },
		} {
			var out, wide bytes.Buffer
			if err := write(&out, output.Text); err != nil {
				t.Fatal(err)
			}
			golden(t, "narrow/"+c.cloud+"-"+name+".txt", out.Bytes())
			tables, _, _ := strings.Cut(out.String(), "\n\nPrototype ") // free text follows
			for line := range strings.Lines(tables) {
				line = strings.NewReplacer("\x1b[K", "", "\x1b[J", "", reset, "").Replace(line)
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > narrow {
					t.Errorf("%s of %s: a line of %d columns: %s", name, c.cloud, n, line)
				}
			}
			if err := write(&wide, output.Wide); err != nil || name != "progress" && !strings.Contains(wide.String(), c.nodes[0]) {
				t.Errorf("%s of %s: the wide form does not name node %s (%v)", name, c.cloud, c.nodes[0], err)
			}
		}
	}
}
