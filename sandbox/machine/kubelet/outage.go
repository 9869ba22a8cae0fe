package kubelet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
)

// NetworkOutage of the pod network in the whole cluster, whatever the nodes were built from.
type NetworkOutage string

const (
	NoOutage NetworkOutage = "none"
	// EveryNode is not Ready, and none starts a pod that needs the network.
	EveryNode NetworkOutage = "all-nodes"
	// NewNodes affects nodes whose kubelet starts during the outage. Other nodes stay Ready.
	NewNodes NetworkOutage = "new-nodes"
)

// Outages returns all outages, in the order of the help.
func Outages() []NetworkOutage { return []NetworkOutage{EveryNode, NewNodes, NoOutage} }

// SetOutage starts an outage, or ends the outage (NoOutage). All nodes update their status at once.
func (s *Service) SetOutage(o NetworkOutage) error {
	if o != NoOutage && o != EveryNode && o != NewNodes {
		return fmt.Errorf("outage %q is unknown, use one of %s, %s, %s", o, EveryNode, NewNodes, NoOutage)
	}
	s.mu.Lock()
	s.outage = o
	var all []*Kubelet
	for _, kubelets := range s.kubelets {
		all = append(all, kubelets...)
	}
	s.mu.Unlock()
	for _, k := range all {
		if o == NoOutage {
			k.setStranded(false)
		}
		k.spawn(k.heartbeat)
	}
	return nil
}

func (s *Service) currentOutage() NetworkOutage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage
}

// strand cuts the network of a kubelet that starts during an outage of new nodes, until the end of the outage.
func (k *Kubelet) strand() { k.setStranded(k.service.currentOutage() == NewNodes) }

func (k *Kubelet) setStranded(stranded bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stranded = stranded
}

// failLater takes the node's network away for good once its time is over.
func (k *Kubelet) failLater(ctx context.Context) {
	if k.service.Clock.Sleep(ctx, k.node.ReadyFor) != nil {
		return
	}
	k.mu.Lock()
	k.unplugged = true
	k.mu.Unlock()
	k.heartbeat(ctx)
}

func (k *Kubelet) networkReady() bool {
	outage := k.service.currentOutage()
	k.mu.Lock()
	defer k.mu.Unlock()
	return outage != EveryNode && !k.stranded && !k.unplugged && k.node.Config.Network == ""
}

var errNoNetwork = errors.New("network is not ready: container runtime network not ready")

// readyStatus is the Ready condition, in a real kubelet's words.
func (k *Kubelet) readyStatus() (ready corev1.ConditionStatus, reason, message string) {
	if k.networkReady() {
		return corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	}
	return corev1.ConditionFalse, "KubeletNotReady", bootconfig.NotInitialized
}

// crashes: containers of the pod crash after their start on this node.
func (w *worker) crashes(pod *corev1.Pod, c *container) bool {
	owner := metav1.GetControllerOf(pod)
	return w.kubelet.node.Crashes != nil && c.lasting() && owner != nil && owner.Kind == "DaemonSet" &&
		w.kubelet.node.Crashes(pod.Namespace+"/"+owner.Name)
}

// crash runs a crashing container. The next round restarts the container.
func (w *worker) crash(ctx context.Context, c *container) error {
	service := w.kubelet.service
	if err := service.Clock.Sleep(ctx, service.Latencies.ContainerStart); err != nil {
		return err
	}
	c.started = metav1.Now()
	c.state, c.ready = terminated(c, 1, "Error", "", c.started), false
	w.mu.Lock()
	w.again = true
	w.mu.Unlock()
	return nil
}
