package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// A shell that waits for a completion must not hang, and nobody reads a list of thousands.
const (
	completionTime  = 3 * time.Second
	completionLimit = 500
)

type completer = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective)

// complete makes a completer of the first argument out of a list of names. Without an answer from the
// cluster nothing is completed.
func complete(f *Factory, o *Options, names func(context.Context, *cluster.Connection) ([]string, error)) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		cluster, err := f.Connect(o)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := names(ctx, cluster)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeNodes(f *Factory, o *Options) completer {
	return complete(f, o, func(ctx context.Context, c *cluster.Connection) ([]string, error) {
		list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: completionLimit})
		if err != nil {
			return nil, err
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names, nil
	})
}

// completePolicies completes a flag: arguments before it don't matter.
func completePolicies(f *Factory, o *Options) completer {
	named := complete(f, o, func(ctx context.Context, c *cluster.Connection) ([]string, error) {
		var list v1alpha1.PrototypePolicyList
		if err := c.Client.List(ctx, &list); err != nil {
			return nil, err
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names, nil
	})
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return named(cmd, nil, prefix)
	}
}

func completePrototypes(f *Factory, o *Options) completer {
	return complete(f, o, func(ctx context.Context, c *cluster.Connection) ([]string, error) {
		all, err := c.Prototypes(ctx)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return names, nil
	})
}

// find is the Prototype of that name, or nil.
func find(all []v1alpha1.Prototype, name string) *v1alpha1.Prototype {
	i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// bindOutput gives a verb the flag -o with the forms of output that it knows, and completes it with them.
func bindOutput(cmd *cobra.Command, output *string, known ...print.Format) {
	words := make([]string, len(known))
	for i, format := range known {
		words[i] = string(format)
	}
	usage := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	if !slices.Contains(known, print.Table) {
		usage += " (default: sentences)"
	}
	cmd.Flags().StringVarP(output, "output", "o", "", usage)
	completeWords(cmd, "output", words...)
}

// completeProfiles completes --profile.
func completeProfiles(cmd *cobra.Command) {
	completeWords(cmd, "profile", string(v1alpha1.ProfileStatic), string(v1alpha1.ProfileBootstrap))
}

// completeWords completes a flag with the words that it takes.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
}
