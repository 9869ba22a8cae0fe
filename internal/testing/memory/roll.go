package memory

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ReasonRolls refuses a pool whose policy updates running instances at each change of the recipe.
const ReasonRolls = "NodesWouldBeReplaced"

// SetUpgrades sets the pool's upgrade policy as a stranger. With automatic, each write of recipe or size rebuilds every
// instance. An unknown pool panics, because the test is wrong.
func (c *pools) SetUpgrades(id cloud.PoolID, automatic bool) {
	defer c.enter()()
	p := c.mustPool(id)
	p.rolls = automatic
}

// rollRefusals returns why no recipe may be written now.
func (p *pool) rollRefusals() []cloud.Refusal {
	if !p.rolls {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(ReasonRolls,
		fmt.Sprintf("the upgrade policy of pool %s is automatic: a new recipe would rebuild its running instances", p.spec.Name), "set the policy to manual")}
}

// mayWrite returns an error if a write would change running instances.
func (p *pool) mayWrite(op string) error {
	if refusals := p.rollRefusals(); refusals != nil {
		return refusals[0].Error(phrase(op), string(p.id))
	}
	return nil
}

// ReasonOwned refuses to write a recipe with another owner.
const ReasonOwned = "RecipeOwned"

// handOver returns the refusal for a recipe with another owner; nil without an owner.
func (p *pool) handOver(image string) *cloud.Refusal {
	if p.spec.Owner == "" {
		return nil
	}
	refusal := cloud.Refuse(ReasonOwned, fmt.Sprintf("%s writes the recipe of pool %s", p.spec.Owner, p.spec.Name), "have it name "+image)
	return &refusal
}

// handedOver adds the refusal for another owner to a change.
func (p *pool) handedOver(change *cloud.RecipeChange) {
	if refusal := p.handOver(change.To); refusal != nil {
		change.HandOver, change.Refusals = refusal.Message, append(change.Refusals, *refusal)
	}
}

// roll updates the running instances of a pool with an automatic policy.
func (c *pools) roll(p *pool) {
	if !p.rolls {
		return
	}
	for _, m := range c.members(p) {
		m.image, m.builtFrom, m.bootstrap = p.recipe.image, c.recipeVersion(p), slices.Clone(p.recipe.bootstrap)
		c.record(ByCloud, EffectRoll, string(m.id))
		c.start(m)
	}
}
