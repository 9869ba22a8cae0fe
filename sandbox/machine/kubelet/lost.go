package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// heard ends a silence.
func (s *Service) heard(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.silent[name]; timer != nil {
		timer.Stop()
		delete(s.silent, name)
	}
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
	if k := s.current(name); k != nil && k.isActive() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.updateNode(ctx, name, func(status *corev1.NodeStatus) bool {
		if !isReady(status) {
			return false
		}
		setConditions(status, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
		return true
	})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Log.Warn("lost node not marked", "node", name, "error", err)
	}
}
