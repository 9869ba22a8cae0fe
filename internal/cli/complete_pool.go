package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/membership"
)

// completePools completes the first argument with the pools of the cluster's nodes.
func completePools(f *Factory, o *Options) completer {
	return complete(f, o, func(ctx context.Context, c *cluster.Connection) ([]string, error) {
		provider, err := f.Cloud(ctx, o)
		if err != nil {
			return nil, err
		}
		ids, err := somePools(ctx, c, provider)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, id := range ids {
			names = append(names, provider.PoolName(id))
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	})
}

// somePools are the pools of the cluster's first nodes: a shell does not wait for all of many thousands.
func somePools(ctx context.Context, c *cluster.Connection, provider cloud.Provider) ([]cloud.PoolID, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil, err
	}
	var values []cloud.NodeValues
	for i := range list.Items {
		values = append(values, membership.Values(&list.Items[i]))
	}
	found, err := membership.Of(ctx, provider, values...)
	if err != nil {
		return nil, err
	}
	var ids []cloud.PoolID
	for _, of := range found {
		if of.Pool != "" {
			ids = append(ids, of.Pool)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// completePoolVersions completes a pool, and then one of its versions.
func completePoolVersions(f *Factory, o *Options) completer {
	pools := completePools(f, o)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return pools(cmd, args, prefix)
		}
		return completeVersions(f, o, cmd, args, prefix)
	}
}

// completeVersions completes a version of the pool that the first argument names, newest first.
func completeVersions(f *Factory, o *Options, cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	s, err := open(ctx, f, o)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids, err := somePools(ctx, s.cluster, s.provider)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var versions []string
	id, err := s.meant(ctx, args[0], ids)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	images, err := s.provider.Images(ctx, id)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, image := range slices.Backward(images) {
		if strings.HasPrefix(image.Version, prefix) {
			versions = append(versions, image.Version)
		}
	}
	return versions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
