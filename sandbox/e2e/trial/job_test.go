package trial

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/tryout"
)

// ownJob is a Job of the user's. Its container is a real process: the sandbox's nodes run this image's program. Its name and its
// place are not the ones that the trial gives it.
const ownJob = `apiVersion: batch/v1
kind: Job
metadata:
  name: own
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {nowhere: to-be-found}
      containers:
        - name: own
          image: ghcr.io/kamino-dev/kamino:trial
          args: [ARGUMENT]
`

// TestJobOfTheUsers: the Job is run by the cluster's own controller of Jobs on the trial node, and has the last word of the checks.
func TestJobOfTheUsers(t *testing.T) {
	t.Parallel()
	t.Run("succeeds", func(t *testing.T) {
		g := newGround(t, "jobgood", apart)
		seen := g.jobsSeen()
		g.capture(ample, "--trial-job", g.ownJob("version")).ends(t, 0)
		g.job = true
		g.hasPassed(0)
		testRan(g, seen(), batchv1.JobComplete)
	})
	t.Run("fails", func(t *testing.T) {
		g := newGround(t, "jobbad", apart)
		seen := g.jobsSeen()
		g.capture(ample, "--trial-job", g.ownJob("no-such-command")).ends(t, exitFailed, string(trial.Job), "the Job has failed")
		g.hasFailed(trial.Job)
		testRan(g, seen(), batchv1.JobFailed)
	})
}

// ownJob makes the ConfigMap of a Job that calls kamino so, and returns its name.
func (g *ground) ownJob(argument string) string {
	g.Helper()
	made, err := sandbox.Kube().CoreV1().ConfigMaps(g.namespace).Create(g.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "smoke"},
		Data:       map[string]string{tryout.JobKey: strings.ReplaceAll(ownJob, "ARGUMENT", argument)},
	}, metav1.CreateOptions{})
	g.must(err)
	return made.Name
}

// jobsSeen watches the namespace's Jobs. What it returns ends that, and tells each Job as it was last seen.
func (g *ground) jobsSeen() func() []batchv1.Job {
	g.Helper()
	watch, err := sandbox.Kube().BatchV1().Jobs(g.namespace).Watch(g.Context(), metav1.ListOptions{})
	g.must(err)
	last := make(chan []batchv1.Job, 1)
	go func() {
		var seen []batchv1.Job
		for e := range watch.ResultChan() {
			job, is := e.Object.(*batchv1.Job)
			if !is {
				continue
			}
			seen = slices.DeleteFunc(seen, func(s batchv1.Job) bool { return s.UID == job.UID })
			seen = append(seen, *job)
		}
		last <- seen
	}()
	return func() []batchv1.Job {
		watch.Stop()
		return <-last
	}
}

// testRan demands that there was one Job, and that its controller has said of it how it ended.
func testRan(g *ground, jobs []batchv1.Job, want batchv1.JobConditionType) {
	g.Helper()
	if len(jobs) != 1 {
		g.Fatalf("there were %d Jobs, want one", len(jobs))
	}
	if !slices.ContainsFunc(jobs[0].Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == want && c.Status == corev1.ConditionTrue
	}) {
		g.Errorf("the Job ended as %+v, want %s", jobs[0].Status, want)
	}
}
