package rebuild

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
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
)

const (
	// listEvery is the shortest time between two lists of all nodes and instances while no node can be reserved.
	listEvery = 15 * time.Second
	// maxLooks is the largest number of nodes whose pods a pass checks for annotations.
	maxLooks = 50
)

// poolSnapshot is the pool at the time of the last list. Each node is read again before any action.
type poolSnapshot struct {
	pool plan.PoolFacts
	// taken are the nodes in progress: reserved by this replacement, and not failed.
	taken  map[string]bool
	choice plan.Choice
	at     time.Time
	// freed is true if a node has left since, or another client was faster.
	freed bool
}

func (r *poolSnapshot) stale(now time.Time) bool { return r.freed || now.Sub(r.at) >= listEvery }

// list reads the pool's nodes and instances, and finds the reserved nodes.
func (r *Replacement) list(ctx context.Context, report *Report) error {
	instances, err := r.Cloud.Instances(ctx, r.Pool)
	if err != nil {
		return err
	}
	builtFrom := make(map[string]string, len(instances))
	for _, instance := range instances {
		of := instance.BuiltFrom
		if r.Image != "" {
			of = strings.ToLower(instance.Image) // in the form of the image to be replaced
		}
		builtFrom[strings.ToLower(string(instance.ID))] = of
	}
	pool := plan.PoolFacts{
		Name: r.Cloud.PoolName(r.Pool), Limit: r.MaxUnavailable, AtOnce: r.AllAtOnce, Careful: r.Policy != nil,
	}
	leases := sync.OnceValues(func() ([]node.Lease, error) { return r.reservations().All(ctx) })
	err = r.each(ctx, func(n *corev1.Node) error {
		built, exists := builtFrom[strings.ToLower(n.Spec.ProviderID)]
		if !exists {
			return nil // without an instance the Node will be deleted
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
				report.add(Step{m.Name, waiting("was reserved earlier, and continues")})
			}
		}
	}
	for name := range r.roster.taken {
		if _, gone := r.failed[name]; !gone {
			taken[name] = true // the next step reports the result
		}
	}
	r.roster = poolSnapshot{pool: pool, taken: taken, at: r.Now()}
	r.roster.choice = plan.Choose(pool)
	return nil
}

// each calls do for the nodes of the pool.
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

// member returns the facts about a node for Choose.
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
			m.Held = "a reservation without a Lease of Kamino"
		}
	default:
		m.Held = reservation.Holder.String()
	}
	return m, nil
}

// failedBefore returns why a node is not tried again now: a failure in this process or, with a policy, its backoff or
// limit.
func (r *Replacement) failedBefore(n *corev1.Node) *cloud.Refusal {
	if refusal, failed := r.failed[n.Name]; failed {
		return &refusal
	}
	failed := v1alpha1.NotRebuiltOf(n.Annotations)
	if r.Policy == nil || failed == nil || failed.To != r.To || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
		return nil
	}
	remedy := "Kamino tries again automatically"
	switch {
	case failed.Attempts >= r.Policy.Limit:
		remedy = fmt.Sprintf("%d attempts reached failures.limit: correct the cause, then run `kamino rebuild %s`", failed.Attempts, r.Cloud.PoolName(r.Pool))
	case !r.Now().Before(failed.Next.Time):
		return nil
	}
	refusal := cloud.Refuse(failed.Reason, failed.Message, remedy)
	return &refusal
}

// takeAll reserves as many nodes as the limit allows.
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

// takeNext reserves the next node; false if none can be reserved now. The choice then has the reason.
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
		took, err := r.rebuildOf(r.roster.choice.Take).take(ctx)
		if err != nil {
			return false, err
		}
		if !took {
			continue
		}
		says := "is reserved"
		if lock.Unknown != "" {
			says = "is reserved; whether kured reboots another node is unknown: " + lock.Unknown
		}
		report.add(Step{r.roster.choice.Take, plan.Step{Decision: plan.Decision{Do: plan.Take}, Says: says}})
		return true, nil
	}
	return false, nil
}

// lock reads kured's lock, except with AllAtOnce.
func (r *Replacement) lock(ctx context.Context) (kured.Lock, error) {
	if r.AllAtOnce {
		return kured.Lock{}, nil
	}
	return kured.Read(ctx, r.Kube, r.Kured, r.Now())
}

// take reads the node again and reserves it. If it does not, the member in the roster has the reason.
func (w *nodeRebuild) take(ctx context.Context) (bool, error) {
	r, name := w.of, w.facts.Name
	m := r.roster.find(name)
	n, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		m.Old, r.roster.freed = false, true
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	w.node = n
	if m.Stays, err = w.asksToStay(ctx); err != nil || m.Stays != "" {
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
		m.Held, r.roster.freed = "another client", true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.Taken, r.roster.taken[name] = true, true
	return true, nil
}

// asksToStay returns the annotation of a node or pod against disruption. The result is empty if disruption is allowed,
// or on an unready node.
func (w *nodeRebuild) asksToStay(ctx context.Context) (string, error) {
	if w.of.Drain.Disrupt || w.of.AllAtOnce || !nodestate.Ready(w.node) {
		return "", nil
	}
	if w.node.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true" && w.node.Annotations[v1alpha1.ReservationAnnotation] == "" {
		return "the node forbids disruption (" + v1alpha1.DoNotDisruptAnnotation + ")", nil
	}
	left, err := node.Left(ctx, w.of.Kube, w.node.Name, w.of.Drain, node.OwnPod{})
	if err != nil || len(left.Protected) == 0 {
		return "", err
	}
	return "pods of the node forbid eviction: " + strings.Join(left.Protected, ", "), nil
}

func (r *poolSnapshot) find(name string) *plan.Member {
	i := slices.IndexFunc(r.pool.Members, func(m plan.Member) bool { return m.Name == name })
	return &r.pool.Members[i]
}

// lost reports whether a failed node stays reserved and so blocks the place of others.
func (r *poolSnapshot) lost(failed map[string]cloud.Refusal) bool {
	return slices.ContainsFunc(r.pool.Members, func(m plan.Member) bool {
		_, also := failed[m.Name]
		return also && m.Taken
	})
}
