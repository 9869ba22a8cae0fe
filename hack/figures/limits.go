package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// number prints a figure as limits.tsv has it.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// parseLimits reads sorted lines of a name, a tab and a number.
func parseLimits(text string) (map[string]float64, error) {
	limits, last := map[string]float64{}, ""
	for line := range strings.Lines(text) {
		name, field, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || name <= last {
			return nil, fmt.Errorf("%s: %q is not a name, a tab and a number, or not sorted", limitsFile, strings.TrimSuffix(line, "\n"))
		}
		limits[name], last = n, name
	}
	return limits, nil
}

func formatLimits(limits map[string]float64) (text string) {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		text += name + "\t" + number(limits[name]) + "\n"
	}
	return text
}

// lowered returns a limit for each value: the value if better, without a limit, or raised; else the limit.
func lowered(limits map[string]float64, values []value, raise string) (map[string]float64, error) {
	next, known := map[string]float64{}, raise == "" || raise == "all"
	for _, v := range values {
		limit, has := limits[v.name]
		if !has || v.n < limit || raise == v.name || raise == "all" {
			limit = v.n
		}
		next[v.name], known = limit, known || raise == v.name
	}
	if !known {
		return nil, fmt.Errorf("%q is not a figure: `make figures` lists the names", raise)
	}
	return next, nil
}

// compare returns a sentence with a remedy for each figure worse than its limit, each figure without a limit, and each
// limit without a figure. It also counts figures that are better than their limit.
func compare(limits map[string]float64, values []value) (broken []string, better int) {
	rest := maps.Clone(limits)
	for _, v := range values {
		limit, has := limits[v.name]
		delete(rest, v.name)
		switch {
		case !has:
			broken = append(broken, fmt.Sprintf("%s has no limit: run `make figures FIGURES=-write`.", v.name))
		case v.n > limit:
			broken = append(broken, fmt.Sprintf("%s is %s, and the limit is %s (%s): %s, or raise the limit in a commit that says why "+
				"(docs/contribute/architecture.md#figures).", v.name, number(v.n), number(limit), v.where, v.remedy))
		case v.n < limit:
			better++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		broken = append(broken, fmt.Sprintf("%s has a limit and is no figure: run `make figures FIGURES=-write`.", name))
	}
	return broken, better
}
