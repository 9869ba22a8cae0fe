package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Limits of the controller's figures.
const (
	maxDecision     = 2
	maxSteadyMemory = 180 << 20
	maxPeakMemory   = 200 << 20
)

// scaleCost is the cost of the controller in a large cluster.
type scaleCost struct {
	// lists are the times to list and keep all nodes as protobuf in one piece, the fastest way. paged are the times in
	// pages, as most clients ask.
	lists, paged []time.Duration
	// decisions are the times from the start of the process to the first status with decisions over all pools. The times
	// include the connection to the API server and the Lease.
	decisions []time.Duration
	// peak is the highest anonymous resident size of all starts, in bytes, and steady the highest while heartbeats arrive.
	peak, steady int64
	// passes over policies and requests to Azure that the heartbeats cause.
	passes, requests int
	// look is the number of requests to Azure for a first decision.
	look int
}

// RunScale measures the controller on a real API server with the nodes of a large cluster.
func RunScale(ctx context.Context, o Options) (r Report, err error) {
	o = o.withDefaults()
	dir, err := os.MkdirTemp("", "kamino-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Say("starting an API server and a cloud with %d pools", scalePools)
	c, err := startCluster(ctx, o, dir, scalePools, scaleNodes)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	o.Say("making %d nodes", scaleNodes)
	bytes, err := c.fill(ctx)
	if err != nil {
		return nil, fmt.Errorf("make nodes: %w", err)
	}
	var s scaleCost
	if err := c.measure(ctx, o, &s); err != nil {
		return nil, err
	}
	return s.report(bytes), nil
}

// report has the size of a Node from the API server, with managed fields, in bytes.
func (s scaleCost) report(node int) (r Report) {
	list, decision := median(s.lists), median(s.decisions)
	r.add(fmt.Sprintf("%d nodes in %d pools: one LIST of the nodes", scaleNodes, scalePools),
		fmt.Sprintf("%s (in pages %s; %.1f KiB each)", short(list), short(median(s.paged)), float64(node)/1024))
	r.add("controller's start to the first decision over all pools", fmt.Sprintf("%s (%d requests to Azure)", short(decision), s.look))
	r.limited("ratio of the two", fmt.Sprintf("%.2f", ratio(decision, list)), ratio(decision, list) > maxDecision, atMost(fmt.Sprint(maxDecision)))
	r.limited("controller's memory, peak at the start", mebibytes(s.peak), s.peak > maxPeakMemory, atMost(mebibytes(maxPeakMemory)))
	r.limited("controller's memory, steady", mebibytes(s.steady), s.steady > maxSteadyMemory, atMost(mebibytes(maxSteadyMemory)))
	r.limited(fmt.Sprintf("%d heartbeats: passes, requests to Azure", scaleHeartbeats), fmt.Sprintf("%d, %d", s.passes, s.requests),
		s.passes != 0 || s.requests != 0, "0, 0")
	return r
}

// measure lists and starts by turns. The last controller goes on to the heartbeats.
func (c *cluster) measure(ctx context.Context, o Options, s *scaleCost) error {
	for try := range scaleTries {
		for range scaleLists {
			for page, all := range map[int64]*[]time.Duration{0: &s.lists, scalePage: &s.paged} {
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
		o.Say("one LIST took %s, the first decision %s", short(s.lists[len(s.lists)-1]), short(s.decisions[try]))
	}
	return nil
}

// start lets a controller decide. The last controller also receives the heartbeats of many nodes.
func (c *cluster) start(ctx context.Context, o Options, s *scaleCost, last bool) (err error) {
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
	s.decisions = append(s.decisions, decided.Sub(p.began))
	if err := p.passes(ctx, 1); err != nil {
		return err
	}
	s.peak = max(s.peak, peak())
	s.look = c.cloud.Stats().Requests - before
	if !last {
		return nil
	}
	return c.hear(ctx, o, p, s)
}

// hear sends heartbeats, and then a real change. A watch keeps the order: after the pass for the change, all passes
// for heartbeats are done.
func (c *cluster) hear(ctx context.Context, o Options, p *controller, s *scaleCost) error {
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
	s.passes, s.requests = after-passes-1, c.cloud.Stats().Requests-requests
	s.steady = peak()
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
