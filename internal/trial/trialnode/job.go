package trialnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/selection/expression"
	"github.com/kamino-dev/kamino/internal/trial"
)

// JobKey is the key of a ConfigMap with the user's Job.
const JobKey = "job.yaml"

// maxJobTime and maxBackoff limit the time and the retries of the user's Job.
const (
	maxJobTime = 10 * time.Minute
	maxBackoff = 3
)

// errJob marks a missing or unsuitable Job. The trial then has no result.
var errJob = errors.New("the Job of settings.trial.job cannot be run")

// Check checks the expressions and the Job in the settings before a capture.
func (t *Observer) Check(ctx context.Context, settings v1alpha1.Settings) (refusals []cloud.Refusal, err error) {
	if !settings.HasTrial() {
		return nil, nil
	}
	for _, e := range settings.Trial.Expect {
		if _, err := expression.CompileExpectation(e.Expression); err != nil {
			refusals = append(refusals, cloud.Refuse(trial.ChecksInvalid, fmt.Sprintf("settings.trial.expect %s %v", e.Name, err),
				"fix the expression, or remove the expression from settings.trial.expect"))
		}
	}
	if settings.Trial.Job == "" {
		return refusals, nil
	}
	_, err = t.userJob(ctx, settings.Trial.Job)
	if errors.Is(err, errJob) {
		return append(refusals, cloud.Refuse(trial.ChecksInvalid, err.Error(), "fix the Job, or remove settings.trial.job")), nil
	}
	return refusals, err
}

// userJob reads and checks the Job.
func (t *Observer) userJob(ctx context.Context, name string) (*batchv1.Job, error) {
	where := fmt.Sprintf("ConfigMap %s/%s", t.Namespace, name)
	config, err := t.Kube.CoreV1().ConfigMaps(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: there is no %s", errJob, where)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	text, found := config.Data[JobKey]
	if !found {
		return nil, fmt.Errorf("%w: %s has no key %s", errJob, where, JobKey)
	}
	made, err := parseJob(text, t.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %s, key %s: %w", errJob, where, JobKey, err)
	}
	return made, nil
}

// parseJob parses a Job strictly, and refuses fields that would extend the rights of a writer of the ConfigMap: the
// namespace allows privileged pods, and holds Secrets and accounts.
func parseJob(text, namespace string) (*batchv1.Job, error) {
	made := &batchv1.Job{}
	if err := yaml.UnmarshalStrict([]byte(text), made); err != nil {
		return nil, err
	}
	if made.APIVersion != "batch/v1" || made.Kind != "Job" {
		return nil, fmt.Errorf("kind %q of %q: want a Job of batch/v1", made.Kind, made.APIVersion)
	}
	spec, pod := made.Spec, made.Spec.Template.Spec
	refusals := []struct {
		refused bool
		why     string
	}{
		{made.Namespace != "" && made.Namespace != namespace,
			fmt.Sprintf("metadata.namespace is %s: remove the field, the Job runs in %s", made.Namespace, namespace)},
		{made.GenerateName != "", "metadata.generateName: remove the field"},
		{pointed(spec.Parallelism, 1) != 1 || pointed(spec.Completions, 1) != 1, "spec.parallelism and spec.completions: want 1, because one pod runs"},
		{spec.Selector != nil || spec.ManualSelector != nil, "spec.selector: remove the field"},
		{spec.ManagedBy != nil, "spec.managedBy: remove the field"},
		{spec.Suspend != nil && *spec.Suspend, "spec.suspend: the Job would never run"},
		{len(pod.Containers) == 0, "spec.template.spec.containers: want a container"},
		{pod.ServiceAccountName != "" || pod.DeprecatedServiceAccount != "", "serviceAccountName: the Job gets no account"},
		{pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken, "automountServiceAccountToken: the Job gets no account"},
		{len(pod.ImagePullSecrets) > 0,
			fmt.Sprintf("imagePullSecrets: remove the field, and add the Secrets to the service account default of namespace %s", namespace)},
		{pod.RuntimeClassName != nil, "runtimeClassName: remove the field, the trial uses the node's own runtime"},
		{len(pod.ResourceClaims) > 0, "resourceClaims: a Job of a trial gets no devices"},
	}
	var whys []string
	for _, r := range refusals {
		if r.refused {
			whys = append(whys, r.why)
		}
	}
	whys = append(whys, secretsOf(&pod)...)
	whys = append(whys, privileges(&made.Spec.Template)...)
	if len(whys) > 0 {
		return nil, errors.New(strings.Join(whys, "; "))
	}
	return made, nil
}

func pointed(p *int32, standard int32) int32 {
	if p == nil {
		return standard
	}
	return *p
}

// secretsOf lists the references of a pod to Secrets, and volumes with unknown content.
func secretsOf(pod *corev1.PodSpec) (whys []string) {
	for _, v := range pod.Volumes {
		if v.EmptyDir == nil && v.ConfigMap == nil && v.DownwardAPI == nil {
			whys = append(whys, fmt.Sprintf("volume %s: only emptyDir, configMap and downwardAPI are allowed", v.Name))
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				whys = append(whys, fmt.Sprintf("container %s: variable %s comes from a Secret", c.Name, e.Name))
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				whys = append(whys, fmt.Sprintf("container %s: variables come from a Secret", c.Name))
			}
		}
	}
	return whys
}

