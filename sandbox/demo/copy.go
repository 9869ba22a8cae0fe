package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// copiesDonor: the donor stays in service, and a copy of its disk is cleaned on a workshop.
func (s *scenario) copiesDonor() bool {
	return (s.Cloud == pool.AWS || s.Kubeadm) && !s.Rollback
}

// servedBy are the running pods of a node by UID, with the restarts of their containers.
func (s *scenario) servedBy(ctx context.Context, node string) (map[types.UID]int32, error) {
	served, err := podsOf(ctx, s.world.Kube(), node)
	for uid, pod := range served {
		if pod.Status.Phase != corev1.PodRunning {
			delete(served, uid)
		}
	}
	return restartsOf(served), err
}

// podsOf are the pods of a node by UID, without those of captures.
func podsOf(ctx context.Context, kube kubernetes.Interface, node string) (map[types.UID]corev1.Pod, error) {
	list, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.Namespace != v1alpha1.DefaultGeneralizeNamespace {
			pods[pod.UID] = pod
		}
	}
	return pods, nil
}

func restartsOf(pods map[types.UID]corev1.Pod) map[types.UID]int32 {
	restarts := map[types.UID]int32{}
	for uid, pod := range pods {
		restarts[uid] = 0
		for _, c := range pod.Status.ContainerStatuses {
			restarts[uid] += c.RestartCount
		}
	}
	return restarts
}

// podsRestarted waits after a reboot until the node's pods run again. The kubelet reports a restarted pod after its node is Ready.
func (s *scenario) podsRestarted(ctx context.Context, node string, before map[types.UID]int32) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err := podsOf(ctx, s.world.Kube(), node)
		now := restartsOf(pods)
		for uid, restarts := range before {
			if pod, there := pods[uid]; there && (now[uid] == restarts || pod.Status.Phase != corev1.PodRunning) {
				return false, err
			}
		}
		return err == nil, err
	})
}

// donorServed requires that the donor kept its boot and its pods.
func (s *scenario) donorServed(ctx context.Context) error {
	if method := s.capture.prototype.Spec.Settings.Donor.Method; method != v1alpha1.MethodCopy {
		return fmt.Errorf("the method was %s", method)
	}
	now, err := s.machineOf(s.donor)
	if err != nil {
		return err
	}
	if before := s.before[s.donor]; now.BootID != before.BootID || now.MachineID != before.MachineID {
		return errors.New("the donor was rebooted or rebuilt")
	}
	served, err := s.servedBy(ctx, s.donor)
	if err != nil {
		return err
	}
	if len(s.served) == 0 {
		return errors.New("the donor had no pods, so the check shows nothing")
	}
	for uid, restarts := range s.served {
		if again, there := served[uid]; !there || again != restarts {
			return fmt.Errorf("pod %s of the donor was evicted or restarted", uid)
		}
	}
	return s.isInService(ctx, s.donor)
}

// describeDonor is the last line about the donor.
func (s *scenario) describeDonor() {
	frozen := s.capture.prototype.Status.Donor.FrozenFor
	if !s.copiesDonor() || frozen == nil {
		s.print.line("The donor, %s, was out of service for %.0f s of the sandbox's time.", s.donor, s.capture.away.Seconds())
		return
	}
	s.print.line("The donor, %s, served all the time: out of service for 0 s, its disk frozen for %.2f s.", s.donor, frozen.Seconds())
	s.print.line("%s ran on it all the time, neither evicted nor restarted. A workshop cleaned the copy, and is gone.",
		wording.Count(len(s.served), "pod"))
}

// served is the claim about a donor that is copied.
const served = "the donor served all the time: the same boot, no pod evicted or restarted"
