package trialnode

import (
	"os"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

const goodJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: mine, labels: {app.kubernetes.io/component: controller}}
spec:
  backoffLimit: 9
  ttlSecondsAfterFinished: 0
  template:
    metadata: {labels: {app: mine, app.kubernetes.io/component: controller}}
    spec:
      nodeName: elsewhere
      nodeSelector: {disk: ssd}
      priorityClassName: system-node-critical
      restartPolicy: Never
      containers:
      - {name: check, image: registry.example.com/check:1, command: [check]}
`

func (w *testEnv) userJob(text string) {
	w.Helper()
	_, err := w.kube.CoreV1().ConfigMaps(w.tryout.Namespace).Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "check"}, Data: map[string]string{JobKey: text},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *testEnv) jobs() int {
	w.Helper()
	list, err := w.kube.BatchV1().Jobs(w.tryout.Namespace).List(w.T.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	n := 0
	for _, j := range list.Items {
		if j.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// TestJobsThatAreRefused: each Job would extend the rights of a writer of a ConfigMap, or could have no result.
func TestJobsThatAreRefused(t *testing.T) {
	replace := func(old, by string) string {
		if !strings.Contains(goodJob, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.Replace(goodJob, old, by, 1)
	}
	pod := func(line string) string {
		return replace("      restartPolicy: Never\n", "      restartPolicy: Never\n      "+line+"\n")
	}
	container := func(fields string) string { return replace("command: [check]", "command: [check], "+fields) }
	for name, test := range map[string]struct{ text, says string }{
		"no YAML":            {"a: b: c", "mapping values"},
		"an unknown field":   {pod("hostNetwrk: true"), "unknown field"},
		"another kind":       {replace("kind: Job", "kind: CronJob"), `"CronJob"`},
		"another namespace":  {replace("name: mine,", "name: mine, namespace: kube-system,"), "kube-system"},
		"two pods":           {replace("spec:\n", "spec:\n  parallelism: 2\n"), "one pod"},
		"no pod":             {replace("spec:\n", "spec:\n  completions: 0\n"), "one pod"},
		"never":              {replace("spec:\n", "spec:\n  suspend: true\n"), "never run"},
		"others' pods":       {replace("spec:\n", "spec:\n  manualSelector: true\n"), "selector"},
		"another controller": {replace("spec:\n", "spec:\n  managedBy: example.com/mine\n"), "managedBy"},
		"no container": {replace("      containers:\n      - {name: check, image: registry.example.com/check:1, command: [check]}\n",
			""), "want a container"},
		"Kamino's account":    {pod("serviceAccountName: kamino-engine"), "no account"},
		"its former name":     {pod("serviceAccount: kamino-engine"), "no account"},
		"a token":             {pod("automountServiceAccountToken: true"), "no account"},
		"a projected token":   {pod("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]"), "volume v"},
		"a Secret":            {pod("volumes: [{name: v, secret: {secretName: cloud}}]"), "volume v"},
		"the host's disk":     {pod("volumes: [{name: v, hostPath: {path: /}}]"), "volume v"},
		"a claim":             {pod("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"), "volume v"},
		"a Secret's variable": {container("env: [{name: A, valueFrom: {secretKeyRef: {name: cloud, key: k}}}]"), "variable A"},
		"a Secret's all":      {container("envFrom: [{secretRef: {name: cloud}}]"), "variables come from a Secret"},
		"an init container's": {pod("initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: cloud}}]}]"), "container i"},
		"privilege":           {container("securityContext: {privileged: true}"), "privileged"},
		"a capability":        {container("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "capabilities"},
		"the host's network":  {pod("hostNetwork: true"), "host namespaces"},
		"the host's PIDs":     {pod("hostPID: true"), "host namespaces"},
		"the host's port":     {container("ports: [{containerPort: 80, hostPort: 80}]"), "hostPort"},
		"a device":            {pod("resourceClaims: [{name: r, resourceClaimName: c}]"), "devices"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseJob(test.text, "kamino-system")
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
	if _, err := parseJob(replace("name: mine,", "name: mine, namespace: kamino-system,"), "kamino-system"); err != nil {
		t.Error(err)
	}
}

// TestTheUsersJob runs only on the trial node, and only the result of the created Job counts.
func TestTheUsersJob(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Prototype.Spec.Settings.Trial.Job = "check"
	w.userJob(goodJob)
	w.node("t-0", true)
	w.observeUntil("a Job", func(trial.Facts) bool { return w.jobs() == 1 })
	a := &attempt{nodeWriter: nodeWriter{objects{w.tryout, w.subject}}}
	made, err := w.kube.BatchV1().Jobs(w.tryout.Namespace).Get(t.Context(), a.name(job), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := made.Spec.Template
	if pod.Spec.NodeName != "t-0" || pod.Spec.NodeSelector != nil || pod.Spec.PriorityClassName != "" || *pod.Spec.AutomountServiceAccountToken ||
		pod.Spec.Tolerations[0].Operator != corev1.TolerationOpExists {
		t.Errorf("its pod is %+v", pod.Spec)
	}
	if pod.Labels["app"] != "mine" || pod.Labels["app.kubernetes.io/component"] != component || made.OwnerReferences[0].Kind != "Prototype" {
		t.Errorf("it is marked %v %v", pod.Labels, made.OwnerReferences)
	}
	if *made.Spec.BackoffLimit != maxBackoff || *made.Spec.ActiveDeadlineSeconds != 600 || made.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("its limits are %+v", made.Spec)
	}
	now := metav1.Now()
	made.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
	}}
	if _, err := w.kube.BatchV1().Jobs(w.tryout.Namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.observeUntil("its end", func(f trial.Facts) bool { return f.Job.Result == trial.Passed })
	// Kamino removes another Job with the same name, and creates the trial's Job.
	if err := a.removeJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	user, err := parseJob(goodJob, w.tryout.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := w.kube.BatchV1().Jobs(w.tryout.Namespace).Create(t.Context(), a.jobFor(user, "t-0"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forged.Status = made.Status
	if forged, err = w.kube.BatchV1().Jobs(w.tryout.Namespace).UpdateStatus(t.Context(), forged, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.observeUntil("another", func(f trial.Facts) bool {
		if f.Job.Result != trial.Pending {
			t.Errorf("the forged one is believed: %+v", f.Job)
		}
		now, err := w.kube.BatchV1().Jobs(w.tryout.Namespace).Get(t.Context(), a.name(job), metav1.GetOptions{})
		return err == nil && now.UID != forged.UID
	})
	w.clean()
	if w.jobs() > 0 {
		t.Error("it is left")
	}
}

func TestResultsOfJob(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []batchv1.JobCondition
		want       trial.Result
	}{
		"nothing yet":      {nil, trial.Pending},
		"not yet":          {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionFalse}}, trial.Pending},
		"success":          {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}, trial.Passed},
		"failure":          {[]batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}, trial.Failed},
		"no end":           {[]batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded"}}, trial.Inconclusive},
		"about to fail":    {[]batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}, trial.Pending},
		"about to succeed": {[]batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}}, trial.Pending},
	} {
		if got := verdict(&batchv1.Job{Status: batchv1.JobStatus{Conditions: test.conditions}}); got.Result != test.want ||
			(got.Says == "") != (test.want == trial.Pending) {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}

// TestCheck is the check before a capture.
func TestCheck(t *testing.T) {
	w := newTestEnv(t)
	settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialApart}}
	check := func() string {
		refusals, err := w.tryout.Check(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		var whys []string
		for _, r := range refusals {
			whys = append(whys, r.Reason+": "+r.Message)
		}
		return strings.Join(whys, "\n")
	}
	if why := check(); why != "" {
		t.Error(why)
	}
	settings.Trial.Expect = []v1alpha1.TrialExpectation{{Name: "Fine", Expression: "size(peers) > 1"}, {Name: "Wrong", Expression: "node.spec =="}}
	if why := check(); !strings.HasPrefix(why, trial.ChecksInvalid+": settings.trial.expect Wrong is wrong at line 1, column ") ||
		strings.Contains(why, "Fine") {
		t.Error(why)
	}
	settings.Trial.Expect = nil
	settings.Trial.Job = "check"
	if why := check(); !strings.Contains(why, w.tryout.Namespace+"/check") {
		t.Errorf("without a ConfigMap: %s", why)
	}
	w.userJob("kind: Pod")
	if why := check(); !strings.Contains(why, JobKey) {
		t.Errorf("with another kind: %s", why)
	}
	// A Job that became invalid later is no evidence against the version.
	w.subject.Prototype.Spec.Settings.Trial.Job = "check"
	w.node("t-0", true)
	w.observeUntil("a word on it", func(f trial.Facts) bool {
		return f.Job.Result == trial.Inconclusive && strings.Contains(f.Job.Says, JobKey)
	})
	settings.Trial.Mode = v1alpha1.TrialOff
	if why := check(); why != "" {
		t.Errorf("no request for a trial: %s", why)
	}
}

// TestSamplesOfThePage: no check before a capture refuses what docs/tasks/own-checks.md shows.
func TestSamplesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tasks/own-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	jobs, expressions := 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		w := newTestEnv(t)
		sample := struct {
			Data     map[string]string
			Settings v1alpha1.Settings
		}{}
		if err := yaml.Unmarshal([]byte(block[1]), &sample); err != nil {
			t.Fatal(err)
		}
		settings := sample.Settings
		settings.Trial.Mode = v1alpha1.TrialApart
		if text, found := sample.Data[JobKey]; found {
			w.userJob(text)
			settings.Trial.Job = "check"
			jobs++
		}
		expressions += len(settings.Trial.Expect)
		if refusals, err := w.tryout.Check(t.Context(), settings); err != nil || len(refusals) > 0 {
			t.Errorf("%v, %v:\n%s", refusals, err, block[1])
		}
	}
	if jobs < 2 || expressions < 4 {
		t.Errorf("the page shows %d Jobs and %d expressions", jobs, expressions)
	}
}
