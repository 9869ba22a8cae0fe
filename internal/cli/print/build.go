package print

import (
	"fmt"
	"io"
	"strings"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// Builds are this build, and the builds in the cluster.
type Builds struct {
	build.Info
	// Server is nil without a request to the cluster, or after an error.
	Server *cluster.Running `json:"server,omitempty"`
}

// Build writes this build, and the builds in the cluster.
func Build(w io.Writer, format output.Format, b Builds) error {
	if format.Machine() {
		return output.Value(w, format, b)
	}
	lines := []string{"kamino " + b.String()}
	if b.Server != nil {
		lines = append(lines, "API server "+b.Server.Kubernetes)
		for _, c := range b.Server.Controllers {
			lines = append(lines, fmt.Sprintf("controller %s: %s, %d of %d ready", c.Deployment, c.Image, c.Ready, c.Replicas))
		}
		if len(b.Server.Controllers) == 0 {
			lines = append(lines, "no controller")
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
