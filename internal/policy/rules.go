package policy

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/selection/expression"
)

// rules are a policy's spec with defaults, and the compiled parts of the spec.
type rules struct {
	policy string
	uid    types.UID
	// generation is the policy's generation. A check of an earlier generation may be about other patches.
	generation int64
	spec       v1alpha1.PrototypePolicySpec
	choice     selection.Rules
	schedule   *schedule.Schedule
	// retry is the policy's retry annotation. A new value lets Kamino retry at once.
	retry string
	// invalid is the reason why the policy can decide nothing; nil if the policy is valid.
	invalid *policyProblem
	// logged: Kamino has logged that the policy is unreadable.
	logged bool
}

// compile reads a policy. An unreadable policy decides nothing, and invalid names the wrong field.
func compile(p *v1alpha1.PrototypePolicy, now time.Time) *rules {
	spec := p.Spec.Defaulted()
	r := &rules{policy: p.Name, uid: p.UID, generation: p.Generation, spec: spec, choice: selection.RulesOf(spec),
		retry: p.Annotations[v1alpha1.RetryAnnotation]}
	refuse := func(reason, message string) *rules {
		r.invalid = &policyProblem{reason: reason, message: fmt.Sprintf("policy %s: %s", p.Name, message)}
		return r
	}
	if p.Unreadable.InSpec() {
		r.spec.Suspend = true // a part of the spec is missing
		return refuse(v1alpha1.PolicyUnreadable,
			fmt.Sprintf("this version of Kamino cannot read the stored policy: %s. Kamino decides nothing by this policy. "+
				"Correct the policy with `kubectl edit prototypepolicy %s`", p.Unreadable, p.Name))
	}
	var err error
	if r.schedule, err = schedule.Compile(spec.Schedule); err != nil {
		return refuse(v1alpha1.PolicyScheduleInvalid, err.Error())
	}
	if message, never := r.schedule.Never(now); never {
		return refuse(v1alpha1.PolicyScheduleNeverFires, message)
	}
	expressions, err := expression.Compile(spec.Selection.Refuse, spec.Selection.Score)
	if err != nil {
		return refuse(v1alpha1.PolicyExpressionInvalid, err.Error())
	}
	for _, e := range spec.Settings.Trial.Expect {
		if _, err := expression.CompileExpectation(e.Expression); err != nil {
			return refuse(v1alpha1.PolicyExpressionInvalid, fmt.Sprintf("settings.trial.expect %s %v", e.Name, err))
		}
	}
	if expressions != nil {
		r.choice.Expressions = expressions
	}
	return r
}

// ruleCache caches rules until their policy changes: to compile an expression takes longer than a decision.
type ruleCache struct {
	mu    sync.Mutex
	rules map[string]compiledOnce
}

type compiledOnce struct {
	uid        types.UID
	generation int64
	rules      *rules
}

func (c *ruleCache) rulesOf(p *v1alpha1.PrototypePolicy, now time.Time) *rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules == nil {
		c.rules = map[string]compiledOnce{}
	}
	known, found := c.rules[p.Name]
	if !found || known.uid != p.UID || known.generation != p.Generation || p.Generation == 0 ||
		known.rules.retry != p.Annotations[v1alpha1.RetryAnnotation] {
		known = compiledOnce{p.UID, p.Generation, compile(p, now)}
		c.rules[p.Name] = known
	}
	return known.rules
}
