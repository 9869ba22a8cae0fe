package realcloud

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const usage = `verify-cloud checks on a real cloud what Kamino only assumes, and removes everything that it made.

  verify-cloud run       make a network and a group, run the checks, write a report, remove everything.
  verify-cloud clean     remove what an interrupted run left.
  verify-cloud price     the most that a run can cost, from assumed list prices.
  verify-cloud checks    the assumptions, and those that cannot be checked.
  verify-cloud dry-run   each call of a run with its permission, against the simulated cloud; no account is used.
  verify-cloud policy    what one run needs to be allowed: an IAM policy for its tag, or a role of Azure (--run).
  verify-cloud cluster   one whole capture in a cluster of yours, without a promotion, and its checks (--pool).
  verify-cloud compare REPORT...   the differences between reports and the simulation.

Name the cloud with --cloud. Flags follow the command. docs/contribute/verify-cloud.md explains a run.

`

// errDiffers is the end of a comparison with differences.
var errDiffers = errors.New("the reports differ from the simulation")

// options are the flags.
type options struct {
	cloud, region, run, report string
	limit                      float64
	yes, keep                  bool
}

// Main runs the command, and returns its exit code.
func Main(ctx context.Context, clouds []*Cloud, args []string, in io.Reader, out, problems io.Writer) int {
	err := do(ctx, clouds, args, in, out, problems)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(problems, "verify-cloud: %v\n", err)
	return 1
}

var errUsage = errors.New("usage")

func do(ctx context.Context, clouds []*Cloud, args []string, in io.Reader, out, problems io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(problems, usage)
		return errUsage
	}
	o := options{}
	flags := flag.NewFlagSet("verify-cloud "+args[0], flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() { fmt.Fprint(problems, usage); flags.PrintDefaults() }
	flags.StringVar(&o.cloud, "cloud", "", "the cloud: "+names(clouds))
	flags.StringVar(&o.region, "region", "", "the region (default on AWS: that of the environment or profile)")
	flags.StringVar(&o.run, "run", "", "the name of a run (default: the one that the cloud shows, or a new one)")
	flags.StringVar(&o.report, "report", "verify-cloud-report.json", "the file of the report")
	flags.Float64Var(&o.limit, "limit", DefaultLimit, "refuse to start if a run can cost more dollars")
	flags.BoolVar(&o.yes, "yes", false, "do not ask before the first change")
	flags.BoolVar(&o.keep, "keep", false, "do not remove anything at the end")
	if err := flags.Parse(args[1:]); err != nil {
		return cmp.Or(map[bool]error{true: err}[errors.Is(err, flag.ErrHelp)], errUsage)
	}
	switch args[0] {
	case "compare": // a report names its cloud
		return compareCommand(ctx, clouds, flags.Args(), out)
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return nil
	}
	cloud, err := find(clouds, o.cloud)
	if err != nil {
		return err
	}
	switch args[0] {
	case "run":
		return runCommand(ctx, cloud, o, in, out)
	case "clean":
		return cleanCommand(ctx, cloud, o, out)
	case "price":
		cloud.Price.print(out, lifetime)
		return nil
	case "checks":
		return printChecks(cloud, out)
	case "dry-run":
		return dryRun(ctx, cloud, out)
	case "policy":
		text, err := cloud.Policy(cmp.Or(o.run, "RUN"))
		fmt.Fprintf(out, "%s\n", text)
		return err
	}
	fmt.Fprint(problems, usage)
	return errUsage
}

// names of clouds, for a sentence.
func names(clouds []*Cloud) string {
	var all []string
	for _, c := range clouds {
		all = append(all, c.Name)
	}
	return strings.Join(all, " or ")
}

