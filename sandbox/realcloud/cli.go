package realcloud

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

const usage = `verify-cloud checks on a real AWS account what Kamino only assumes, and removes everything that it made.

  verify-cloud run       make a network and a group, run the checks, write a report, remove everything.
  verify-cloud clean     remove what an interrupted run left.
  verify-cloud price     the most that a run can cost, from assumed list prices.
  verify-cloud checks    the assumptions, and those that cannot be checked.
  verify-cloud dry-run   each call of a run with its permission, against the simulated cloud; no account is used.
  verify-cloud policy    an IAM policy for one run, limited to its tag (--run).
  verify-cloud compare REPORT...   the differences between reports and the simulation.

Flags follow the command. docs/contribute/verify-cloud.md explains a run.

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
func Main(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) int {
	err := do(ctx, args, in, out, problems)
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

func do(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(problems, usage)
		return errUsage
	}
	o := options{}
	flags := flag.NewFlagSet("verify-cloud "+args[0], flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() { fmt.Fprint(problems, usage); flags.PrintDefaults() }
	flags.StringVar(&o.cloud, "cloud", "aws", "the cloud; only aws has checks")
	flags.StringVar(&o.region, "region", "", "the AWS region (default: that of the environment or profile)")
	flags.StringVar(&o.run, "run", "", "the name of a run (default: the one that the cloud shows, or a new one)")
	flags.StringVar(&o.report, "report", "verify-cloud-report.json", "the file of the report")
	flags.Float64Var(&o.limit, "limit", DefaultLimit, "refuse to start if a run can cost more dollars")
	flags.BoolVar(&o.yes, "yes", false, "do not ask before the first change")
	flags.BoolVar(&o.keep, "keep", false, "do not remove anything at the end")
	if err := flags.Parse(args[1:]); err != nil {
		return cmp.Or(map[bool]error{true: err}[errors.Is(err, flag.ErrHelp)], errUsage)
	}
	if o.cloud != "aws" {
		return fmt.Errorf("there are no checks for %q yet, only for aws", o.cloud)
	}
	switch args[0] {
	case "run":
		return runCommand(ctx, o, in, out)
	case "clean":
		return cleanCommand(ctx, o, out)
	case "price":
		printPrice(out, lifetime)
		return nil
	case "checks":
		return printChecks(out)
	case "dry-run":
		return dryRun(ctx, out)
	case "policy":
		text, err := Policy(cmp.Or(o.run, "RUN"))
		fmt.Fprintf(out, "%s\n", text)
		return err
	case "compare":
		return compareCommand(ctx, flags.Args(), out)
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return nil
	}
	fmt.Fprint(problems, usage)
	return errUsage
}

// connect is the real cloud, with the credential of the environment.
func connect(ctx context.Context, o options) (world, error) {
	var with []func(*config.LoadOptions) error
	if o.region != "" {
		with = append(with, config.WithRegion(o.region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, with...)
	if err != nil {
		return world{}, err
	}
	if loaded.Region == "" {
		return world{}, errors.New("no region is set; use --region or AWS_REGION")
	}
	if loaded.HTTPClient == nil {
		loaded.HTTPClient = http.DefaultClient
	}
	return world{config: loaded, now: time.Now, wait: func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}, nil
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

func runCommand(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	printPrice(out, lifetime)
	if most := price(lifetime); most > o.limit {
		return fmt.Errorf("a run can cost %.2f $, and the limit is %.2f $", most, o.limit)
	}
	w, err := connect(ctx, o)
	if err != nil {
		return err
	}
	return runIn(ctx, w, o, in, out)
}

// runIn is a whole run in a cloud: look for an interrupted one, ask, check, remove.
func runIn(ctx context.Context, w world, o options, in io.Reader, out io.Writer) error {
	looking := open(w, out, "", time.Time{})
	who, err := looking.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	found, err := looking.runs(ctx)
	if err != nil {
		return err
	}
	chosen, err := choose(found, o, w.now())
	if err != nil {
		return err
	}
	s := open(w, out, chosen.Name, chosen.End)
	before, err := continued(o.report, chosen.Name)
	if err != nil {
		return err
	}
	if before != nil {
		s.report = before
	}
	fmt.Fprintf(out, "\naccount %s, region %s, run %s, until %s\n", *who.Account, w.config.Region, chosen.Name, s.guard.end.Format(time.RFC3339))
	if !o.yes {
		fmt.Fprintf(out, "Everything that the run makes has the tag %s=%s. Type yes to start: ", TagRun, chosen.Name)
		answer, _ := bufio.NewReader(in).ReadString('\n') // an end of the input is no yes
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was made")
		}
	}
	save := func() error {
		s.report.record(s.wire)
		return s.report.write(o.report)
	}
	err = s.tryAll(ctx, save)
	if err != nil {
		err = errors.Join(err, save())
	}
	if ctx.Err() != nil {
		return errors.Join(err, fmt.Errorf("the run goes on with `verify-cloud run --run %s`; `verify-cloud clean --run %s` removes it", chosen.Name, chosen.Name))
	}
	if !o.keep {
		err = errors.Join(err, s.clean(ctx))
	}
	fmt.Fprintf(out, "the report is in %s\n", o.report)
	return err
}

func cleanCommand(ctx context.Context, o options, out io.Writer) error {
	w, err := connect(ctx, o)
	if err != nil {
		return err
	}
	return cleanIn(ctx, w, o, out)
}

// cleanIn removes a run: the named one, or the only one that the cloud shows.
func cleanIn(ctx context.Context, w world, o options, out io.Writer) error {
	name := o.run
	if name == "" {
		found, err := open(w, out, "", time.Time{}).findRuns(ctx)
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
	return open(w, out, name, time.Time{}).clean(ctx)
}

func printChecks(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "CHECK\tASSUMPTION\tEXPECTED\n")
	for _, c := range checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.name, c.sentence, c.expected)
	}
	fmt.Fprintf(t, "\nNOT CHECKED\t\tREASON\n")
	for _, sentence := range sortedKeys(unchecked) {
		fmt.Fprintf(t, "\t%s\t%s\n", sentence, unchecked[sentence])
	}
	return t.Flush()
}

// dryRun prints each call of a run against the simulation. Repeated looks are one line.
func dryRun(ctx context.Context, out io.Writer) error {
	last, again := "", 0
	line := func() {
		if again > 1 {
			fmt.Fprintf(out, "    (%d times)\n", again)
		}
	}
	_, err := simulatedReport(ctx, io.Discard, func(c Call) {
		if now := c.Action; now != last {
			line()
			last, again = now, 0
			fmt.Fprintf(out, "%-7s %-32s %s\n", map[bool]string{true: "CHANGES", false: "reads"}[c.changes], c.Action, c.Permission)
		}
		again++
	})
	line()
	return err
}

func compareCommand(ctx context.Context, paths []string, out io.Writer) error {
	if len(paths) == 0 {
		return errors.New("name a report: verify-cloud compare REPORT")
	}
	simulated, err := simulatedReport(ctx, io.Discard, nil)
	if err != nil {
		return err
	}
	differs := false
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return err
		}
		all := Compare(r, simulated)
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
