package trialnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial"
)

// logTimeout limits the read of a log.
const logTimeout = 5 * time.Second

// readLogs lets the API server read the log of a pod on the node, from the kubelet's port. The logs, exec and metrics of users' pods take the
// same way. It counts against the node if it does not work for startTimeout, and works with the control pod. A result stays in the record.
func (a *attempt) readLogs(ctx context.Context, m trial.Measure, now time.Time, node *corev1.Node, k *trialRecord, pods map[string]*corev1.Pod) trial.Measure {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if m.Result != trial.Passed || port == 0 || k.Logs != "" || pods[control] == nil {
		if m.Result == trial.Passed && k.Logs != "" {
			m.Says += "; " + k.Logs
		}
		return m
	}
	switch err := a.readLog(ctx, pods[measuring]); {
	case err == nil:
		k.Logs = "the API server reads their logs"
	case apierrors.IsForbidden(err):
		k.Logs = "Kamino may not read their logs: " + brief(err.Error())
	case a.readLog(ctx, pods[control]) != nil:
		k.Logs = fmt.Sprintf("the API server reads logs neither from this node nor from node %s", a.on(pods[control]))
	default:
		if k.LogsUnread.IsZero() {
			k.LogsUnread = metav1.NewTime(now.Truncate(time.Second))
		}
		if now.Sub(k.LogsUnread.Time) < startTimeout {
			return trial.Measure{Result: trial.Pending}
		}
		return trial.Measure{Result: trial.Failed, Says: fmt.Sprintf("the API server does not reach port %d of the kubelet on node %s (%s), but reaches it on node %s",
			port, node.Name, brief(err.Error()), a.on(pods[control]))}
	}
	k.LogsUnread = metav1.Time{}
	m.Says += "; " + k.Logs
	return m
}

func (a *attempt) readLog(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	few := int64(1)
	return a.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{LimitBytes: &few}).Do(ctx).Error()
}
