package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/trialnode"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// userJob is a Job of the user. Its container is a real process, because the sandbox's nodes run this image's
// program. The trial changes its name and namespace.
const userJob = `apiVersion: batch/v1
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

// createUserJob creates the ConfigMap of a Job that runs kamino with an argument, and returns its name.
func createUserJob(e *sandboxtest.Env, argument string) string {
	e.Helper()
	created, err := e.Kube().CoreV1().ConfigMaps(e.PodNamespace).Create(e.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "smoke"},
		Data:       map[string]string{trialnode.JobKey: strings.ReplaceAll(userJob, "ARGUMENT", argument)},
	}, metav1.CreateOptions{})
	e.Must(err)
	return created.Name
}

// watchJobs watches the namespace's Jobs. The returned function ends the watch, and returns each Job in its last
// state.
func watchJobs(e *sandboxtest.Env) func() []batchv1.Job {
	e.Helper()
	watch, err := e.Kube().BatchV1().Jobs(e.PodNamespace).Watch(e.Context(), metav1.ListOptions{})
	e.Must(err)
	last := make(chan []batchv1.Job, 1)
	go func() {
		var jobs []batchv1.Job
		for event := range watch.ResultChan() {
			if job, is := event.Object.(*batchv1.Job); is {
				jobs = append(slices.DeleteFunc(jobs, func(j batchv1.Job) bool { return j.UID == job.UID }), *job)
			}
		}
		last <- jobs
	}()
	return func() []batchv1.Job {
		watch.Stop()
		return <-last
	}
}

// assertOneJob asserts that exactly one Job existed, with a condition.
func assertOneJob(e *sandboxtest.Env, jobs []batchv1.Job, want batchv1.JobConditionType) {
	e.Helper()
	if len(jobs) != 1 || !slices.ContainsFunc(jobs[0].Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == want && c.Status == corev1.ConditionTrue
	}) {
		e.Errorf("the Jobs were %+v, want one with the condition %s", jobs, want)
	}
}

// TestGoodVersionPasses with a Job of the user's. Only the promotion writes to the pool. On AWS the donor's disk is copied.
func TestGoodVersionPasses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "good")
	jobs := watchJobs(e)
	e.Start(captureArgs(e, generous, "job: "+createUserJob(e, "version"))...).ExpectExit(0)
	assertPassed(e)
	if sandbox.AWS() != nil {
		e.AssertCopied(e.Before, e.Donor)
	}
	assertOneJob(e, jobs(), batchv1.JobComplete)
	if writes := e.CountWrites("pool patch"); writes != 1 && sandbox.Azure() != nil {
		t.Errorf("the pool was written %d times, want once", writes)
	}
}

// TestJobOfTheUserFails: the user's Job decides.
func TestJobOfTheUserFails(t *testing.T) {
	t.Parallel()
	onlyOnAzure(t)
	e := newEnv(t, "jobbad")
	jobs := watchJobs(e)
	e.Start(captureArgs(e, generous, "job: "+createUserJob(e, "no-such-command"))...).
		ExpectExit(exitFailed, string(trial.Job), "the Job has failed")
	assertFailedAt(e, trial.Job)
	assertOneJob(e, jobs(), batchv1.JobFailed)
}

// TestKilledDuringATrial: the next command continues with the existing node.
func TestKilledDuringATrial(t *testing.T) {
	t.Parallel()
	onlyOnAzure(t)
	e := newEnv(t, "killed")
	first := e.Start(captureArgs(e, generous)...)
	tried := e.WaitPrototype("the trial has an instance", func(p *v1alpha1.Prototype) bool {
		return p.Status.Trial != nil && p.Status.Trial.Instance != "" && p.Status.Trial.Result == v1alpha1.TrialPending
	}).Status.Trial
	e.Kill(first)
	e.Eventually("one machine is built from the version", func() (bool, string) {
		built := e.MachinesOfVersions()
		return len(built) == 1, fmt.Sprintf("%+v", built)
	})
	e.Start(captureArgs(e, generous)...).ExpectExit(0)
	if now := e.Prototype().Status.Trial; now.Attempt != 1 || now.Instance != tried.Instance {
		t.Errorf("attempt %d was on %s, the first on %s", now.Attempt, now.Instance, tried.Instance)
	}
	assertPassed(e, trial.Job)
}