// find is a cloud by its name. There is no default: a run costs money.
func find(clouds []*Cloud, name string) (*Cloud, error) {
	for _, c := range clouds {
		if c.Name == name {
			return c, nil
		}
	}
	if name == "" {
		return nil, fmt.Errorf("no cloud is named: use --cloud with %s, or CLOUD=%s with make", names(clouds), clouds[0].Name)
	}
	return nil, fmt.Errorf("there are no checks for the cloud %q: use --cloud with %s", name, names(clouds))
}

// choose is the run to continue, or a new one.
func choose(found []Run, o options, now time.Time) (Run, error) {
	found = slices.DeleteFunc(slices.Clone(found), func(r Run) bool { return o.run != "" && r.Name != o.run })
	switch {
	case len(found) > 1:
		return Run{}, severalRuns(found)
	case len(found) == 0:
		return Run{Name: cmp.Or(o.run, newName()), End: now.Add(lifetime)}, nil
	case !found[0].End.After(now):
		return Run{}, fmt.Errorf("the run %s ended at %s; remove it with `verify-cloud clean --run %s`",
			found[0].Name, found[0].End.Format(time.RFC3339), found[0].Name)
	}
	return found[0], nil
}

func severalRuns(found []Run) error {
	var names []string
	for _, r := range found {
		names = append(names, r.Name+" (ends "+r.End.Format(time.RFC3339)+")")
	}
	return fmt.Errorf("the account has several runs; name one with --run: %s", strings.Join(names, ", "))
}

func runCommand(ctx context.Context, cloud *Cloud, o options, in io.Reader, out io.Writer) error {
	cloud.Price.print(out, lifetime)
	if most := cloud.Price.most(lifetime); most > o.limit {
		return fmt.Errorf("a run can cost %.2f $, and the limit is %.2f $", most, o.limit)
	}
	account, err := cloud.Connect(ctx, o.region)
	if err != nil {
		return err
	}
	return runIn(ctx, cloud, account, o, in, out)
}

// runIn is a whole run in an account: look for an interrupted one, ask, check, remove.
func runIn(ctx context.Context, cloud *Cloud, account *Account, o options, in io.Reader, out io.Writer) error {
	looking, err := Open(cloud, account, out, "", time.Time{})
	if err != nil {
		return err
	}
	who, err := looking.in.Who(ctx)
	if err != nil {
		return err
	}
	found, err := looking.in.Runs(ctx)
	if err != nil {
		return err
	}
	chosen, err := choose(found, o, account.Now())
	if err != nil {
		return err
	}
	c, err := Open(cloud, account, out, chosen.Name, chosen.End)
	if err != nil {
		return err
	}
	before, err := continued(o.report, cloud.Name, chosen.Name)
	if err != nil {
		return err
	}
	if before != nil {
		c.Log = before
	}
	fmt.Fprintf(out, "\naccount %s, region %s, run %s, until %s\n", who, account.Region, chosen.Name, c.End.Format(time.RFC3339))
	if !o.yes {
		fmt.Fprintf(out, "Everything that the run makes has the tag %s=%s. Type yes to start: ", TagRun, chosen.Name)
		answer, _ := bufio.NewReader(in).ReadString('\n') // an end of the input is no yes
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was made")
		}
	}
	save := func() error {
		c.Log.record(c.wire)
		return c.Log.Write(o.report)
	}
	err = c.tryAll(ctx, save)
	if err != nil {
		err = errors.Join(err, save())
	}
	if ctx.Err() != nil {
		return errors.Join(err, fmt.Errorf("the run goes on with `verify-cloud run --cloud %[1]s --run %[2]s`; "+
			"`verify-cloud clean --cloud %[1]s --run %[2]s` removes it", cloud.Name, chosen.Name))
	}
	if !o.keep {
		err = errors.Join(err, c.clean(ctx))
	}
	fmt.Fprintf(out, "the report is in %s\n", o.report)
	return err
}

func cleanCommand(ctx context.Context, cloud *Cloud, o options, out io.Writer) error {
	account, err := cloud.Connect(ctx, o.region)
	if err != nil {
		return err
	}
	return cleanIn(ctx, cloud, account, o, out)
}

