// Package example holds a view for tests and for the screenshots of the documentation.
package example

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// Now is the time of the view.
var Now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return Now.Add(-d) }

const day = 24 * time.Hour

// View is a cluster with three pools: a quiet pool, a pool with a running trial and a version without approval, and a pool
// that is frozen after an automatic rollback.
func View() dashboard.View { return dashboard.Of(Facts()) }

// Facts are the facts of View.
func Facts() dashboard.Facts {
	return dashboard.Facts{
		Now: Now, Cluster: "prod-eu-1", Pools: []dashboard.PoolFacts{general(), gpu(), spot()}, Policies: policies(),
		Events: []corev1.Event{
			event("general-2026.03.08", 2*day, "Reserved", "node general-7 is reserved for version 2026.03.08 of pool general; the drain follows"),
			event("general-2026.03.08", 47*time.Hour, "Promoted", "new nodes of pool general use the image of node general-7"),
			event("gpu-2026.03.10", 40*time.Minute, "Reserved", "node gpu-1 is reserved for version 2026.03.10 of pool gpu; the drain follows"),
		},
	}
}

func event(name string, d time.Duration, reason, message string) corev1.Event {
	return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Prototype", Name: name}, EventTime: metav1.NewMicroTime(ago(d)), Reason: reason,
		Message: message, Type: corev1.EventTypeNormal}
}

func names(prefix string, from, n int) []string {
	all := []string{}
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, from+i))
	}
	return all
}

func joined(n int, median time.Duration) *history.Joins {
	return &history.Joins{Judged: n, Joined: n, MedianSeconds: int64(median.Seconds())}
}

func general() dashboard.PoolFacts {
	p := dashboard.PoolFacts{Nodes: 7, Ready: 6, Capacity: 7, History: history.History{
		Pool: "general", PoolID: "general", Recipe: cloud.Recipe{Version: "2026.03.08"}, Counted: true, Prior: "2026.02.22",
		Versions: []history.Version{
			{Version: "2026.03.08", Use: history.Current, State: cloud.Complete, Donor: "general-7", Lineage: "2026.02.22", BuiltAt: ago(2 * day),
				Nodes: names("general", 10, 3), Joins: joined(3, 38*time.Second), Why: "named by the recipe"},
			{Version: "2026.02.22", Use: history.Prior, State: cloud.Complete, Donor: "general-3", Lineage: "2026.02.08", BuiltAt: ago(15 * day),
				Nodes: names("general", 6, 2), Joins: joined(2, 41*time.Second), Why: "rollback target"},
			{Version: "2026.02.08", Use: history.Older, State: cloud.Complete, Donor: "general-1", BuiltAt: ago(29 * day), Nodes: []string{},
				Why: "among the 3 versions to keep"},
		},
		Others: names("general", 1, 2),
	}}
	p.Changes = map[string]string{"2026.03.08": "compared with version 2026.02.22: kernel 6.1.0-28 -> 6.1.0-31; packages: 14 changed, 0 added, " +
		"1 removed; CVEs fixed: 9"}
	p.Report = savings()
	for i := range 12 {
		at, took, version := time.Duration(12-i)*2*day, 6*time.Minute+time.Duration(i*17%60)*time.Second, ""
		if i > 5 {
			took, version = 36*time.Second+time.Duration(i*7%11)*time.Second, "2026.02.22"
		}
		if i > 9 {
			version = "2026.03.08"
		}
		p.Joins = append(p.Joins, joinhealth.Join{Node: fmt.Sprintf("general-%d", i), Version: version, Running: ago(at),
			Outcome: joinhealth.Joined, Took: took})
	}
	p.Prototypes = []v1alpha1.Prototype{capture("general", "2026.03.08", "general-7", 2*day, v1alpha1.PhaseSucceeded,
		"Preflight", 3*time.Second, "Reserving", time.Second, "Draining", 2*time.Minute, "Generalizing", 48*time.Second, "Stopping", 20*time.Second,
		"Snapshotting", 35*time.Second, "Starting", 15*time.Second, "WaitingReady", 40*time.Second, "Publishing", 12*time.Minute, "RunningTrial",
		9*time.Minute, "Promoting", 4*time.Second, "Succeeded", time.Duration(0))}
	return p
}

