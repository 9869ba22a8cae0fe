// Command figures measures the structure of the repository, and holds each figure at its limit or better.
//
// A report of figures copies the output, so a report has no figure that the code does not have. limits.tsv has the limits,
// and docs/contribute/architecture.md explains each figure, and how to raise a limit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

const limitsFile = "hack/figures/limits.tsv"

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
	os.Exit(code)
}

// run returns the exit status: 1 for an error or a broken limit, 2 for wrong arguments. Call it in the root of the repository.
func run(args []string, out io.Writer) (int, error) {
	set := flag.NewFlagSet("figures", flag.ContinueOnError)
	check := set.Bool("check", false, "print only figures that are worse than their limit, and fail")
	write := set.Bool("write", false, "lower limits to the values of today")
	raise := set.String("raise", "", "with -write: raise the limit of this figure as well, or of \"all\"")
	if err := set.Parse(args); err != nil || set.NArg() > 0 || *raise != "" && !*write {
		return 2, errors.New("usage: figures [-check | -write [-raise NAME]]")
	}
	values, limits, err := today()
	if err != nil {
		return 1, err
	}
	if *write {
		if limits, err = lowered(limits, values, *raise); err != nil {
			return 2, err
		}
		if err := os.WriteFile(limitsFile, []byte(formatLimits(limits)), 0o644); err != nil {
			return 1, err
		}
	}
	if !*check {
		show(out, values, limits)
	}
	broken, better := compare(limits, values)
	for _, sentence := range broken {
		fmt.Fprintln(out, sentence)
	}
	if better > 0 {
		fmt.Fprintf(out, "%d figures are better than their limit: lower the limits with `make figures FIGURES=-write`.\n", better)
	}
	if *check && len(broken) > 0 {
		return 1, nil
	}
	return 0, nil
}

// today reads the repository and the limits.
func today() (values []value, limits map[string]float64, err error) {
	h, err := load()
	if err != nil {
		return nil, nil, err
	}
	if values, err = measure(h); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(limitsFile)
	if err != nil {
		return nil, nil, err
	}
	limits, err = parseLimits(string(text))
	return values, limits, err
}

// show prints the table, and the meaning of each figure.
func show(out io.Writer, values []value, limits map[string]float64) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tLIMIT\tWHERE")
	for _, v := range values {
		limit := "-"
		if n, has := limits[v.name]; has {
			limit = number(n)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.name, number(v.n), limit, v.where)
	}
	_ = table.Flush()
	fmt.Fprintln(out)
	for _, v := range values {
		fmt.Fprintf(out, "%-24s %s\n", v.name, v.meaning)
	}
	fmt.Fprintln(out)
}
