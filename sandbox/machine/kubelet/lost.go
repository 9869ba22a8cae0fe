package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchSilence marks a Node as lost if none of its kubelets speaks within the time of Latencies.Lost.
func (s *Service) watchSilence(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if timer := s.silent[name]; timer != nil {
		timer.Stop()
	}
	s.silent[name] = time.AfterFunc(s.Clock.Real(s.Latencies.Lost), func() { s.markLost(name) })
}

// recordHeartbeat ends a silence.
func (s *Service) recordHeartbeat(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.silent[name]; timer != nil {
		timer.Stop()
		delete(s.silent, name)
	}
}

// isSilent: the node sends no heartbeats, or is lost.
func (s *Service) isSilent(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[name] != nil
}

func (s *Service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, timer := range s.silent {
		timer.Stop()
	}
}

func (s *Service) markLost(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.lose(ctx, name, func() bool { return s.isSilent(name) }); err != nil {
		s.Log.Warn("lost node not marked", "node", name, "error", err)
	}
}

// MarkLost sets the conditions of a Ready Node to Unknown at once, unless a kubelet of the Node is active.
func (s *Service) MarkLost(ctx context.Context, name string) error {
	return s.lose(ctx, name, func() bool { return true })
}

// lose looks at the silence with each try: a kubelet may register meanwhile.
func (s *Service) lose(ctx context.Context, name string, silent func() bool) error {
	if k := s.current(name); k != nil && k.isActive() {
		return nil
	}
	return ignoreMissing(updateNode(ctx, s.Client, name, func(status *corev1.NodeStatus) bool {
		if !silent() || !isReady(status) {
			return false
		}
		setConditions(status, metav1.NewTime(s.Clock.Now()), corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.", false)
		return true
	}))
}
