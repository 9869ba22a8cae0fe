package cli

import "github.com/kamino-dev/kamino/internal/recipe"

// secrets are the Secrets that store lost parts of recipes.
func (s *session) secrets() recipe.Secrets {
	return recipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}
