package trialnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// logTimeout limits the read of a log. A log that is unread for logPatience counts against the node.
	logTimeout, logPatience = 5 * time.Second, 2 * time.Minute
)

// readLogs lets the API server read the log of a pod on the node, from the kubelet's port. The logs, exec and metrics of users' pods take the
// same way. It counts against the node if it does not work for logPatience, and works with the control pod. A result stays in the record.
func (a *attempt) readLogs(ctx context.Context, m trial.Measure, now time.Time, node *corev1.Node, k *trialRecord, pods map[string]*corev1.Pod) trial.Measure {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if m.Result != trial.Passed || port == 0 || pods[control] == nil {
		return m
	}
	if k.Logs == nil {
		k.Logs = &v1alpha1.TrialLogs{}
	}
	if k.Logs.Result == "" {
		err := a.readLog(ctx, pods[measuring])
		k.Logs.Result = a.resultOf(ctx, err, pods[control])
		if since := &k.Logs.UnreadSince; k.Logs.Result == "" && since.IsZero() {
			*since = metav1.NewTime(now.Truncate(time.Second))
		}
		switch {
		case k.Logs.Result != "":
		case now.Sub(k.Logs.UnreadSince.Time) < logPatience:
			return trial.Measure{Result: trial.Pending}
		default:
			m.Result, m.Says = trial.Failed, fmt.Sprintf("the API server does not reach port %d of the kubelet on node %s (%s), but reaches it on node %s",
				port, node.Name, brief(err.Error()), a.on(pods[control]))
			return m
		}
	}
	m.Says += "; " + k.Logs.Result
	return m
}

// resultOf is the result of a read of the log on the trial node; empty if only the log on the control node can be read.
func (a *attempt) resultOf(ctx context.Context, err error, other *corev1.Pod) string {
	switch {
	case err == nil:
		return "the API server reads their logs"
	case apierrors.IsForbidden(err):
		return "Kamino may not read their logs: " + brief(err.Error())
	case a.readLog(ctx, other) != nil:
		return fmt.Sprintf("the API server reads logs neither from this node nor from node %s", a.on(other))
	}
	return ""
}

func (a *attempt) readLog(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	few := int64(1)
	return a.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{LimitBytes: &few}).Do(ctx).Error()
}
