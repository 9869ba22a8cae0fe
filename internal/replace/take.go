package replace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/kured"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/replace/plan"
)

const (
	// listEvery bounds how often all nodes and instances are listed while nothing can be taken.
	listEvery = 15 * time.Second
	// maxLooks is at how many nodes' pods a pass looks for one that may be taken.
	maxLooks = 50
)

// roster is the pool as it was when it was listed last. A node is looked at again before anything is done to it.
type roster struct {
	pool plan.Pool
	// taken are under way: held by this replacement, and not given up.
	taken  map[string]bool
	choice plan.Choice
	at     time.Time
	// freed: a node has left since, or somebody else was faster.
	freed bool
}

func (r *roster) stale(now time.Time) bool { return r.freed || now.Sub(r.at) >= listEvery }

// list reads the pool's nodes and instances, and finds those that are taken already.
func (r *Replacement) list(ctx context.Context, report *Report) error {
	census, _ := cloud.As[cloud.Census](r.Cloud)
	instances, err := census.Instances(ctx, r.Pool)
	if err != nil {
		return err
	}
	builtFrom := make(map[string]string, len(instances))
	for _, instance := range instances {
		builtFrom[strings.ToLower(string(instance.ID))] = r.builtFrom(instance)
	}
	pool := plan.Pool{
		Name: r.Cloud.PoolName(r.Pool), Limit: r.MaxUnavailable, AtOnce: r.AllAtOnce, Careful: r.Policy != nil,
	}
	leases := sync.OnceValues(func() ([]node.Lease, error) { return r.reservations().All(ctx) })
	err = r.each(ctx, func(n *corev1.Node) error {
		built, exists := builtFrom[strings.ToLower(n.Spec.ProviderID)]
		if !exists {
			return nil // its instance is gone, and it will be
		}
		m, err := r.member(n, built, leases)
		pool.Members = append(pool.Members, m)
		return err
	})
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, m := range pool.Members {
		if m.Taken && m.Failed == nil {
			taken[m.Name] = true
			if !r.roster.taken[m.Name] {
				report.add(Step{m.Name, plan.Step{Action: plan.Wait, Says: "was taken before, and goes on"}})
			}
		}
	}
	for name := range r.roster.taken {
		if _, gone := r.failed[name]; !gone {
			taken[name] = true // its next step tells what became of it
		}
	}
	r.roster = roster{pool: pool, taken: taken, at: r.Now()}
	r.roster.choice = plan.Choose(pool)
	return nil
}

// each goes through the nodes of the pool.
func (r *Replacement) each(ctx context.Context, do func(*corev1.Node) error) error {
	if r.Nodes != nil {
		return r.Nodes(ctx, do)
	}
	return membership.Each(ctx, r.Kube, r.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool != r.Pool {
			return nil
		}
		return do(n)
	})
}

// member is a node as much as choosing needs of it.
func (r *Replacement) member(n *corev1.Node, builtFrom string, leases func() ([]node.Lease, error)) (plan.Member, error) {
	m := plan.Member{
		Name: n.Name, Old: builtFrom == cmp.Or(strings.ToLower(r.Image), r.From), Own: n.Name == r.OwnNode,
		Ready: nodestate.Ready(n), Cordoned: n.Spec.Unschedulable, Failed: r.failedBefore(n), Stays: r.stays[n.Name],
	}
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	switch {
	case err != nil:
		return m, fmt.Errorf("node %s: %w", n.Name, err)
	case reservation == nil:
	case r.owns(reservation):
		all, err := leases()
		if err != nil {
			return m, err
		}
		holds := func(l node.Lease) bool { return l.Of(n) && l.Reservation.Same(reservation.Holder) }
		if m.Taken = slices.ContainsFunc(all, holds); !m.Taken {
			m.Held = "a reservation that no Lease of Kamino's confirms"
		}
	default:
		m.Held = reservation.Holder.String()
	}
	return m, nil
}

