package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/world"
)

func (r *root) up() *cobra.Command {
	var o world.Options
	var zrs, noZRS bool
	var light int
	capi, byKarpenter := clusterAPI(), karpenter()
	command := &cobra.Command{
		Use: "up", Short: "Run a sandbox in the foreground, until Ctrl-C",
		Long: `Starts a control plane, a simulated Azure or AWS, and a pool of machines. Writes the files that clients need into
the directory. Prints a line that begins with "ready" when all nodes are Ready. Ctrl-C, SIGTERM or
"kamino-sandbox down" stops the sandbox. "up" on the same directory continues with the same sandbox.

Clients:
- ". DIR/env" sets the variables of kamino, kubectl and the cloud's SDK, and on AWS of the aws command.
- On Azure, "DIR/env-managed-identity" after "DIR/env" sets a managed identity in place of the secret.
- On Azure, ". DIR/az.sh" registers the simulated cloud with the az command.
- DIR/azure.json and DIR/azurestackcloud.json are the files of a cluster's node.

Keys of --pool:
  ` + strings.Join(pool.Keys(), "\n  "),
		Example: `  kamino-sandbox up --dir /tmp/s
  kamino-sandbox up --dir /tmp/s --pool name=pool1,nodes=5,zones --pool name=old,nodes=1,generation=V1
  kamino-sandbox up --dir /tmp/s --pool name=aks,nodes=2,aks --pool name=host,nodes=2,ephemeral   # Kamino refuses both
  kamino-sandbox up --dir /tmp/s --no-zrs --time-scale 300
  kamino-sandbox up --dir /tmp/s --cloud aws                                              # kubeadm nodes in an Auto Scaling group
  kamino-sandbox up --dir /tmp/s --capi                                                   # kubeadm nodes in MachineDeployments
  kamino-sandbox up --dir /tmp/s --capi --pool name=pool1,kind=clusterclass               # a MachineDeployment of a ClusterClass
  kamino-sandbox up --dir /tmp/s --capi --pool name=pool1,kind=machinepool                # an Auto Scaling group of an AWSMachinePool
  kamino-sandbox up --dir /tmp/s --capi --cloud azure --pool name=pool1,kind=machinepool  # a scale set of an AzureMachinePool
  kamino-sandbox up --dir /tmp/s --karpenter                                              # EKS nodes of Karpenter, with a guarded NodePool
  kamino-sandbox up --dir /tmp/s --light-nodes 5000                                       # a scale test`,
		Args: exactly(),
	}
	flags := command.Flags()
	flags.Var(&o.Cloud, "cloud", "the simulated cloud: azure or aws (default: the cloud of the last start, or azure)")
	_ = command.RegisterFlagCompletionFunc("cloud", cobra.FixedCompletions([]string{string(pool.Azure), string(pool.AWS)}, cobra.ShellCompDirectiveNoFileComp))
	capi.bind(flags, "the default kind of pool is MachineDeployment")
	byKarpenter.bind(flags, "and a pool is an EC2NodeClass with a NodePool")
	flags.Var((*poolsFlag)(&o.Pools), "pool", "a pool, as KEY=VALUE,... (repeatable; default: name=pool1 with three nodes)")
	flags.IntVar(&light, "light-nodes", 0, "add a pool with this number of nodes without files")
	flags.BoolVar(&zrs, "zrs", true, "the region has zone-redundant storage")
	flags.BoolVar(&noZRS, "no-zrs", false, "the region has no zone-redundant storage")
	flags.Float64Var(&o.TimeScale, "time-scale", world.DefaultTimeScale, "how many seconds of cloud time pass in a second")
	flags.IntVar(&o.APIPort, "port-api", 0, "the API server's port (0: the port of the last start, or a free port)")
	flags.IntVar(&o.CloudPort, "port-cloud", 0, "the simulated cloud's port (0: the port of the last start, or a free port)")
	flags.DurationVar(&o.NodeGrace, "node-grace", 0, "how long a node may be silent before it is not Ready, in this machine's time (0: a suitable time)")
	flags.StringVar(&o.Kamino, "kamino", siblingProgram("kamino"), "the kamino binary; its pods run it, and kamino-node of the same directory")
	command.MarkFlagsMutuallyExclusive("zrs", "no-zrs")
	command.MarkFlagsMutuallyExclusive(capi.flag, byKarpenter.flag)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if o.Cloud == pool.AWS && (command.Flags().Changed("zrs") || command.Flags().Changed("no-zrs")) {
			return usageError{errors.New("--zrs and --no-zrs are for Azure: omit them with --cloud aws")}
		}
		var err error
		if o.ClusterAPI, err = capi.chosen(&o.Cloud); err != nil {
			return err
		}
		if o.Karpenter, err = byKarpenter.chosen(&o.Cloud); err != nil {
			return err
		}
		if o.Karpenter != "" && o.Cloud != pool.AWS {
			return usageError{errors.New("--karpenter is for AWS: omit --cloud, or use --cloud aws")}
		}
		if o.TimeScale <= 0 {
			return usageError{fmt.Errorf("--time-scale is %g: pass a number above 0", o.TimeScale)}
		}
		if light > 0 {
			spec, err := pool.Parse("name=light,light,max=0,nodes=" + strconv.Itoa(light))
			if err != nil {
				return usageError{err}
			}
			if len(o.Pools) == 0 {
				o.Pools = []pool.Spec{world.DefaultPool()}
			}
			o.Pools = append(o.Pools, spec)
		}
		o.Dir, o.Azure.NoZRS = r.dir, noZRS || !zrs
		return r.runWorld(command.Context(), o)
	}
	return command
}

func (r *root) runWorld(ctx context.Context, o world.Options) error {
	began := time.Now()
	var err error
	if o.Binary, err = self(); err != nil {
		return err
	}
	o.Progress = func(text string) {
		_, _ = fmt.Fprintf(r.stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), text)
	}
	w, err := world.Start(ctx, o)
	if errors.Is(err, world.ErrStopRequested) {
		o.Progress(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.stdout, "ready in %.1f s: run  . %s\n", time.Since(began).Seconds(), shellWord(filepath.Join(w.Dir(), sandboxdir.EnvFile)))
	if err != nil {
		return errors.Join(err, w.Stop())
	}
	select {
	case <-ctx.Done():
		err = nil
	case <-w.StopRequested():
	case err = <-w.Lost():
	}
	o.Progress("stopping")
	if err = errors.Join(err, w.Stop()); err == nil {
		o.Progress("stopped; start again with `kamino-sandbox up --dir " + shellWord(w.Dir()) + "`")
	}
	return err
}

// shellWord quotes a path with characters that a shell interprets.
func shellWord(path string) string {
	if strings.ContainsAny(path, " \t'\"$`\\*?[]()<>|&;#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// siblingProgram is the path of a program in the directory of this program; empty if the program does not exist.
func siblingProgram(name string) string {
	me, err := self()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(me), name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// poolsFlag collects pools.
type poolsFlag []pool.Spec

// String, Set and Type implement pflag.Value.
func (p *poolsFlag) String() string { return "" }

// Set adds a pool.
func (p *poolsFlag) Set(text string) error {
	spec, err := pool.Parse(text)
	if err != nil {
		return err
	}
	for _, other := range *p {
		if other.Is(spec.Name) {
			return fmt.Errorf("two pools have the name %s", spec.Name)
		}
	}
	*p = append(*p, spec)
	return nil
}

// Type is shown in help.
func (p *poolsFlag) Type() string { return "KEY=VALUE,..." }
