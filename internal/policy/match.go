package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// claims says which policies are for which pool.
type claims struct {
	// byPool names the policies that count for a pool. More than one is one too many.
	byPool map[Pool][]string
	// troubles are, by policy, what people must know about the pools that it names.
	troubles map[string][]trouble
}

// trouble is a reason why a policy cannot do its work, as its conditions tell it.
type trouble struct {
	reason  string
	message string
	// brief is one that will probably be over in a moment: the pool's status tells it, no condition does.
	brief bool
}

// claim finds the pools of each policy. A policy that is being deleted is for none.
func claim(policies []v1alpha1.PrototypePolicy, pools []Pool, nodes func(Pool) []*corev1.Node) claims {
	c := claims{byPool: map[Pool][]string{}, troubles: map[string][]trouble{}}
	for i := range policies {
		p := &policies[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		mine, said := c.poolsOf(p, pools, nodes)
		for _, pool := range mine {
			c.byPool[pool] = append(c.byPool[pool], p.Name)
		}
		if len(mine) == 0 && !said {
			c.note(p.Name, v1alpha1.PolicyNoPoolMatches, "no node of this cluster belongs to a pool that policy %s is for: "+
				"`kamino status` lists the pools; correct spec.pools, or give the nodes the labels that it selects by", p.Name)
		}
	}
	c.yield(policies)
	for pool, names := range c.byPool {
		if len(names) < 2 {
			continue
		}
		slices.Sort(names)
		for _, name := range names {
			others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
			c.note(name, v1alpha1.PolicyPoolClaimedTwice, "pool %s is claimed by policy %s too, and nothing is decided for it: "+
				"change spec.pools of one of them, so that one policy is for each pool", pool.Name, strings.Join(others, " and "))
		}
	}
	for _, troubles := range c.troubles {
		slices.SortFunc(troubles, func(a, b trouble) int { return cmp.Compare(a.message, b.message) })
	}
	return c
}

// yield leaves of each pool's policies those that count: one that is carried out before one in a dry run, which is to
// be tried beside it; then one that names the pool before one that selects it, and that before one that is for all.
// A policy that is left with no pool says so.
func (c *claims) yield(policies []v1alpha1.PrototypePolicy) {
	rank := map[string]int{}
	for i := range policies {
		rank[policies[i].Name] = precedence(&policies[i].Spec)
	}
	had, has := map[string]string{}, map[string]bool{}
	for pool, names := range c.byPool {
		first := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
		c.byPool[pool] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return rank[name] > rank[first] })
		for _, name := range names {
			if rank[name] == rank[first] {
				has[name] = true
			} else if had[name] == "" || first < had[name] {
				had[name] = first
			}
		}
	}
	for name, other := range had {
		if !has[name] {
			c.note(name, v1alpha1.PolicyNoPoolMatches, "others decide for each pool that policy %s is for, such as policy %s: one that is carried out comes "+
				"before one in a dry run, and one that names a pool before one that selects it or is for all. `kamino plan --policy %s` shows what this one decides", name, other, name)
		}
	}
}

// precedence orders policies that are for one pool: the lowest counts.
func precedence(spec *v1alpha1.PrototypePolicySpec) int {
	rank := 2
	switch {
	case len(spec.Pools.Names) > 0:
		rank = 0
	case spec.Pools.NodeSelector != nil:
		rank = 1
	}
	if spec.DryRun {
		rank += 3
	}
	return rank
}

func (c *claims) note(policy, reason, format string, args ...any) {
	c.troubles[policy] = append(c.troubles[policy], trouble{reason: reason, message: fmt.Sprintf(format, args...)})
}

// poolsOf lists the pools that a policy is for. said tells that it has been noted why one is missing.
func (c *claims) poolsOf(p *v1alpha1.PrototypePolicy, pools []Pool, nodes func(Pool) []*corev1.Node) (mine []Pool, said bool) {
	switch {
	case len(p.Spec.Pools.Names) > 0:
		for _, name := range p.Spec.Pools.Names {
			known := slices.ContainsFunc(pools, func(pool Pool) bool { return pool.Named(name) })
			if !known {
				said = true
				c.note(p.Name, v1alpha1.PolicyNoPoolMatches, "no node of this cluster belongs to pool %s, which policy %s names: "+
					"`kamino status` lists the pools; correct spec.pools.names, or wait until the pool has a node", name, p.Name)
			}
		}
		for _, pool := range pools {
			if slices.ContainsFunc(p.Spec.Pools.Names, pool.Named) {
				mine = append(mine, pool)
			}
		}
		return mine, said
	case p.Spec.Pools.NodeSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Pools.NodeSelector)
		if err != nil {
			c.note(p.Name, v1alpha1.PolicyNoPoolMatches, "spec.pools.nodeSelector of policy %s can't be read: %s: correct it", p.Name, err)
			return nil, true
		}
		for _, pool := range pools {
			if slices.ContainsFunc(nodes(pool), func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) }) {
				mine = append(mine, pool)
			}
		}
		return mine, false
	default:
		return slices.Clone(pools), false
	}
}

// Named tells whether a person means the pool by that name, or by its ID.
func (p Pool) Named(name string) bool {
	return strings.EqualFold(p.Name, name) || strings.EqualFold(string(p.ID), name)
}
