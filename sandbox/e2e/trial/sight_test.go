package trial

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/control"
)

// nothingLeft demands that of a trial nothing is there but its verdict: no scale set, instance, Node, pod, Job, reservation or mark,
// and that the pool is as large as it was, but for what the test has ordered.
func (g *ground) nothingLeft(ordered int64) {
	g.Helper()
	if now, want := g.cloudPool().Capacity, g.before.Capacity+ordered; now != want {
		g.Errorf("pool %s is meant to have %d nodes, want %d", g.pool, now, want)
	}
	for _, m := range g.built() {
		g.Errorf("machine %s (%s) was built from the version, and stays", m.Node, m.ID)
	}
	machines := sandbox.MachinesOf(g.T, g.pool)
	if want := len(g.nodes) + int(ordered); len(machines) != want {
		g.Errorf("pool %s has %d machines, want %d", g.pool, len(machines), want)
	}
	for _, m := range machines {
		if m.Node == "" {
			continue // it has just been ordered
		}
		node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), m.Node, metav1.GetOptions{})
		if err != nil {
			g.Errorf("machine %s of pool %s: %v", m.ID, g.pool, err)
			continue
		}
		if node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" || node.Annotations[v1alpha1.TrialKey] != "" {
			g.Errorf("node %s is not as it was: %+v, %v", m.Node, node.Spec, node.Annotations)
		}
	}
	g.nothingOfItInTheCluster()
	g.nothingOfItInTheCloud()
}

func (g *ground) nothingOfItInTheCluster() {
	g.Helper()
	nodes, err := sandbox.Kube().CoreV1().Nodes().List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, node := range nodes.Items {
		if strings.Contains(node.Annotations[v1alpha1.TrialKey], g.set+"-") {
			g.Errorf("the Node %s of the trial is left", node.Name)
		}
	}
	pods, err := sandbox.Kube().CoreV1().Pods(g.namespace).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, pod := range pods.Items {
		g.Errorf("pod %s/%s is left", pod.Namespace, pod.Name)
	}
	jobs, err := sandbox.Kube().BatchV1().Jobs(g.namespace).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, job := range jobs.Items {
		g.Errorf("job %s/%s is left", job.Namespace, job.Name)
	}
}

func (g *ground) nothingOfItInTheCloud() {
	g.Helper()
	g.noSnapshotIsLeft()
	if sandbox.Azure() == nil {
		return // what a trial has beside a group is a machine, which is looked for
	}
	sets, err := sandbox.Azure().ScaleSets(g.Context())
	g.must(err)
	pools, err := sandbox.Pools(g.Context())
	g.must(err)
	for _, set := range sets {
		pooled := slices.ContainsFunc(pools, func(p control.Pool) bool { return strings.EqualFold(p.Group, *set.Name) })
		for key, value := range set.Tags {
			switch {
			case !pooled && key == cloud.TagPrototype && strings.HasPrefix(*value, g.set):
				g.Errorf("the scale set %s is left", *set.Name)
			case strings.EqualFold(*set.Name, g.set) && key == "kamino-trying" && *value != "":
				g.Errorf("scale set %s says still that %q is in it", *set.Name, *value)
			}
		}
	}
}

func (g *ground) noSnapshotIsLeft() {
	g.Helper()
	snapshots, err := sandbox.Snapshots(g.Context())
	g.must(err)
	for _, name := range snapshots {
		if strings.Contains(name, g.set) {
			g.Errorf("the snapshot %s is left", name)
		}
	}
}

// recipeUntouched demands that the pool builds its nodes as before.
func (g *ground) recipeUntouched() {
	g.Helper()
	if now := g.cloudPool(); now.Image != g.before.Image || !slices.Equal(now.Extensions, g.before.Extensions) {
		g.Errorf("the recipe of pool %s names %s, with the extensions %v", g.pool, now.Image, now.Extensions)
	}
}

