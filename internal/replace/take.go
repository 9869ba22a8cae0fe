package replace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/kured"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/wording"
)

// member is a node of the pool, as much as choosing needs of it.
type member struct {
	node  *corev1.Node
	bad   bool   // it runs the version that must go
	taken bool   // by this replacement
	held  string // by whom else
	ready bool
}

// list reads the pool's nodes and instances, finds those that are taken already, and takes more where there is
// room.
func (r *Replacer) list(ctx context.Context) error {
	census, _ := cloud.As[cloud.Census](r.Cloud)
	instances, err := census.Instances(ctx, r.Pool)
	if err != nil {
		return err
	}
	builtFrom := make(map[string]string, len(instances))
	for _, instance := range instances {
		builtFrom[strings.ToLower(string(instance.ID))] = r.source(instance)
	}
	members, err := r.members(ctx, builtFrom)
	if err != nil {
		return err
	}
	r.listedAt, r.freed = r.now(), false
	for _, m := range members {
		if m.taken && r.active[m.node.Name] == nil && r.failed[m.node.Name] == "" {
			r.active[m.node.Name] = &flight{begunAt: r.now()}
			r.say(m.node.Name, "was taken before, and goes on")
		}
	}
	return r.take(ctx, members)
}

// source is what an instance was built from, as what must go is named.
func (r *Replacer) source(instance cloud.Instance) string {
	if r.Image != "" {
		return strings.ToLower(instance.Image)
	}
	return instance.BuiltFrom
}

// members lists the nodes of the pool. Only those that are needed are kept whole.
func (r *Replacer) members(ctx context.Context, builtFrom map[string]string) ([]member, error) {
	var members []member
	err := membership.Each(ctx, r.Kube, r.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool != r.Pool {
			return nil
		}
		built, exists := builtFrom[strings.ToLower(n.Spec.ProviderID)]
		if !exists {
			return nil // its instance is gone, and it will be
		}
		m, err := r.member(n, built)
		members = append(members, m)
		return err
	})
	return members, err
}

func (r *Replacer) member(n *corev1.Node, builtFrom string) (member, error) {
	m := member{node: n, bad: builtFrom == cmp.Or(strings.ToLower(r.Image), r.From), ready: nodestate.Ready(n)}
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	switch {
	case err != nil:
		return m, fmt.Errorf("node %s: %w", n.Name, err)
	case reservation == nil:
	case r.owns(reservation):
		m.taken = true
	default:
		m.held = reservation.Holder.String()
	}
	return m, nil
}

// holder is who holds the nodes that go to this version in this pool, whoever started it.
func (r *Replacer) holder() v1alpha1.Holder {
	return v1alpha1.ReplacementHolder(r.Cloud.PoolName(r.Pool), string(r.Pool), r.To)
}

// owns tells whether a node of the pool is held by this replacement, or by one of a version that gave them no identity.
func (r *Replacer) owns(reservation *v1alpha1.Reservation) bool {
	return reservation.Same(r.holder()) || reservation.Anonymous()
}

// take takes as many nodes as may be out of service, those first that are out of service anyway.
func (r *Replacer) take(ctx context.Context, members []member) error {
	r.waiting, r.left = "", 0
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	unavailable, taken := 0, 0
	for _, m := range members {
		if m.taken || !m.ready {
			unavailable++
		}
		if m.taken {
			taken++
		}
	}
	for _, m := range r.next(members) {
		if taken >= r.limit() || m.ready && unavailable >= r.limit() {
			r.wait("%s of pool %s out of service, and %d may be: %s", wording.Count(unavailable, "node"), r.Cloud.PoolName(r.Pool), r.limit(), r.absent(members))
			continue
		}
		if lock.Node != "" && lock.Node != m.node.Name {
			r.wait("kured reboots node %s", lock.Node)
			continue
		}
		ok, err := r.takeUnlessAsked(ctx, m)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if lock.Unknown != "" {
			r.say(m.node.Name, "is taken, though whether kured reboots another node meanwhile can't be told: "+lock.Unknown)
		}
		if taken++; m.ready {
			unavailable++
		}
	}
	return nil
}

