package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/doctor"
	"github.com/kamino-dev/kamino/internal/wording"
)

func newSupportCommand(f *Factory, o *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "support",
		Short: "Write a bundle for a bug report, without secrets",
		Long: `Write a gzipped tar archive to the standard output: Prototypes, policies and NodeOrders, events, pods and logs of Kamino's namespaces, up to 200 nodes,
"kamino doctor" and "kamino version". The command changes nothing, and reads neither Secrets nor ConfigMaps. It removes customData, tokens, passwords,
keys, environment variables, and whatever looks like a secret in a log. Names of nodes, pools and images stay, so look through the bundle before you
send it to anyone.`,
		Example: `  kamino support > bundle.tgz
  tar tzf bundle.tgz`,
		Args: cobra.NoArgs,
		RunE: inCluster(f, o, func(ctx context.Context, c *cluster.Connection, _ []string) error {
			if f.Redraws != nil && f.Redraws() {
				return usagef("the bundle is an archive: write it to a file with `kamino support > bundle.tgz`")
			}
			source := doctor.Bundle{
				Client: c.Client, Kube: c.Kube, Namespaces: []string{o.Namespace, o.GeneralizeNamespace}, Now: f.Now(),
				Verbs: map[string]func(context.Context) string{
					"version.txt": outputOf(f, func(ctx context.Context, g *Factory) error {
						return print.Build(g.Out, "", print.Builds{Info: build.Read(), Server: g.running(ctx, o)})
					}),
					"doctor.txt": outputOf(f, func(ctx context.Context, g *Factory) error { return g.examine(ctx, c, o, "", output.Table) }),
				},
			}
			problems, err := source.Write(ctx, output.Raw(f.Out))
			if err == nil && len(problems) > 0 {
				f.note("The bundle lacks %s: %s", wording.Count(len(problems), "part"), strings.Join(problems, "; "))
			}
			return err
		}),
	}
}

// outputOf is the output of a verb, with its error.
func outputOf(f *Factory, run func(context.Context, *Factory) error) func(context.Context) string {
	return func(ctx context.Context) string {
		var out bytes.Buffer
		g := *f
		g.Out, g.Err = output.NewSafe(&out), output.NewSafe(&out)
		if err := run(ctx, &g); err != nil {
			fmt.Fprintf(&out, "kamino: %s\n", explain(err))
		}
		return out.String()
	}
}
