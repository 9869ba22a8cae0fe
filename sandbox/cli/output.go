package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/sandbox/control"
)

// format is the value of -o.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

// String, Set and Type implement pflag.Value.
func (f *format) String() string { return string(*f) }

// Set refuses unknown formats.
func (f *format) Set(text string) error {
	switch format(text) {
	case asTable, asJSON, asYAML:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("use %s, %s or %s", asTable, asJSON, asYAML)
}

// Type is shown in help.
func (f *format) Type() string { return "FORMAT" }

// outputFlag adds -o to a verb.
func outputFlag(command *cobra.Command) *format {
	f := asTable
	command.Flags().VarP(&f, "output", "o", "table, json or yaml")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{string(asTable), string(asJSON), string(asYAML)}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// show prints a value: as a document, or as a table of rows.
func show(w io.Writer, f format, value any, header []string, rows [][]string) error {
	switch f {
	case asJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case asYAML:
		raw, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	default:
		return table(w, header, rows)
	}
}

func table(w io.Writer, header []string, rows [][]string) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(tabs, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return tabs.Flush()
}

// teller prints the events of an order.
func (r *root) teller() func(control.Event) {
	return func(e control.Event) {
		_, _ = fmt.Fprintf(r.stderr, "%7.1fs  %s: %s\n", e.Seconds, e.Subject, e.Text)
	}
}

// orDash returns "-" for an empty text.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// age shows a duration in its two largest units.
func age(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case seconds <= 0:
		return "-"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// short is the part of a resource ID after "images", or the whole text.
func short(image string) string {
	parts := strings.Split(image, "/")
	for i, p := range parts {
		if strings.EqualFold(p, "images") && i+1 < len(parts) {
			return strings.Join(parts[i+1:], "/")
		}
	}
	return image
}