// privileges lists violations of the level "baseline" of Pod Security, by its own evaluator.
func privileges(pod *corev1.PodTemplateSpec) (whys []string) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelBaseline, Version: podsecurity.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			whys = append(whys, strings.TrimSpace(r.ForbiddenReason+" "+r.ForbiddenDetail))
		}
	}
	return whys
}

// jobFor returns the Job for the trial node. The trial sets the placement, the name and the limits.
func (t *objects) jobFor(user *batchv1.Job, node string) *batchv1.Job {
	no := false
	made := user.DeepCopy()
	made.ObjectMeta = metav1.ObjectMeta{Name: t.name(job), Namespace: t.Namespace, Labels: t.labels(), OwnerReferences: t.owner()}
	made.Status = batchv1.JobStatus{}
	spec := &made.Spec
	spec.TTLSecondsAfterFinished = nil
	backoff := min(pointed(spec.BackoffLimit, maxBackoff), maxBackoff)
	spec.BackoffLimit = &backoff
	seconds := int64(maxJobTime / time.Second)
	if spec.ActiveDeadlineSeconds != nil {
		seconds = min(seconds, *spec.ActiveDeadlineSeconds)
	}
	spec.ActiveDeadlineSeconds = &seconds
	labels := maps.Clone(spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, t.labels())
	spec.Template.ObjectMeta = metav1.ObjectMeta{Labels: labels, Annotations: spec.Template.Annotations}
	pod := &spec.Template.Spec
	pod.NodeName, pod.NodeSelector, pod.Affinity, pod.SchedulerName, pod.TopologySpreadConstraints = node, nil, nil, "", nil
	pod.PriorityClassName, pod.Priority, pod.SchedulingGates = "", nil, nil
	pod.AutomountServiceAccountToken, pod.EnableServiceLinks = &no, &no
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.RestartPolicy = cmp.Or(pod.RestartPolicy, corev1.RestartPolicyNever)
	return made
}

// job creates the user's Job on the node, and returns the result.
func (t *objects) job(ctx context.Context, node *corev1.Node, k *trialRecord) (trial.Measure, error) {
	name := t.Prototype.Spec.Settings.Trial.Job
	if name == "" {
		return trial.Measure{Result: trial.Skipped, Says: "settings.trial.job names no Job"}, nil
	}
	jobs := t.Kube.BatchV1().Jobs(t.Namespace)
	found, err := jobs.Get(ctx, t.name(job), metav1.GetOptions{})
	switch {
	case err == nil && (found.DeletionTimestamp != nil || k.Pods[job] != found.UID):
		// The Job is another client's, or the record of the Job was lost: Kamino trusts neither.
		return trial.Measure{Result: trial.Pending}, t.removeJob(ctx)
	case err == nil:
		return verdict(found), nil
	case !apierrors.IsNotFound(err):
		return trial.Measure{}, fmt.Errorf("read job %s/%s of the trial: %w", t.Namespace, t.name(job), err)
	}
	user, err := t.userJob(ctx, name)
	if errors.Is(err, errJob) {
		return trial.Measure{Result: trial.Inconclusive, Says: err.Error()}, nil
	}
	if err != nil {
		return trial.Measure{}, err
	}
	made, err := jobs.Create(ctx, t.jobFor(user, node.Name), metav1.CreateOptions{})
	switch {
	case apierrors.IsInvalid(err):
		return trial.Measure{Result: trial.Inconclusive, Says: fmt.Sprintf("%v: %v", errJob, err)}, nil
	case err != nil:
		return trial.Measure{}, fmt.Errorf("make job %s/%s of the trial: %w", t.Namespace, t.name(job), err)
	}
	noted(k, job, made.UID)
	return trial.Measure{Result: trial.Pending}, nil
}

// verdict is the result of a Job. A Job without an end has no result.
func verdict(of *batchv1.Job) trial.Measure {
	for _, c := range of.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return trial.Measure{Result: trial.Passed, Says: "the Job has succeeded"}
		case c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonDeadlineExceeded:
			return trial.Measure{Result: trial.Inconclusive, Says: "the Job did not end in its time"}
		case c.Type == batchv1.JobFailed:
			return trial.Measure{Result: trial.Failed, Says: "the Job has failed: " + brief(c.Reason+": "+c.Message)}
		}
	}
	return trial.Measure{Result: trial.Pending}
}

func (t *objects) removeJob(ctx context.Context) error {
	behind := metav1.DeletePropagationBackground
	err := t.Kube.BatchV1().Jobs(t.Namespace).Delete(ctx, t.name(job), metav1.DeleteOptions{PropagationPolicy: &behind})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete job %s/%s of the trial: %w", t.Namespace, t.name(job), err)
	}
	return nil
}
