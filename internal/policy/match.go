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

// poolClaims maps pools to their policies.
type poolClaims struct {
	// byPool names the policies that apply to a pool. Two policies of equal rank are an error.
	byPool map[PoolRef][]string
	// troubles are messages for people about the pools that a policy names, by policy.
	troubles map[string][]policyProblem
}

// policyProblem is the reason why a policy cannot work, for the policy's conditions.
type policyProblem struct {
	reason  string
	message string
	// brief marks a trouble that will probably end soon: the pool's status shows the trouble, and no condition does.
	brief bool
	// pool is the name of the pool with the trouble; empty for a trouble of the whole policy.
	pool string
}

// claim finds the pools of each policy. A policy with a deletion timestamp has no pools.
func claim(policies []v1alpha1.PrototypePolicy, pools []PoolRef, nodes func(PoolRef) []*corev1.Node) poolClaims {
	c := poolClaims{byPool: map[PoolRef][]string{}, troubles: map[string][]policyProblem{}}
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
			c.addTrouble(p.Name, v1alpha1.PolicyNoPoolMatches, "policy %s matches no pool with a node in this cluster: "+
				"run `kamino status` to list the pools; then correct spec.pools, or the labels of the nodes", p.Name)
		}
	}
	c.applyPrecedence(policies)
	for pool, names := range c.byPool {
		if len(names) < 2 {
			continue
		}
		slices.Sort(names)
		for _, name := range names {
			others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
			c.addTrouble(name, v1alpha1.PolicyPoolClaimedTwice, "pool %s also belongs to policy %s, so Kamino decides nothing for the pool: "+
				"change spec.pools of a policy, so that one policy matches each pool", pool.Name, strings.Join(others, " and "))
		}
	}
	for _, troubles := range c.troubles {
		slices.SortFunc(troubles, func(a, b policyProblem) int { return cmp.Compare(a.message, b.message) })
	}
	return c
}

// applyPrecedence removes the policies of lower rank from each pool. Precedence: live before dryRun; then named pools, then a
// selector, then all pools. A policy without a remaining pool gets a trouble.
func (c *poolClaims) applyPrecedence(policies []v1alpha1.PrototypePolicy) {
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
			c.addTrouble(name, v1alpha1.PolicyNoPoolMatches, "other policies decide for each pool of policy %s, such as policy %s: a live policy comes before "+
				"a dry run, and a named pool before a selector or all pools. Run `kamino plan --policy %s` for the decisions of this policy", name, other, name)
		}
	}
}

// precedence ranks a policy; the lowest rank applies.
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

func (c *poolClaims) addTrouble(policy, reason, format string, args ...any) {
	c.troubles[policy] = append(c.troubles[policy], policyProblem{reason: reason, message: fmt.Sprintf(format, args...)})
}

// poolsOf lists the pools of a policy. said reports that poolsOf has noted the reason for a missing pool.
func (c *poolClaims) poolsOf(p *v1alpha1.PrototypePolicy, pools []PoolRef, nodes func(PoolRef) []*corev1.Node) (mine []PoolRef, said bool) {
	switch {
	case len(p.Spec.Pools.Names) > 0:
		for _, name := range p.Spec.Pools.Names {
			known := slices.ContainsFunc(pools, func(pool PoolRef) bool { return pool.HasName(name) })
			if !known {
				said = true
				c.addTrouble(p.Name, v1alpha1.PolicyNoPoolMatches, "pool %s of policy %s has no node in this cluster: "+
					"run `kamino status` to list the pools; then correct spec.pools.names, or wait for a node", name, p.Name)
			}
		}
		for _, pool := range pools {
			if slices.ContainsFunc(p.Spec.Pools.Names, pool.HasName) {
				mine = append(mine, pool)
			}
		}
		return mine, said
	case p.Spec.Pools.NodeSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Pools.NodeSelector)
		if err != nil {
			c.addTrouble(p.Name, v1alpha1.PolicyNoPoolMatches, "spec.pools.nodeSelector of policy %s is invalid: %s. Correct the selector", p.Name, err)
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

// HasName reports whether name is the pool's name or ID, without regard to case.
func (p PoolRef) HasName(name string) bool {
	return strings.EqualFold(p.Name, name) || strings.EqualFold(string(p.ID), name)
}
