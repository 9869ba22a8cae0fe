package doctor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// observed is the cluster that the checks judge. Each list is read once.
type observed struct {
	*Doctor
	// who is this command's user, as the API server reports.
	who      string
	captures reservations.Captures
	// prototypes and policies of the cluster; empty after an error.
	prototypes                []v1alpha1.Prototype
	policies                  []v1alpha1.PrototypePolicy
	captureError, policyError error
	// selectors of the policies that select pools by the labels of nodes, by policy.
	selectors map[string]labels.Selector
	// leases of reservations, and why they could not be listed.
	leases     []node.Lease
	leaseError error
	// leaseState is the state of the process that works on captures, and stateError why it is unknown.
	leaseState attention.Lease
	stateError error

	seen          *membership.Cluster
	joiner        membership.Joiner
	pools         map[cloud.PoolID]*members
	csi           int
	inTree        []string // nodes with disks of the in-tree driver
	reservedNodes []reservations.Node
	// outside is a node without a pool, with the reason; empty if there is none.
	outside string
	// onlyError is the reason why Only matches no pool.
	onlyError error
	// lacking: the installation is incomplete, which is a finding of its own.
	lacking bool
}

// observe reads the cluster.
func observe(ctx context.Context, d *Doctor) (*observed, error) {
	c := &observed{Doctor: d, pools: map[cloud.PoolID]*members{}, who: userOf(ctx, d)}
	c.prototypes, c.captureError = d.Prototypes(ctx)
	if err := c.captureError; err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	c.captures = reservations.CapturesOf(c.prototypes)
	c.leases, c.leaseError = (node.Reservations{Kube: d.Kube, Namespace: d.Namespace, Now: d.Now}).All(ctx)
	c.leaseState, c.stateError = d.Lease(ctx)
	if d.Policies != nil {
		if c.policies, c.policyError = d.Policies(ctx); c.policyError != nil {
			c.policies = nil
		}
	}
	c.selectors = map[string]labels.Selector{}
	for i := range c.policies {
		if s := c.policies[i].Spec.Pools.NodeSelector; s != nil {
			if selector, err := metav1.LabelSelectorAsSelector(s); err == nil {
				c.selectors[c.policies[i].Name] = selector
			}
		}
	}
	var registry membership.Registry
	if d.Cloud != nil {
		registry = d.Cloud
	}
	c.joiner.Kube = d.Kube
	var err error
	if c.seen, err = membership.Look(ctx, d.Kube, registry, c.add); err != nil {
		return nil, err
	}
	c.seen.Prototypes = c.prototypes
	c.limit(ctx)
	return c, nil
}

// userOf asks the API server for this command's user: with --as, another user than in the kubeconfig.
func userOf(ctx context.Context, d *Doctor) string {
	review, err := d.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "this user"
	}
	return cmp.Or(review.Status.UserInfo.Username, "this user")
}

// limit drops the pools that Only excludes.
func (c *observed) limit(ctx context.Context) {
	if c.Only == "" || c.Cloud == nil {
		return
	}
	var only cloud.PoolID
	only, c.onlyError = cloud.Find(ctx, c.Cloud, c.Only, slices.Collect(maps.Keys(c.pools)))
	maps.DeleteFunc(c.pools, func(id cloud.PoolID, _ *members) bool { return id != only })
	if c.onlyError == nil && len(c.pools) == 0 { // the pool has no nodes
		c.pools[only] = &members{name: c.Cloud.PoolName(only)}
	}
}

// ordered are the pools' IDs, by name.
func (c *observed) ordered() []cloud.PoolID {
	return slices.SortedFunc(maps.Keys(c.pools), func(a, b cloud.PoolID) int {
		return cmp.Or(cmp.Compare(c.pools[a].name, c.pools[b].name), cmp.Compare(a, b))
	})
}

