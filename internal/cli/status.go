package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
)

func newStatusCommand(f *Factory, o *Options) *cobra.Command {
	var (
		output   string
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show pools, what their next nodes are built from, their versions, and captures",
		Long: `Show the pools that the cluster's nodes belong to: the image and version that each pool builds its next nodes
from, every version that there is, and the captures in flight together with the last one of each pool. Nodes that are
held by nobody who gives them back, and what captures have left that are gone, are told below, unless a pool is named.

The version in use is marked "current"; the one that a rollback would go to is marked "prior".`,
		Example: `  kamino status
  kamino status pool1 -o wide
  kamino status --watch`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := print.ParseFormat(output, print.Table, print.Wide, print.JSON, print.YAML)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			if interval < time.Second {
				return usagef("--interval %s is too short: every look asks the cloud, so wait at least 1s", interval)
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			pool := strings.Join(args, "")
			if watch {
				return s.watchStatus(cmd.Context(), pool, format, interval)
			}
			return s.status(cmd.Context(), pool, format)
		},
	}
	bindOutput(cmd, &output, print.Table, print.Wide, print.JSON, print.YAML)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look again and again until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", 10*time.Second, "time between two looks with --watch")
	return cmd
}

// status looks once. What could be found is shown even when a part could not be looked at; the first such
// trouble is the command's error.
func (s *session) status(ctx context.Context, pool string, format print.Format) error {
	text, trouble := s.statusText(ctx, pool, format)
	if _, err := s.Out.Write(text); err != nil {
		return err
	}
	return trouble
}

func (s *session) watchStatus(ctx context.Context, pool string, format print.Format, interval time.Duration) error {
	var shown []byte
	for {
		text, trouble := s.statusText(ctx, pool, format)
		if ctx.Err() != nil {
			return nil // interrupting is how one stops watching
		}
		switch {
		case trouble != nil && !cluster.Unreachable(trouble):
			return trouble
		case trouble != nil:
			s.note("%s; trying again", explain(trouble))
		case s.terminal():
			text = append([]byte("\x1b[H\x1b[2J"), text...)
			fallthrough
		default:
			if !bytes.Equal(text, shown) {
				if _, err := s.Out.Write(text); err != nil {
					return err
				}
				shown = text
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

func (s *session) statusText(ctx context.Context, pool string, format print.Format) ([]byte, error) {
	report, trouble := s.report(ctx, pool)
	if report == nil {
		return nil, trouble
	}
	var text bytes.Buffer
	var err error
	if format == print.JSON || format == print.YAML {
		err = print.Value(&text, format, report)
	} else {
		err = print.Status(&text, *report, format == print.Wide, s.Now())
	}
	if err != nil {
		return nil, err
	}
	return text.Bytes(), trouble
}

// report looks at cluster and cloud. It is nil if there is nothing to show but the error.
func (s *session) report(ctx context.Context, only string) (*print.Report, error) {
	pools, err := s.census(ctx)
	if err != nil {
		return nil, err
	}
	if only != "" {
		ids := make([]cloud.PoolID, len(pools))
		for i := range pools {
			ids[i] = pools[i].ID
		}
		meant, err := s.meant(ctx, only, ids)
		if err != nil {
			return nil, err
		}
		pools = slices.DeleteFunc(pools, func(p print.Pool) bool { return p.ID != meant })
		if len(pools) == 0 { // it has no nodes
			pools = []print.Pool{{Pool: cloud.Pool{ID: meant, Name: s.provider.PoolName(meant)}}}
		}
	}
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	report := &print.Report{Pools: pools, Captures: latest(all, pools, only)}
	if only == "" {
		if report.Held, err = s.held(ctx); err != nil {
			return nil, err
		}
	}
	return report, s.askCloud(ctx, pools)
}

// parallel is how many pools are looked at in the cloud at once.
const parallel = 4

// askCloud fills in what the cloud knows of the pools, and returns the first error.
func (s *session) askCloud(ctx context.Context, pools []print.Pool) error {
	var wait sync.WaitGroup
	errs := make([]error, len(pools))
	slots := make(chan struct{}, parallel)
	for i := range pools {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = s.lookAtPool(ctx, &pools[i]); errs[i] != nil {
				pools[i].Error = explain(errs[i])
			}
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("pool %s: %w", pools[i].Name, err)
		}
	}
	return nil
}

// latest is what is worth showing of all captures: those in flight, and the last one of each pool.
func latest(all []v1alpha1.Prototype, pools []print.Pool, only string) []v1alpha1.Prototype {
	slices.SortFunc(all, func(a, b v1alpha1.Prototype) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	shown := []v1alpha1.Prototype{}
	seen := map[string]bool{}
	for i := range all {
		p := &all[i]
		known := slices.ContainsFunc(pools, func(pool print.Pool) bool { return pool.Name == p.Spec.Pool })
		if only != "" && !known || seen[p.Spec.Pool] && p.Status.Terminal() {
			continue
		}
		seen[p.Spec.Pool] = true
		shown = append(shown, *print.Presentable(p))
	}
	return shown
}
