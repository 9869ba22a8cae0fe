package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// serverTime limits the requests to the cluster: the command prints the build in any case.
const serverTime = 5 * time.Second

func newVersionCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format     output.Format
		clientOnly bool
	)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this build, the API server and the controllers",
		Long: `Print the version of this build, of the cluster's API server, and the image of each Kamino controller. If the cluster can't be reached, the
command says so and still succeeds.`,
		Example: `  kamino version
  kamino version --client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := print.Builds{Info: build.Read()}
			if !clientOnly {
				v.Server = f.running(cmd.Context(), o)
			}
			return print.Build(f.Out, format, v)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "print only the version of this build")
	output.Bind(cmd, &format, output.JSON, output.YAML)
	return cmd
}

// running asks the cluster for the running version; nil with a note after an error.
func (f *Factory) running(ctx context.Context, o *Options) *cluster.Running {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	c, err := f.Connect(o)
	if err == nil {
		var seen *cluster.Running
		if seen, err = c.Running(ctx, o.Namespace); err == nil {
			return seen
		}
	}
	say(f.Err, "Server version: unknown (%s).\n", explain(err))
	return nil
}