// add counts a node; the pool is empty if there is none or if the pool is unknown.
func (c *observed) add(n *corev1.Node, of cloud.Membership) {
	found, isReserved := c.captures.Of(n)
	if c.leaseError == nil {
		found, isReserved = c.captures.Confirm(n, found, isReserved, node.ReservationOf(c.leases, n))
	}
	if isReserved {
		c.reservedNodes = append(c.reservedNodes, found)
	}
	for _, v := range n.Status.VolumesAttached {
		switch {
		case strings.HasPrefix(string(v.Name), "kubernetes.io/csi/"):
			c.csi++
		case c.About.OldDriver != "" && strings.HasPrefix(string(v.Name), c.About.OldDriver) && !slices.Contains(c.inTree, n.Name):
			c.inTree = append(c.inTree, n.Name)
		}
	}
	if of.Pool == "" {
		if c.outside == "" && of.Why != "" {
			c.outside = "node " + n.Name + ": " + of.Why
		}
		return
	}
	if c.pools[of.Pool] == nil {
		c.pools[of.Pool] = &members{name: c.Cloud.PoolName(of.Pool), names: map[string]string{}, selected: map[string]bool{}}
	}
	c.pools[of.Pool].add(n, c.selectors)
}

// members are the nodes of a pool, as far as the checks need the nodes.
type members struct {
	name             string
	nodes, ready     int
	donors           []donor
	like             *corev1.Node      // the first node
	patched, pending int               // by annotation
	unreadable       int               // with an annotation that is no time
	names            map[string]string // of the nodes, by instance in lower case
	selected         map[string]bool   // policies that select one of the nodes
}

// donor is a node that might become a donor.
type donor struct {
	name, providerID string
	// free: the node is in service without a reservation. ready is weaker.
	free, ready bool
}

func (m *members) add(n *corev1.Node, selectors map[string]labels.Selector) {
	m.nodes++
	if m.like == nil {
		m.like = n.DeepCopy()
	}
	m.names[strings.ToLower(n.Spec.ProviderID)] = n.Name
	of := donor{n.Name, n.Spec.ProviderID, nodestate.Available(n) && n.Annotations[v1alpha1.ReservationAnnotation] == "", nodestate.Ready(n)}
	if of.ready {
		m.ready++
	}
	m.donors = append(m.donors, of)
	m.readPatching(n)
	for policy, selector := range selectors {
		if !m.selected[policy] && selector.Matches(labels.Set(n.Labels)) {
			m.selected[policy] = true
		}
	}
}

// readPatching reads the annotations with the time of a node's patch.
func (m *members) readPatching(n *corev1.Node) {
	for _, key := range []string{v1alpha1.KuredRebootNeededAnnotation, v1alpha1.PatchedAtAnnotation} {
		value, found := n.Annotations[key]
		if !found {
			continue
		}
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			m.patched++
			break
		}
		m.unreadable++
	}
	pending := n.Annotations[v1alpha1.RebootPendingAnnotation]
	if n.Annotations[v1alpha1.KuredRebootInProgressAnnotation] != "" || pending != "" && pending != "false" {
		m.pending++
	}
}

// maxDonors limits the nodes to ask about, if refusals are about single nodes, as in policies.
const maxDonors = 3

// likely are the nodes to ask about, by name: free nodes, or else Ready nodes, or else all nodes.
func (m *members) likely() []donor {
	best := slices.Clone(m.donors)
	for _, better := range []func(donor) bool{func(d donor) bool { return d.ready }, func(d donor) bool { return d.free }} {
		if some := slices.DeleteFunc(slices.Clone(best), func(d donor) bool { return !better(d) }); len(some) > 0 {
			best = some
		}
	}
	slices.SortFunc(best, func(a, b donor) int { return cmp.Compare(a.name, b.name) })
	return best[:min(maxDonors, len(best))]
}

// policy is the first policy for the pool with matching settings; nil if there is none.
func (m *members) policy(all []v1alpha1.PrototypePolicy, id cloud.PoolID, is func(v1alpha1.Settings) bool) *v1alpha1.PrototypePolicy {
	for i := range all {
		p := &all[i]
		named := slices.ContainsFunc(p.Spec.Pools.Names,
			func(name string) bool { return strings.EqualFold(name, m.name) || strings.EqualFold(name, string(id)) })
		selects := named || m.selected[p.Name] || len(p.Spec.Pools.Names) == 0 && p.Spec.Pools.NodeSelector == nil
		if selects && is(p.Spec.Settings) {
			return p
		}
	}
	return nil
}

// anySettings accepts all settings.
func anySettings(v1alpha1.Settings) bool { return true }