// savings is the report of a pool whose nodes of versions are Ready ten times as fast.
func savings() report.Report {
	f := report.Facts{Pool: "general", Since: ago(30 * day), Now: Now, Counted: true, PricePerGBMonth: -1, Versions: []report.VersionFacts{
		{Version: "2026.03.08", BuiltAt: ago(2 * day), PatchedAt: ago(3 * day), SizeGB: 30},
		{Version: "2026.02.22", BuiltAt: ago(15 * day), PatchedAt: ago(16 * day), SizeGB: 30},
	}}
	for i := range 7 {
		n := report.NodeFacts{Version: "2026.03.08", Created: ago(time.Duration(i) * 5 * time.Hour)}
		n.Ready = n.Created.Add(40 * time.Second)
		if i > 4 {
			n.Version, n.Created, n.PatchedAt = "", ago(20*day), ago(18*day)
			n.Ready = n.Created.Add(6 * time.Minute)
		}
		f.Nodes = append(f.Nodes, n)
	}
	return report.Of(f)
}

// capture has steps as pairs of a phase and its duration. The last step of a running capture has no end.
func capture(pool, version, donor string, began time.Duration, phase v1alpha1.Phase, steps ...any) v1alpha1.Prototype {
	p := v1alpha1.Prototype{}
	p.Name, p.CreationTimestamp = pool+"-"+version, metav1.NewTime(ago(began))
	p.Spec = v1alpha1.PrototypeSpec{Pool: pool, Version: version, Donor: v1alpha1.Donor{NodeName: donor, ProviderID: "example://" + donor}}
	p.Status.Phase = phase
	at := ago(began)
	for i := 0; i < len(steps); i += 2 {
		step := v1alpha1.Step{Phase: v1alpha1.Phase(steps[i].(string)), StartedAt: metav1.NewMicroTime(at)}
		at = at.Add(steps[i+1].(time.Duration))
		if end := metav1.NewMicroTime(at); i+2 < len(steps) {
			step.FinishedAt = &end
		}
		p.Status.Steps = append(p.Status.Steps, step)
	}
	return p
}

func gpu() dashboard.PoolFacts {
	p := dashboard.PoolFacts{Nodes: 4, Ready: 4, Capacity: 4, History: history.History{
		Pool: "gpu", PoolID: "gpu", Recipe: cloud.Recipe{Image: "ubuntu-24.04", Version: "2026.03.01"}, Counted: true,
		Versions: []history.Version{
			{Version: "2026.03.10", Use: history.Newer, State: cloud.Complete, Donor: "gpu-1", Lineage: "2026.03.01", BuiltAt: ago(30 * time.Minute),
				Nodes: []string{}, Why: "newer than the version in the recipe"},
			{Version: "2026.03.09", Use: history.Newer, State: cloud.Complete, Donor: "gpu-2", Lineage: "2026.02.15", BuiltAt: ago(20 * time.Hour),
				Nodes: []string{}, Why: "newer than the version in the recipe"},
			{Version: "2026.03.01", Use: history.Current, State: cloud.Complete, Donor: "gpu-3", Lineage: "2026.02.15", BuiltAt: ago(8 * day),
				Nodes: names("gpu", 1, 3), Joins: joined(3, 52*time.Second), Why: "named by the recipe"},
			{Version: "2026.02.15", Use: history.Prior, State: cloud.Complete, Donor: "gpu-4", BuiltAt: ago(22 * day), Nodes: names("gpu", 4, 1),
				Joins: joined(1, 55*time.Second), Why: "rollback target"},
		},
	}}
	trial := capture("gpu", "2026.03.10", "gpu-1", 40*time.Minute, v1alpha1.PhaseRunningTrial,
		"Preflight", 4*time.Second, "Reserving", time.Second, "Draining", 3*time.Minute, "Generalizing", 50*time.Second, "Stopping", 20*time.Second,
		"Snapshotting", 30*time.Second,
		"Starting", 15*time.Second, "WaitingReady", 45*time.Second, "Publishing", 25*time.Minute, "RunningTrial", 9*time.Minute)
	trial.Status.Progress = "soaking for 4 more minutes"
	trial.Status.Trial = &v1alpha1.TrialStatus{Result: v1alpha1.TrialPending, Checks: []v1alpha1.TrialCheck{
		{Name: "Joined", Result: v1alpha1.TrialPassed, Message: "Ready after 49s"}, {Name: "DaemonSets", Result: v1alpha1.TrialPassed},
		{Name: "Network", Result: v1alpha1.TrialPassed}, {Name: "Soak", Result: v1alpha1.TrialPending, Message: "waiting"},
	}}
	awaits := capture("gpu", "2026.03.09", "gpu-2", 20*time.Hour, v1alpha1.PhaseAwaitingPromotion, "Publishing", 25*time.Minute,
		"AwaitingPromotion", time.Duration(0))
	p.Prototypes = []v1alpha1.Prototype{trial, awaits}
	return p
}

