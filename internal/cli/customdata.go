package cli

import "github.com/kamino-dev/kamino/internal/savedrecipe"

// secrets are those that keep what recipes lose.
func (s *session) secrets() savedrecipe.Secrets {
	return savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}
