package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cli/print"
)

// Version of this build: a release's tag, or what git says of anything else. The linker sets it.
var Version string

// Image of this build's generalize pods, by digest or tag, for builds that are published elsewhere than a release of
// Kamino's. The linker sets it.
var Image string

// imageRepository is where Kamino's container images are published.
const imageRepository = "ghcr.io/kamino-dev/kamino"

// released is how a release's tag looks, as opposed to a commit after it.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// build tells one build from another.
type build struct {
	Version string `json:"version"`
	// Commit that it was built from, and whether files were changed since; empty if the Go tool did not know.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Image that its generalize pods run unless they are told another one; empty if this build was published nowhere.
	Image string `json:"image,omitempty"`
}

func buildInfo() build {
	b := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Image: releaseImage()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// String is the build in a line.
func (b build) String() string { return fmt.Sprintf("%s (%s, %s)", b.Version, b.Go, b.Platform) }

// releaseImage is the container image of this build: the one that it was built with, else the release's own. What was
// published nowhere has none: another version's might do something else on a node.
func releaseImage() string {
	switch {
	case Image != "":
		return Image
	case released.MatchString(Version):
		return imageRepository + ":" + Version
	}
	return ""
}

// versions is this build, and what runs in the cluster.
type versions struct {
	build
	// Server is nil where the cluster could not be asked, or was not to be.
	Server *server `json:"server,omitempty"`
}

// server is what runs in the cluster.
type server struct {
	Kubernetes string `json:"kubernetes"`
	// Controllers of Kamino's in its namespace.
	Controllers []controllerVersion `json:"controllers"`
}

type controllerVersion struct {
	Deployment string `json:"deployment"`
	Image      string `json:"image"`
	Ready      int32  `json:"ready"`
	Replicas   int32  `json:"replicas"`
}

// serverTime bounds the look at the cluster: the build is told anyway.
const serverTime = 5 * time.Second

func newVersionCommand(f *Factory, o *Options) *cobra.Command {
	var (
		output     string
		clientOnly bool
	)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build, and what runs in the cluster",
		Long: `Print the version of this build, of the cluster's API server, and the image that each of Kamino's controllers runs.
A cluster that can't be asked is noted, and no error.`,
		Example: `  kamino version
  kamino version --client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := print.ParseFormat(output, print.JSON, print.YAML)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			v := versions{build: buildInfo()}
			if !clientOnly {
				v.Server = f.serverVersions(cmd.Context(), o)
			}
			if format != print.Text {
				return print.Value(f.Out, format, v)
			}
			return v.write(f.Out)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "print the version of this build only")
	bindOutput(cmd, &output, print.JSON, print.YAML)
	return cmd
}

func (v versions) write(w io.Writer) error {
	lines := []string{"kamino " + v.String()}
	if v.Server != nil {
		lines = append(lines, "API server "+v.Server.Kubernetes)
		for _, c := range v.Server.Controllers {
			lines = append(lines, fmt.Sprintf("controller %s: %s, %d of %d ready", c.Deployment, c.Image, c.Ready, c.Replicas))
		}
		if len(v.Server.Controllers) == 0 {
			lines = append(lines, "no controller")
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// serverVersions asks the cluster; nil, and a note, if it can't be asked.
func (f *Factory) serverVersions(ctx context.Context, o *Options) *server {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	seen, err := func() (*server, error) {
		cluster, err := f.Connect(o)
		if err != nil {
			return nil, err
		}
		return serverOf(ctx, cluster.Kube, o.Namespace)
	}()
	if err != nil {
		_, _ = fmt.Fprintf(f.Err, "What runs in the cluster can't be told: %s.\n", explain(err))
	}
	return seen
}

func serverOf(ctx context.Context, kube kubernetes.Interface, namespace string) (*server, error) {
	body, err := kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var seen struct{ GitVersion string }
	if err := json.Unmarshal(body, &seen); err != nil {
		return nil, fmt.Errorf("the API server's version: %w", err)
	}
	// By what both the chart and the manifests call it: a release may have any name.
	deployments, err := kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	if err != nil {
		return nil, fmt.Errorf("list deployments in namespace %s: %w", namespace, err)
	}
	found := &server{Kubernetes: seen.GitVersion, Controllers: []controllerVersion{}}
	for _, d := range deployments.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			if slices.Contains(container.Args, "controller") {
				found.Controllers = append(found.Controllers, controllerVersion{
					Deployment: d.Namespace + "/" + d.Name, Image: container.Image, Ready: d.Status.ReadyReplicas, Replicas: *d.Spec.Replicas,
				})
			}
		}
	}
	return found, nil
}