// failedBefore is why a node is not tried again now: because this process has, or, where no person asked, because the time
// for the next try has not come, or has come often enough.
func (r *Replacement) failedBefore(n *corev1.Node) *cloud.Refusal {
	if refusal, failed := r.failed[n.Name]; failed {
		return &refusal
	}
	failed := v1alpha1.NotRebuiltOf(n.Annotations)
	if r.Policy == nil || failed == nil || failed.To != r.To || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
		return nil
	}
	remedy := "it is tried again by itself"
	switch {
	case failed.Attempts >= r.Policy.Limit:
		remedy = fmt.Sprintf("it was tried %d times, which is all that failures.limit allows: mend that, then `kamino rebuild %s`", failed.Attempts, r.Cloud.PoolName(r.Pool))
	case !r.Now().Before(failed.Next.Time):
		return nil
	}
	refusal := cloud.Refuse(failed.Reason, failed.Message, remedy)
	return &refusal
}

// takeAll takes as many nodes as there is room for.
func (r *Replacement) takeAll(ctx context.Context, report *Report) error {
	if !r.AllAtOnce && len(r.roster.taken) >= r.MaxUnavailable {
		return nil
	}
	if r.roster.stale(r.Now()) {
		if err := r.list(ctx, report); err != nil {
			return err
		}
	}
	for {
		if took, err := r.takeNext(ctx, report); err != nil || !took {
			return err
		}
	}
}

// takeNext takes the node whose turn it is; false if there is none now, of which the choice says why.
func (r *Replacement) takeNext(ctx context.Context, report *Report) (bool, error) {
	pool := &r.roster.pool
	if r.roster.choice = plan.Choose(*pool); r.roster.choice.Take == "" {
		return false, nil
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return false, err
	}
	pool.Kured, pool.KuredHolder = lock.Node, lock.Holder()
	for range maxLooks {
		if r.roster.choice = plan.Choose(*pool); r.roster.choice.Take == "" {
			return false, nil
		}
		took, err := r.takeOne(ctx, r.roster.choice.Take)
		if err != nil {
			return false, err
		}
		if !took {
			continue
		}
		says := "is taken"
		if lock.Unknown != "" {
			says = "is taken, though whether kured reboots another node meanwhile can't be told: " + lock.Unknown
		}
		report.add(Step{r.roster.choice.Take, plan.Step{Action: plan.Take, Says: says}})
		return true, nil
	}
	return false, nil
}

// lock is kured's, where it counts.
func (r *Replacement) lock(ctx context.Context) (kured.Lock, error) {
	if r.AllAtOnce {
		return kured.Lock{}, nil
	}
	return kured.Read(ctx, r.Kube, r.Kured, r.Now())
}

// takeOne looks at a node once more and takes it. If it does not, what the roster says of the node tells why.
func (r *Replacement) takeOne(ctx context.Context, name string) (bool, error) {
	m := r.roster.find(name)
	n, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		m.Old, r.roster.freed = false, true
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	if m.Stays, err = r.asksToStay(ctx, n); err != nil || m.Stays != "" {
		r.stays[name] = m.Stays
		return false, err
	}
	reservation := node.NewReservation(r.holder(), n, "", metav1.NewTime(r.Now()))
	reservation.Rebuild = &v1alpha1.Rebuild{From: r.From, To: r.To, BootID: n.Status.NodeInfo.BootID, StartedAt: reservation.ReservedAt}
	if r.Policy != nil {
		reservation.Rebuild.Policy = r.Policy.Name
	}
	if n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		_, err = r.reservations().Reserve(ctx, n, reservation)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
		m.Held, r.roster.freed = "somebody who was faster", true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.Taken, r.roster.taken[name] = true, true
	return true, nil
}

// asksToStay says what of a node, or of its pods, asks not to be disrupted; empty if nothing does, if that was allowed, or
// where there is nothing to disrupt any more.
func (r *Replacement) asksToStay(ctx context.Context, n *corev1.Node) (string, error) {
	if r.Drain.Disrupt || r.AllAtOnce || !nodestate.Ready(n) {
		return "", nil
	}
	if n.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true" && n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		return "it asks not to be disrupted (" + v1alpha1.DoNotDisruptAnnotation + ")", nil
	}
	left, err := node.Left(ctx, r.Kube, n.Name, r.Drain, node.Own{})
	if err != nil || len(left.Protected) == 0 {
		return "", err
	}
	return "pods of it ask not to be evicted: " + strings.Join(left.Protected, ", "), nil
}

func (r *roster) find(name string) *plan.Member {
	i := slices.IndexFunc(r.pool.Members, func(m plan.Member) bool { return m.Name == name })
	return &r.pool.Members[i]
}
