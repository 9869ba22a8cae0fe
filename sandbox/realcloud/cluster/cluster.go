// Package cluster runs one whole capture in a user's own cluster, and checks it: by copy, with a trial, without a promotion. Kamino
// itself does the capture, with the rights that the user gives it, and this package only looks at the cluster.
//
// A file beside the report has the state before the capture, so that an interrupted run continues, and so that its end removes what it
// made. The file has names and UIDs of the cluster, and is not for sending; the report has none.
package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// options are the flags.
type options struct {
	kubeconfig, context, as, kamino, pool, node, report string
	soak                                                time.Duration
	yes, clean                                          bool
}

// run is a run of the command.
type run struct {
	options
	kube *kubernetes.Clientset
	out  io.Writer
	// before is the state before the capture.
	before before
}

// Main runs the command, and returns its exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) int {
	r := &run{out: out}
	flags := flag.NewFlagSet("verify-cloud cluster", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.StringVar(&r.pool, "pool", "", "the pool of which one node is copied")
	flags.StringVar(&r.node, "node", "", "the node (default: the donor that kamino plan chooses)")
	flags.StringVar(&r.kubeconfig, "kubeconfig", "", "the kubeconfig of the cluster (default: as kubectl)")
	flags.StringVar(&r.context, "context", "", "the context of the kubeconfig")
	flags.StringVar(&r.as, "as", "", "the user to impersonate, such as system:serviceaccount:kamino-system:kamino-engine")
	flags.StringVar(&r.kamino, "kamino", "kamino", "the kamino program")
	flags.StringVar(&r.report, "report", "verify-cloud-cluster.json", "the file of the report")
	flags.DurationVar(&r.soak, "soak", 2*time.Minute, "how long the trial node is watched")
	flags.BoolVar(&r.yes, "yes", false, "do not ask before the capture")
	flags.BoolVar(&r.clean, "clean", false, "only remove what an interrupted run left")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if err := r.do(ctx, in); err != nil {
		fmt.Fprintf(problems, "verify-cloud: %v\n", err)
		return 1
	}
	return 0
}

func (r *run) do(ctx context.Context, in io.Reader) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = r.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: r.context}).ClientConfig()
	if err != nil {
		return err
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: r.as}
	if r.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	known, err := r.load()
	switch {
	case err != nil:
		return err
	case r.clean && !known:
		return fmt.Errorf("there is no %s: no run was interrupted here", r.state())
	case r.clean:
		return r.remove(ctx)
	case !known:
		if err := r.prepare(ctx, in); err != nil {
			return err
		}
	default:
		fmt.Fprintf(r.out, "continuing the capture of version %s of pool %s\n", r.before.Version, r.before.Pool)
	}
	return r.course(ctx)
}

// course captures, checks, and removes. Without an answer of the cluster the state stays for another try.
func (r *run) course(ctx context.Context) error {
	began := time.Now()
	seen, failure := r.capture(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("the run goes on with the same command; `verify-cloud cluster --clean` removes it: %w", context.Cause(ctx))
	}
	found, err := r.prototype(ctx)
	if err != nil {
		return err
	}
	results := r.judgeCapture(found, seen, failure)
	if err := r.remove(ctx); err != nil {
		return err
	}
	after, err := r.judgeAfter(ctx)
	if err != nil {
		return err
	}
	report := realcloud.ClusterReport(append(results, after...), r.before.Cloud, began, time.Now())
	if err := report.Write(r.report); err != nil {
		return err
	}
	differs := 0
	for _, c := range report.Checks {
		fmt.Fprintf(r.out, "%-18s %-10s %s\n", c.Name, c.Outcome, c.Seen)
		if c.Outcome != realcloud.AsAssumed {
			differs++
		}
	}
	fmt.Fprintf(r.out, "the report is in %s\n", r.report)
	if err := os.Remove(r.state()); err != nil {
		return err
	}
	if differs > 0 {
		return fmt.Errorf("%d checks differ", differs)
	}
	return nil
}

// plan is the part of `kamino plan -o json` that is needed.
type plan struct {
	Pools []struct {
		Pool, PoolID, Donor string
		Nodes               []struct{ Node string }
		Decision            struct{ Message string }
		Method              struct{ Method, Message string }
		Copy                struct {
			InstanceType string
			DiskGB       int
		}
		Change struct{ From string }
	}
}

// command runs kamino, and returns its output.
func (r *run) command(ctx context.Context, stdin string, args ...string) (string, error) {
	for flag, value := range map[string]string{"--kubeconfig": r.kubeconfig, "--context": r.context, "--as": r.as} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	c := exec.CommandContext(ctx, r.kamino, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // kamino says how to go on
	c.WaitDelay = time.Minute
	var out, problems bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, io.MultiWriter(&problems, r.out)
	if err := c.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		return "", fmt.Errorf("kamino %s: %w: %s", args[0], err, lines[len(lines)-1])
	}
	return out.String(), nil
}

