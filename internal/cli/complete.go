package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// Limits of completions: a shell must not hang, and long lists help no user.
const (
	completionTime  = 3 * time.Second
	completionLimit = 500
)

// namer lists the possible names at the completed place of a command line; args are the earlier arguments.
type namer func(ctx context.Context, args []string) ([]string, error)

// complete returns cobra's completion function. Without an answer, the completion is empty.
func (n namer) complete(more cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		all, err := n(ctx, args)
		if err != nil {
			all = nil
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return all, cobra.ShellCompDirectiveNoFileComp | more
	}
}

// atFirst completes the first argument only.
func (n namer) atFirst() cobra.CompletionFunc {
	return namer(func(ctx context.Context, args []string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return n(ctx, args)
	}).complete(0)
}

// listed lists the names of objects in the cluster.
func listed(f *Factory, o *Options, list func(context.Context, *cluster.Connection) (runtime.Object, error)) namer {
	return func(ctx context.Context, _ []string) (names []string, err error) {
		c, err := f.Connect(o)
		if err != nil {
			return nil, err
		}
		all, err := list(ctx, c)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(all, func(object runtime.Object) error {
			named, err := meta.Accessor(object)
			if err == nil {
				names = append(names, named.GetName())
			}
			return err
		})
		return names, err
	}
}

func completeNodes(f *Factory, o *Options) cobra.CompletionFunc {
	return listed(f, o, func(ctx context.Context, c *cluster.Connection) (runtime.Object, error) {
		return c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: completionLimit})
	}).atFirst()
}

// completePolicies completes a flag or any argument with policies.
func completePolicies(f *Factory, o *Options) cobra.CompletionFunc {
	return listed(f, o, func(ctx context.Context, c *cluster.Connection) (runtime.Object, error) {
		list := &v1alpha1.PrototypePolicyList{}
		return list, c.Client.List(ctx, list)
	}).complete(0)
}

func completePrototypes(f *Factory, o *Options) cobra.CompletionFunc {
	return listed(f, o, func(ctx context.Context, c *cluster.Connection) (runtime.Object, error) {
		list := &v1alpha1.PrototypeList{}
		return list, c.Client.List(ctx, list)
	}).atFirst()
}

// completeReserved completes the names of reserved nodes.
func completeReserved(f *Factory, o *Options) cobra.CompletionFunc {
	return namer(func(ctx context.Context, _ []string) (names []string, err error) {
		c, err := f.Connect(o)
		if err != nil {
			return nil, err
		}
		all, err := c.Prototypes(ctx)
		if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
			return nil, err
		}
		captures := reservations.CapturesOf(all)
		err = node.Each(ctx, c.Kube, "", func(n *corev1.Node) error {
			if _, isReserved := captures.Of(n); isReserved {
				names = append(names, n.Name)
			}
			return nil
		})
		return names, err
	}).atFirst()
}

// pools lists the pools of the cluster's first nodes.
func pools(f *Factory, o *Options) namer {
	return func(ctx context.Context, _ []string) ([]string, error) {
		s, err := open(ctx, f, o, true)
		if err != nil {
			return nil, err
		}
		ids, err := s.pools().Some(ctx, completionLimit)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, id := range ids {
			names = append(names, s.provider.PoolName(id))
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	}
}

// versions lists the versions of the pool in the first argument, the newest first, after at most so many arguments.
func versions(f *Factory, o *Options, most int) namer {
	return func(ctx context.Context, args []string) ([]string, error) {
		if len(args) < 1 || len(args) > most {
			return nil, nil
		}
		s, err := open(ctx, f, o, true)
		if err != nil {
			return nil, err
		}
		ids, err := s.pools().Some(ctx, completionLimit)
		if err != nil {
			return nil, err
		}
		id, err := s.pools().Resolve(ctx, args[0], ids)
		if err != nil {
			return nil, err
		}
		images, err := s.provider.Images(ctx, id)
		var names []string
		for _, image := range slices.Backward(images) {
			names = append(names, image.Version)
		}
		return names, err
	}
}

// completePools completes the first argument or a flag with the pools of the cluster's nodes.
func completePools(f *Factory, o *Options) cobra.CompletionFunc { return pools(f, o).atFirst() }

// completeVersions completes a flag with the versions of the pool in the first argument.
func completeVersions(f *Factory, o *Options) cobra.CompletionFunc {
	return versions(f, o, 1).complete(cobra.ShellCompDirectiveKeepOrder)
}

// completePoolVersions completes a pool, and then so many versions of the pool.
func completePoolVersions(f *Factory, o *Options, count int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completePools(f, o)(cmd, args, prefix)
		}
		return versions(f, o, count).complete(cobra.ShellCompDirectiveKeepOrder)(cmd, args, prefix)
	}
}

// profiles are the names for --profile.
func profiles() (names []string) {
	for _, p := range v1alpha1.Profiles() {
		names = append(names, string(p))
	}
	return names
}
