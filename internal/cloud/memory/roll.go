package memory

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ReasonRolls is the refusal of a pool whose policy brings running instances up to each change of its recipe.
const ReasonRolls = "UpgradePolicyAutomatic"

// SetUpgrades is a stranger who sets the pool's upgrade policy: with automatic, this cloud builds every instance
// anew on each write of the pool's recipe or size. An unknown pool is a mistake of the test and panics.
func (c *pools) SetUpgrades(id cloud.PoolID, automatic bool) {
	defer c.enter()()
	p, err := c.findPool(opPool, id)
	if err != nil {
		panic(err)
	}
	p.rolls = automatic
}

// rollRefusals tell why no recipe may be written now.
func (p *pool) rollRefusals() []cloud.Refusal {
	if !p.rolls {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(ReasonRolls,
		fmt.Sprintf("the upgrade policy of pool %s is automatic: a new recipe would rebuild its running instances", p.spec.Name), "set it to manual")}
}

// mayWrite is nil unless a write of the pool's recipe or size would change running instances.
func (p *pool) mayWrite(op string) error {
	if refusals := p.rollRefusals(); refusals != nil {
		return refusals[0].Error(phrases[op], string(p.id))
	}
	return nil
}

// ReasonOwned is why a recipe is not written that somebody else writes.
const ReasonOwned = "RecipeOwned"

// handOver refuses to write a recipe that somebody else writes; nil where nobody does.
func (p *pool) handOver(image string) *cloud.Refusal {
	if p.spec.Owner == "" {
		return nil
	}
	refusal := cloud.Refuse(ReasonOwned, fmt.Sprintf("%s writes the recipe of pool %s", p.spec.Owner, p.spec.Name), "have it name "+image)
	return &refusal
}

// handedOver says in a change who must carry it out.
func (p *pool) handedOver(change *cloud.RecipeChange) {
	if refusal := p.handOver(change.To); refusal != nil {
		change.HandOver, change.Refusals = refusal.Message, append(change.Refusals, *refusal)
	}
}

// roll is what a write does to the instances of a pool whose policy is automatic.
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
