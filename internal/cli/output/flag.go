// Package output writes results in the form that the user asks for, without control characters of others.
package output

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// Bind adds the flag -o with its formats and their completion.
func Bind(cmd *cobra.Command, format *Format, known ...Format) {
	words := make([]string, len(known))
	for i, f := range known {
		words[i] = string(f)
	}
	usage := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	if !slices.Contains(known, Table) {
		usage += " (default: sentences)"
	}
	cmd.Flags().StringVarP((*string)(format), "output", "o", "", usage)
	Complete(cmd, "output", words...)
	Before(cmd, func() error {
		if _, err := ParseFormat(string(*format), known...); err != nil {
			return &exit.Failure{Code: exit.Usage, Err: err}
		}
		return nil
	})
}

// Complete completes a flag with fixed words.
func Complete(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
}

// Before adds a check that runs before the verb, after earlier checks. The error of the check names the problem, so the
// error does not point at the help.
func Before(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}