// cleanIn removes a run: the named one, or the only one that the cloud shows.
func cleanIn(ctx context.Context, cloud *Cloud, account *Account, o options, out io.Writer) error {
	name := o.run
	if name == "" {
		looking, err := Open(cloud, account, out, "", time.Time{})
		if err != nil {
			return err
		}
		found, err := looking.findRuns(ctx)
		switch {
		case err != nil:
			return err
		case len(found) > 1:
			return severalRuns(found)
		case len(found) == 0:
			fmt.Fprintf(out, "nothing has the tag %s\n", TagRun)
			return nil
		}
		name = found[0].Name
	}
	c, err := Open(cloud, account, out, name, time.Time{})
	if err != nil {
		return err
	}
	return c.clean(ctx)
}

// newName is the name of a new run. It has no form of an ID.
func newName() string { return "r" + strings.ToLower(rand.Text()[:7]) + "z" }

// simulatedReport is the report of a whole run against the simulated cloud.
func simulatedReport(ctx context.Context, cloud *Cloud, saw func(Call)) (*Report, error) {
	account, end, err := cloud.Simulate("")
	if err != nil {
		return nil, err
	}
	defer end()
	account.Saw = saw
	c, err := Open(cloud, account, io.Discard, newName(), account.Now().Add(lifetime))
	if err != nil {
		return nil, err
	}
	if err := c.tryAll(ctx, func() error { return nil }); err != nil {
		return nil, err
	}
	if err := c.clean(ctx); err != nil {
		return nil, err
	}
	if left := account.Left(); len(left) > 0 {
		return nil, fmt.Errorf("the run left %s", strings.Join(left, ", "))
	}
	return c.Log, nil
}

func printChecks(cloud *Cloud, out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "CHECK\tASSUMPTION\tEXPECTED\n")
	for _, a := range cloud.Assumptions {
		fmt.Fprintf(t, "%s\t%s\t%s\n", a.Name, a.Sentence, a.Expected)
	}
	fmt.Fprintf(t, "\nNOT CHECKED\t\tREASON\n")
	for _, sentence := range slices.Sorted(maps.Keys(cloud.Unchecked)) {
		fmt.Fprintf(t, "\t%s\t%s\n", sentence, cloud.Unchecked[sentence])
	}
	return t.Flush()
}

// dryRun prints each call of a run against the simulation. Repeated looks are one line.
func dryRun(ctx context.Context, cloud *Cloud, out io.Writer) error {
	last, again := "", 0
	line := func() {
		if again > 1 {
			fmt.Fprintf(out, "    (%d times)\n", again)
		}
	}
	_, err := simulatedReport(ctx, cloud, func(c Call) {
		if now := c.Action; now != last {
			line()
			last, again = now, 0
			fmt.Fprintf(out, "%-7s %-42s %s\n", map[bool]string{true: "CHANGES", false: "reads"}[c.changes], c.Action, c.Permission)
		}
		again++
	})
	line()
	return err
}

// compareCommand compares each report with a run against the simulation of its cloud.
func compareCommand(ctx context.Context, clouds []*Cloud, paths []string, out io.Writer) error {
	if len(paths) == 0 {
		return errors.New("name a report: verify-cloud compare REPORT")
	}
	simulated, differs := map[string]*Report{}, false
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return err
		}
		if !r.inCluster() && simulated[r.Cloud] == nil {
			cloud, err := find(clouds, r.Cloud)
			if err != nil {
				return err
			}
			if simulated[r.Cloud], err = simulatedReport(ctx, cloud, nil); err != nil {
				return err
			}
		}
		all := Compare(r, simulated[r.Cloud])
		differs = differs || len(all) > 0
		fmt.Fprintf(out, "%s: %d differences\n", path, len(all))
		for _, d := range all {
			fmt.Fprintf(out, "  %s\n", d)
		}
	}
	if differs {
		return errDiffers
	}
	return nil
}
