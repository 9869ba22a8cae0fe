package policy

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/expression"
	"github.com/kamino-dev/kamino/internal/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
)

// rules are a policy as it is applied: its spec with defaults, and what had to be compiled of it.
type rules struct {
	policy   string
	spec     v1alpha1.PrototypePolicySpec
	choice   selection.Rules
	schedule *schedule.Schedule
	// retry is the policy's annotation of that name. With another value what was refused is tried again at once.
	retry string
	// invalid is why the policy can decide nothing; nil if it can.
	invalid *trouble
	// logged: that it cannot be read has been logged.
	logged bool
}

// compile reads a policy. One that can't be read decides nothing, and says which field is in the way.
func compile(p *v1alpha1.PrototypePolicy, now time.Time) *rules {
	spec := p.Spec.Defaulted()
	r := &rules{policy: p.Name, spec: spec, choice: selection.RulesOf(spec), retry: p.Annotations[v1alpha1.RetryAnnotation]}
	refuse := func(reason, message string) *rules {
		r.invalid = &trouble{reason: reason, message: fmt.Sprintf("policy %s: %s", p.Name, message)}
		return r
	}
	if p.Unreadable.InSpec() {
		r.spec.Suspend = true // a part of what it says is missing
		return refuse(v1alpha1.PolicyUnreadable, fmt.Sprintf("this version of Kamino cannot read the stored policy: %s; nothing is decided by it. "+
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
	if expressions != nil {
		r.choice.Expressions = expressions
	}
	return r
}

// compiled keeps rules until their policy changes: compiling an expression takes longer than a decision.
type compiled struct {
	mu    sync.Mutex
	rules map[string]compiledOnce
}

type compiledOnce struct {
	uid        types.UID
	generation int64
	rules      *rules
}

func (c *compiled) of(p *v1alpha1.PrototypePolicy, now time.Time) *rules {
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
