// Command testsuite finds, splits, runs and measures the project's tests.
//
// The short suite is `go test -short`: `make test` runs it. The long suite is everything that the short one leaves out:
// every test of a package that is long as a whole, and every test function that calls testing.Short. The tests on real
// machines need root, and belong to neither suite.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usageText = `usage:
  testsuite long [-shard k/n] [-flags FLAGS]   run the long suite, or one shard of it
  testsuite list [-machines] [-shard k/n]      list its tests with the seconds that each is expected to take
  testsuite needs -shard k/n VARIABLE          succeed if a package of the shard reads the environment variable
  testsuite machines [-short] [-write] [-shard k/n] [-flags FLAGS]
                                               run the tests on real machines, and write down their times
  testsuite shards [-machines]                 print how many shards keep each below the limit
  testsuite times [-long] [-flags FLAGS] [PACKAGE...]
                                               run a suite, or these packages of it, measure, and write docs/contribute/tests.md
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsuite:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// options are the flags of all commands.
type options struct {
	shard Shard
	long  bool
	// machines selects the tests on real machines instead of the long suite.
	machines bool
	// short runs only the core of the tests on real machines. write writes down their times.
	short, write bool
	// flags of `go test` for the sandbox's packages, separated by spaces, with quotes as in GOFLAGS.
	flags string
	rest  []string
}

func parse(args []string) (o options, err error) {
	o.shard = Shard{Index: 1, Count: 1}
	set := flag.NewFlagSet("testsuite", flag.ContinueOnError)
	set.Usage = func() { fmt.Fprint(os.Stderr, usageText) }
	set.Var(&o.shard, "shard", "k/n: the k-th of n parts")
	set.BoolVar(&o.long, "long", false, "the long suite")
	set.BoolVar(&o.machines, "machines", false, "the tests on real machines")
	set.BoolVar(&o.short, "short", false, "the core of the tests on real machines")
	set.BoolVar(&o.write, "write", false, "write down the times")
	set.StringVar(&o.flags, "flags", "", "GOFLAGS for the sandbox's packages")
	err = set.Parse(args)
	o.rest = set.Args()
	return o, err
}

func run(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usageText)
		return 2, nil
	}
	if args[0] == "exec" {
		return measured(args[1:])
	}
	o, err := parse(args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0, nil
		}
		return 2, err
	}
	all, err := discover(ctx)
	if err != nil {
		return 1, err
	}
	if args[0] == "times" {
		return times(ctx, all, o)
	}
	expected, err := readTimes()
	if err != nil {
		return 1, err
	}
	tests := LongTests(all)
	if o.machines || args[0] == "machines" {
		tests = MachineTests(all)
	}
	weighed := Weigh(tests, expected)
	part := o.shard.Of(weighed)
	switch args[0] {
	case "long":
		return long(ctx, all, part, o)
	case "list":
		for _, t := range part {
			fmt.Printf("%6.1f  %s  %s\n", t.Seconds, t.Package, t.Name)
		}
		return 0, nil
	case "needs":
		return needs(all, part, o.rest)
	case "machines":
		return machines(ctx, all, part, o)
	case "shards":
		fmt.Println(Shards(weighed))
		return 0, nil
	}
	fmt.Fprint(os.Stderr, usageText)
	return 2, nil
}