// hasFailed demands that the capture has ended with a trial that failed at the check, with the version quarantined for it.
func (g *ground) hasFailed(check trial.Name) {
	g.Helper()
	p := g.prototype()
	if p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialFailed" ||
		!strings.Contains(p.Status.Failure.Message, string(check)) {
		g.Errorf("the Prototype is %s, with %+v", p.Status.Phase, p.Status.Failure)
	}
	if p.Status.Trial == nil {
		g.Fatal("the Prototype tells of no trial")
	}
	if p.Status.Trial.Result != v1alpha1.TrialFailed || !strings.Contains(p.Status.Trial.Message, string(check)) {
		g.Errorf("the trial is %s: %s", p.Status.Trial.Result, p.Status.Trial.Message)
	}
	failed := g.checks(p)[trial.Failed]
	if !slices.Equal(failed, []trial.Name{check}) {
		g.Errorf("failed have %v, want %s", failed, check)
	}
	tags := g.tags()
	if why, isBlame := trial.Blamed(tags[cloud.TagQuarantined]); !isBlame || !strings.HasPrefix(why, string(check)+": ") {
		g.Errorf("the version is quarantined for %q, want the check %s", tags[cloud.TagQuarantined], check)
	}
	if result, at := trial.Read(tags[cloud.TagTrial]); result != trial.Failed || at.IsZero() {
		g.Errorf("the version's tag %s is %q", cloud.TagTrial, tags[cloud.TagTrial])
	}
	g.recipeUntouched()
	g.nothingLeft(0)
}

// checks of the trial by their results, each of which must have a sentence. All must be there once a gate has not ended it.
func (g *ground) checks(p *v1alpha1.Prototype) map[trial.Result][]trial.Name {
	g.Helper()
	out := map[trial.Result][]trial.Name{}
	for _, c := range p.Status.Trial.Checks {
		if c.Result == "" || c.Message == "" || c.At == nil {
			g.Errorf("check %s says %q: %q, at %v", c.Name, c.Result, c.Message, c.At)
		}
		out[trial.Result(c.Result)] = append(out[trial.Result(c.Result)], trial.Name(c.Name))
	}
	return out
}

// hasPassed demands that the capture has succeeded, that every check says something, and that the version says that it has
// passed and is what the pool builds from.
func (g *ground) hasPassed(ordered int64) {
	g.Helper()
	p := g.prototype()
	if p.Status.Phase != v1alpha1.PhaseSucceeded || p.Status.Trial == nil {
		g.Fatalf("the Prototype is %s, with the trial %+v and the failure %+v", p.Status.Phase, p.Status.Trial, p.Status.Failure)
	}
	if p.Status.Trial.Result != v1alpha1.TrialPassed || p.Status.Trial.FinishedAt == nil || p.Status.Trial.Seen == nil {
		g.Errorf("the trial is %+v", p.Status.Trial)
	}
	checks := g.checks(p)
	skipped := []trial.Name{trial.Job}
	if g.job {
		skipped = nil
	}
	if len(checks[trial.Passed]) != len(trial.Names())-len(skipped) || !slices.Equal(checks[trial.Skipped], skipped) {
		g.Errorf("passed have %v, and skipped are %v", checks[trial.Passed], checks[trial.Skipped])
	}
	g.tagged(trial.Passed)
	if now := g.cloudPool(); g.version(now.Image) != p.Spec.Version {
		g.Errorf("pool %s builds from %s, want version %s", g.pool, now.Image, p.Spec.Version)
	}
	g.nothingLeft(ordered)
}

// tagged demands what the version says of its trial, and that nobody has quarantined it.
func (g *ground) tagged(want trial.Result) {
	g.Helper()
	tags := g.tags()
	if result, _ := trial.Read(tags[cloud.TagTrial]); result != want || tags[cloud.TagQuarantined] != "" {
		g.Errorf("the version has the tags %v, want the result %q", tags, want)
	}
}