func (r *run) plan(ctx context.Context) (p plan, err error) {
	text, err := r.command(ctx, "", "plan", cmp.Or(r.before.Pool, r.pool), "-o", "json")
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, err
	}
	if len(p.Pools) != 1 {
		return p, fmt.Errorf("kamino plan shows %d pools of the name %q", len(p.Pools), r.pool)
	}
	return p, nil
}

// prepare chooses the donor, asks, and notes the state before the capture.
func (r *run) prepare(ctx context.Context, in io.Reader) error {
	if r.pool == "" {
		return errors.New("no pool is named: use --pool; `kamino plan` lists the pools")
	}
	p, err := r.plan(ctx)
	if err != nil {
		return err
	}
	pool := p.Pools[0]
	donor := cmp.Or(r.node, pool.Donor)
	switch {
	case donor == "":
		return fmt.Errorf("no node of the pool can be captured: %s; `kamino plan %s` has the reasons, and --node names another", pool.Decision.Message, r.pool)
	case pool.Method.Method != string(v1alpha1.MethodCopy):
		return fmt.Errorf("the pool is not captured by copy: %s", pool.Method.Message)
	}
	cloud, _, _ := strings.Cut(strings.TrimPrefix(pool.PoolID, "arn:"), ":")
	if strings.HasPrefix(strings.ToLower(pool.PoolID), "/subscriptions/") {
		cloud = "azure"
	}
	// A version of its own in each quarter of an hour: a cloud remembers the client tokens of a version that was deleted.
	now := time.Now().UTC()
	version := fmt.Sprintf("%s%02d", now.Format("2006.01.02"), 2+(now.Hour()*60+now.Minute())/15)
	fmt.Fprintf(r.out, `
Kamino copies the disk of node %s of pool %s while it serves.
It boots a workshop and a trial node of the type %s for about half an hour each.
It makes version %s, which the pool does not use. At the end all of it is deleted.
The cloud bills two instances, two disks of %d GiB and a snapshot for that time.
`, donor, pool.Pool, pool.Copy.InstanceType, version, pool.Copy.DiskGB)
	if !r.yes {
		fmt.Fprintf(r.out, "Type yes to start: ")
		answer, _ := bufio.NewReader(in).ReadString('\n') // an end of the input is no yes
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was made")
		}
	}
	r.before = before{Cloud: cloud, Pool: pool.Pool, Donor: donor, Version: version, Recipe: pool.Change.From}
	if r.before.Nodes, err = r.nodes(ctx); err != nil {
		return err
	}
	if r.before.Pods, err = r.pods(ctx, donor); err != nil {
		return err
	}
	return r.save()
}

// capture runs kamino until the version waits for a promotion, and watches the donor. kamino itself would wait for the promotion.
func (r *run) capture(ctx context.Context) (seen []string, failure error) {
	settings := fmt.Sprintf("settings: {donor: {method: %s}, promotion: {mode: %s}, trial: {mode: %s, soak: %s}}\n", v1alpha1.MethodCopy,
		v1alpha1.PromotionManual, v1alpha1.TrialApart, r.soak)
	until, stop := context.WithTimeout(ctx, 3*time.Hour)
	var watched sync.WaitGroup
	watched.Go(func() { seen = r.watch(until, stop) })
	_, failure = r.command(until, settings, "capture", r.before.Donor, "--version", r.before.Version, "-f", "-", "--yes", "-o", "name")
	stop()
	watched.Wait()
	return seen, failure
}

// remove ends the capture, and deletes the version. It may be repeated.
func (r *run) remove(ctx context.Context) error {
	found, err := r.prototype(ctx)
	if err != nil {
		return err
	}
	if found != nil {
		if _, err := r.command(ctx, "", "cancel", found.Name, "--timeout", "1h"); err != nil {
			return err
		}
	}
	if _, err := r.command(ctx, "", "delete-version", r.before.Pool, r.before.Version); err != nil && !strings.Contains(err.Error(), "no version") {
		return err
	}
	if !r.clean {
		return nil
	}
	return os.Remove(r.state())
}

// state is the file with the state before the capture.
func (r *run) state() string { return r.report + ".state" }

func (r *run) load() (known bool, err error) {
	text, err := os.ReadFile(r.state())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.before)
	}
	return err == nil, err
}

func (r *run) save() error {
	text, err := json.Marshal(r.before)
	if err != nil {
		return err
	}
	return os.WriteFile(r.state(), text, 0o600)
}
