package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/kamino-dev/kamino/sandbox/child"
)

// The size of the cluster.
const (
	scalePools = 100
	scaleNodes = 15_000
)

// The number of measurements: lists and starts alternate, and the medians are used.
const (
	scaleTries = 3
	scaleLists = 2
)

// scalePage is how many nodes clients that list in pages ask for at once. Source: client-go's pager.
const scalePage = 500

// scaleHeartbeats are sent without pauses: 100 seconds of heartbeats, if each node sends one every five minutes, as
// kubelets do.
const scaleHeartbeats = 5000

// Scale is the measured cost of the controller in a large cluster.
type Scale struct {
	Nodes int `json:"nodes"`
	Pools int `json:"pools"`
	// NodeBytes is the size of a Node from the API server, with managed fields.
	NodeBytes int `json:"nodeBytes"`
	// Lists are the times to list and keep all nodes as protobuf in one piece, the fastest way. Paged are the times
	// in pages, as most clients ask.
	Lists []time.Duration `json:"lists"`
	Paged []time.Duration `json:"pagedLists"`
	// Decisions are the times from the start of the process to the first status with decisions over all pools. The
	// times include the connection to the API server and the Lease.
	Decisions []time.Duration `json:"decisions"`
	// PeakMemory is the highest anonymous resident size of all starts, in bytes. SteadyMemory is the highest size while
	// heartbeats arrive.
	PeakMemory   int64 `json:"peakMemory"`
	SteadyMemory int64 `json:"steadyMemory"`
	// Heartbeats is the number of sent heartbeats. Passes are the resulting passes over policies, and Requests the
	// resulting requests to Azure.
	Heartbeats int `json:"heartbeats"`
	Passes     int `json:"heartbeatPasses"`
	Requests   int `json:"heartbeatRequests"`
	// Look is the number of requests to Azure for a first decision.
	Look int `json:"firstDecisionRequests"`
	// Took is how long the whole measurement took.
	Took time.Duration `json:"took"`
}

// List is the median time of the lists in one piece.
func (s Scale) List() time.Duration { return median(s.Lists) }

// Decision is the median of the first decisions.
func (s Scale) Decision() time.Duration { return median(s.Decisions) }

// Ratio of a first decision to a list.
func (s Scale) Ratio() float64 { return s.Decision().Seconds() / s.List().Seconds() }

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// RunScale measures the controller on a real API server with the nodes of a large cluster.
func RunScale(ctx context.Context, o Options) (s Scale, err error) {
	o = o.withDefaults()
	began := time.Now()
	dir, err := os.MkdirTemp("", "kamino-scale-")
	if err != nil {
		return Scale{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Say("starting an API server and a cloud with %d pools", scalePools)
	c, err := startCluster(ctx, o, dir, scaleNodes)
	if err != nil {
		return Scale{}, fmt.Errorf("start a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	o.Say("making %d nodes", scaleNodes)
	s = Scale{Nodes: scaleNodes, Pools: scalePools}
	if s.NodeBytes, err = c.fill(ctx); err != nil {
		return s, fmt.Errorf("make nodes: %w", err)
	}
	if err := c.measure(ctx, o, &s); err != nil {
		return s, err
	}
	s.Took = time.Since(began)
	return s, nil
}

// measure lists and starts by turns. The last controller goes on to the heartbeats.
func (c *cluster) measure(ctx context.Context, o Options, s *Scale) error {
	for try := range scaleTries {
		for range scaleLists {
			for page, all := range map[int64]*[]time.Duration{0: &s.Lists, scalePage: &s.Paged} {
				took, err := c.list(ctx, page)
				if err != nil {
					return fmt.Errorf("list the nodes: %w", err)
				}
				*all = append(*all, took)
			}
		}
		if err := c.start(ctx, o, s, try == scaleTries-1); err != nil {
			return err
		}
		o.Say("one LIST took %s, the first decision %s", short(s.Lists[len(s.Lists)-1]), short(s.Decisions[try]))
	}
	return nil
}

// start lets a controller decide. The last controller also receives the heartbeats of many nodes.
func (c *cluster) start(ctx context.Context, o Options, s *Scale, last bool) (err error) {
	if err := c.renewPolicy(ctx); err != nil {
		return fmt.Errorf("make a policy: %w", err)
	}
	if err := c.letForget(ctx); err != nil {
		return err
	}
	before := c.cloud.Stats().Requests
	p, err := startController(c.programs(o), c.site.Path("controller.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	peak := child.WatchMemory(p.PID())
	decided, err := c.awaitDecision(ctx, p)
	if err != nil {
		return err
	}
	s.Decisions = append(s.Decisions, decided.Sub(p.began))
	if err := p.passes(ctx, 1); err != nil {
		return err
	}
	s.PeakMemory = max(s.PeakMemory, peak())
	s.Look = c.cloud.Stats().Requests - before
	if !last {
		return nil
	}
	return c.hear(ctx, o, p, s)
}

// hear sends heartbeats, and then a real change. A watch keeps the order: after the pass for the change, all passes
// for heartbeats are done.
func (c *cluster) hear(ctx context.Context, o Options, p *controller, s *Scale) error {
	if err := p.profile(ctx, o.Profiles, "decided"); err != nil {
		return err
	}
	peak := child.WatchMemory(p.PID())
	passes, err := p.counted(ctx)
	if err != nil {
		return err
	}
	requests := c.cloud.Stats().Requests
	o.Say("sending %d heartbeats", scaleHeartbeats)
	if err := c.beat(ctx, scaleHeartbeats); err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	if err := c.change(ctx); err != nil {
		return err
	}
	if err := p.passes(ctx, passes+1); err != nil {
		return err
	}
	after, err := p.counted(ctx)
	if err != nil {
		return err
	}
	s.Heartbeats, s.Passes, s.Requests = scaleHeartbeats, after-passes-1, c.cloud.Stats().Requests-requests
	s.SteadyMemory = peak()
	return p.profile(ctx, o.Profiles, "steady")
}

// list lists and keeps all nodes, in pages, or in one piece if page is 0.
func (c *cluster) list(ctx context.Context, page int64) (time.Duration, error) {
	kept := make([]corev1.Node, 0, c.nodes)
	began := time.Now()
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.kube.CoreV1().Nodes().List(ctx, o)
	})
	pages.PageSize = page
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if node, is := object.(*corev1.Node); is {
			kept = append(kept, *node)
		}
		return nil
	})
	took := time.Since(began)
	if err == nil && len(kept) != c.nodes {
		err = fmt.Errorf("%d came in place of %d", len(kept), c.nodes)
	}
	return took, err
}