// takeUnlessAsked takes a node that does not ask to stay; false if it is not taken, of which it says why.
func (r *Replacer) takeUnlessAsked(ctx context.Context, m member) (bool, error) {
	asked, err := r.asksToStay(ctx, m)
	if err != nil {
		return false, err
	}
	if asked != "" {
		r.failed[m.node.Name] = asked
		r.say(m.node.Name, asked)
		return false, nil
	}
	ok, err := r.takeOne(ctx, m.node)
	if err == nil && !ok {
		r.wait("node %s was changed by somebody else at the same moment", m.node.Name)
	}
	return ok, err
}

// lock is kured's, where it counts.
func (r *Replacer) lock(ctx context.Context) (kured.Lock, error) {
	if r.AllAtOnce {
		return kured.Lock{}, nil
	}
	return kured.Read(ctx, r.Kube, r.Kured, r.now())
}

// asksToStay says what of a node, or of its pods, asks not to be disrupted; empty if nothing does, if that was allowed, or
// where there is nothing to disrupt any more.
func (r *Replacer) asksToStay(ctx context.Context, m member) (string, error) {
	if r.Drain.Disrupt || r.AllAtOnce || !m.ready {
		return "", nil
	}
	const remedy = "; wait until that is over, or allow it with --disrupt"
	if m.node.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true" {
		return "is left alone, because it asks not to be disrupted (" + v1alpha1.DoNotDisruptAnnotation + ")" + remedy, nil
	}
	left, err := node.Left(ctx, r.Kube, m.node.Name, r.Drain, node.Own{})
	if err != nil || len(left.Protected) == 0 {
		return "", err
	}
	return "is left alone, because pods of it ask not to be evicted: " + strings.Join(left.Protected, ", ") + remedy, nil
}

// next lists the nodes that may be taken, those first that are out of service anyway.
func (r *Replacer) next(members []member) []member {
	var next []member
	for _, m := range members {
		name := m.node.Name
		switch {
		case !m.bad, m.taken, r.failed[name] != "":
		case name == r.OwnNode:
			r.failed[name] = "is left alone, because this process runs on it: run the command elsewhere"
			r.say(name, r.failed[name])
		case m.held != "":
			r.wait("node %s is held by %s", name, m.held)
		default:
			next = append(next, m)
		}
	}
	slices.SortStableFunc(next, func(a, b member) int {
		if a.ready != b.ready {
			if a.ready {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.node.Name, b.node.Name)
	})
	return next
}

// wait notes a node that is not taken, and why if it is the first.
func (r *Replacer) wait(format string, args ...any) {
	r.left++
	if r.waiting == "" {
		r.waiting = fmt.Sprintf(format, args...)
	}
}

// takeOne takes a node; false if somebody else wrote it at the same moment.
func (r *Replacer) takeOne(ctx context.Context, n *corev1.Node) (bool, error) {
	reservation := node.NewReservation(r.holder(), n, "", metav1.NewTime(r.now()))
	reservation.Rebuild = &v1alpha1.Rebuild{From: r.From, To: r.To, BootID: n.Status.NodeInfo.BootID, StartedAt: reservation.ReservedAt}
	err := node.Reserve(ctx, r.Kube, n, reservation)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.active[n.Name] = &flight{begunAt: r.now()}
	r.say(n.Name, "is taken")
	return true, nil
}

// absent names who is out of service, a few of them.
func (r *Replacer) absent(members []member) string {
	var names []string
	for _, m := range members {
		switch {
		case m.taken:
			names = append(names, m.node.Name+" (being rebuilt)")
		case !m.ready:
			names = append(names, m.node.Name+" (not Ready)")
		}
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return strings.Join(names, ", ")
}
