package cli

import "github.com/kamino-dev/kamino/internal/savedrecipe"

// secrets are the Secrets that store lost parts of recipes.
func (s *session) secrets() savedrecipe.Secrets {
	return savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}