func spot() dashboard.PoolFacts {
	p := dashboard.PoolFacts{Nodes: 5, Ready: 5, Capacity: 5, History: history.History{
		Pool: "spot", PoolID: "spot", Recipe: cloud.Recipe{Version: "2026.02.20"}, Counted: true,
		Versions: []history.Version{
			{Version: "2026.03.06", Use: history.Quarantined, State: cloud.Complete, Quarantined: "2 of its first 2 nodes did not join",
				Donor: "spot-2", Lineage: "2026.02.20", BuiltAt: ago(3 * day), Nodes: []string{}, Why: "quarantined",
				Joins: &history.Joins{Judged: 2, Failed: 2}},
			{Version: "2026.02.20", Use: history.Current, State: cloud.Complete, Donor: "spot-1", BuiltAt: ago(17 * day), Nodes: names("spot", 1, 5),
				Joins: joined(5, 44*time.Second), Why: "named by the recipe"},
		},
		AutoRollbacks: []history.AutoRollback{{Version: "2026.03.06", To: "2026.02.20", At: ago(70 * time.Hour),
			Why: "2 of its first 2 nodes did not join", Bad: true, Arrived: true}},
	}}
	for i := range 7 {
		j := joinhealth.Join{Node: fmt.Sprintf("spot-%d", i), Version: "2026.02.20", Running: ago(time.Duration(10-i) * day),
			Outcome: joinhealth.Joined, Took: 40*time.Second + time.Duration(i)*time.Second}
		if i > 4 {
			j.Version, j.Outcome, j.Took, j.Running = "2026.03.06", joinhealth.Failed, 0, ago(72*time.Hour-time.Duration(i)*time.Hour)
		}
		p.Joins = append(p.Joins, j)
	}
	return p
}

func policies() []v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name = "all"
	next := metav1.NewTime(Now.Add(13 * time.Hour))
	p.Status.Pools = []v1alpha1.PoolStatus{
		{Name: "general", ID: "general",
			Decision: &v1alpha1.PoolDecision{Reason: "NoNewerPatch", Message: "no node is patched after the image of version 2026.03.08"}, NextRun: &next,
			JoinHealth: &v1alpha1.JoinHealthStatus{State: "Confirmed", Message: "3 of 3 nodes joined"}},
		{Name: "gpu", ID: "gpu", Decision: &v1alpha1.PoolDecision{Reason: "Capturing",
			Message: "node gpu-1 is captured as version 2026.03.10 by prototype gpu-2026.03.10"}},
		{Name: "spot", ID: "spot", Decision: &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyRolledBack, Message: "pool spot rolled back automatically",
			Remedy: "`kamino acknowledge spot`"}},
	}
	return []v1alpha1.PrototypePolicy{p}
}
