package selection

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Reasons of the rules for automatic choices. `kamino capture NODE` does not check these rules.
const (
	Ignored          = "Ignored"
	Unschedulable    = "Unschedulable"
	RebootPending    = "RebootPending"
	PatchFailed      = "PatchFailed"
	NotPatched       = "NotPatched"
	PatchTimeInvalid = "PatchTimeInvalid"
	// NoNewPatch: the current image has the patches of the node.
	NoNewPatch            = "NoNewPatch"
	SuspectPatch          = "SuspectPatch"
	NotRebootedSincePatch = "NotRebootedSincePatch"
	ReadyTooShort         = "ReadyTooShort"
	RefusedByExpression   = "RefusedByExpression"
)

// Reasons returns all reasons for which Choose itself refuses a node. The reasons in PoolState.NodeRefusals are extra.
func Reasons() []string {
	return []string{
		cloud.SystemUnsupported, ControlPlane, OwnNode, Ignored, Unschedulable, RebootPending, PatchFailed, NotPatched, PatchTimeInvalid,
		NoNewPatch, SuspectPatch, NotRebootedSincePatch, BeingDeleted, NotReady, DiskPressure, ReadyTooShort, RefusedByExpression,
		v1alpha1.PolicyExpressionInvalid, Reserved, OnlyReadyNode, DoNotDisrupt,
	}
}

// subject is a node during the judgement.
type subject struct {
	*evaluation
	Candidate
	verdict NodeVerdict
	ready   bool
	// patch is the text of the annotation. found is true if the annotation exists.
	patch string
	found bool
	err   error // from parsing patch as a time
}

// chooserRules are the rules of Choose in the order of a person's questions. A refused node is counted under its first
// refusal.
var chooserRules = []func(*subject) *cloud.Refusal{
	forSubject(linux), forSubject(changeable), forSubject(worker), forSubject(absent(notHere)), notIgnored, forSubject(absent(undisrupted)), forSubject(free),
	schedulable, noRebootPending, noPatchFailed, patched, patchedSinceImage, newLevel, goodPatch, rebootedSincePatch,
	forSubject(staying), forSubject(ready), forSubject(roomy), readyLongEnough, absentInPool(notAloneInPool),
}

// absentInPool is absent for rules with the facts of the pool.
func absentInPool(rule func(*subject) *cloud.Refusal) func(*subject) *cloud.Refusal {
	return func(s *subject) *cloud.Refusal {
		if s.InService {
			return nil
		}
		return rule(s)
	}
}

// forSubject adapts a rule for named nodes to subject.
func forSubject(rule func(Candidate) *cloud.Refusal) func(*subject) *cloud.Refusal {
	return func(s *subject) *cloud.Refusal { return rule(s.Candidate) }
}

// evaluation has the facts that are the same for all nodes of the pool.
type evaluation struct {
	pool    PoolState
	rules   Rules
	now     time.Time
	overdue bool            // the image has reached MaxImageAge
	waived  bool            // the rules about patches do not apply
	ignored map[string]bool // nodes
	takers  int             // nodes that can accept the pods of another node
	away    int             // nodes out of service
	news    bool            // a node has a patch that the image lacks
}

func newJudge(pool PoolState, rules Rules, now time.Time) *evaluation {
	j := &evaluation{pool: pool, rules: rules, now: now, ignored: make(map[string]bool, len(rules.IgnoreNodes))}
	// A pool without a version of its own counts as infinitely old.
	j.overdue = rules.MaxImageAge > 0 && (pool.BuiltAt.IsZero() || now.Sub(pool.BuiltAt) >= rules.MaxImageAge)
	j.waived = j.overdue || rules.Pioneer
	for _, name := range rules.IgnoreNodes {
		j.ignored[name] = true
	}
	for _, n := range pool.Nodes {
		if takesPods(n, pool.Reserved) {
			j.takers++
		}
		if unavailable(n) {
			j.away++
		}
	}
	return j
}

// evaluate applies every rule to a node.
func (j *evaluation) evaluate(n *corev1.Node) NodeVerdict {
	s := subject{evaluation: j, Candidate: Candidate{Node: n, Pool: j.pool.Name, OwnNode: j.pool.OwnNode, Disrupt: j.rules.Disrupt,
		InService: j.pool.InService}}
	s.verdict = NodeVerdict{Node: n.Name, FailedToday: j.pool.FailedToday[n.Name]}
	if since, ready := nodestate.ReadySince(n); ready {
		s.ready, s.verdict.ReadySince = true, since
	}
	s.readPatch()
	j.news = j.news || s.isNews()
	for _, rule := range chooserRules {
		if refusal := rule(&s); refusal != nil {
			s.verdict.Refusals = append(s.verdict.Refusals, *refusal)
		}
	}
	s.verdict.Refusals = append(s.verdict.Refusals, j.pool.NodeRefusals[n.Name]...)
	s.evaluate()
	return s.verdict
}

func notIgnored(s *subject) *cloud.Refusal {
	name := s.Node.Name
	if s.ignored[name] {
		return refuse(Ignored, "to allow the node as a donor, remove the node from selection.ignoreNodes", "node %s is ignored by name", name)
	}
	for _, key := range s.rules.IgnoreAnnotations {
		if _, found := s.Node.Annotations[key]; found {
			return refuse(Ignored, "to allow the node as a donor, remove the annotation", "node %s is ignored because of annotation %s", name, key)
		}
	}
	for _, key := range s.rules.IgnoreLabels {
		if _, found := s.Node.Labels[key]; found {
			return refuse(Ignored, "to allow the node as a donor, remove the label", "node %s is ignored because of label %s", name, key)
		}
	}
	return nil
}

// schedulable refuses a cordoned node: a cordon shows that the node may not work. A person may still capture the node.
func schedulable(s *subject) *cloud.Refusal {
	if !s.Node.Spec.Unschedulable {
		return nil
	}
	return refuse(Unschedulable, fmt.Sprintf("uncordon the node, or run `kamino capture %s`", s.Node.Name), "node %s is cordoned", s.Node.Name)
}

func readyLongEnough(s *subject) *cloud.Refusal {
	if !s.ready || s.now.Sub(s.verdict.ReadySince) >= s.rules.MinReadyTime {
		return nil
	}
	return refuse(ReadyTooShort, "wait", "node %s has been Ready for less than %s (selection.minReadyTime)", s.Node.Name, short(s.rules.MinReadyTime))
}

// notAloneInPool is the rule OnlyReadyNode with the nodes counted once for the whole pool.
func notAloneInPool(s *subject) *cloud.Refusal {
	others := s.takers
	if takesPods(s.Node, s.pool.Reserved) {
		others--
	}
	if others > 0 {
		return nil
	}
	return onlyReadyNode(s.Candidate)
}

// takesPods reports whether the node can accept the pods of another node. reserved is PoolState.Reserved.
func takesPods(n *corev1.Node, reserved func(*corev1.Node) bool) bool {
	if n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		return nodestate.Available(n)
	}
	return nodestate.Available(n) && reserved != nil && !reserved(n)
}

// evaluate applies the policy's expressions, and sets the score. A failing expression refuses the node.
func (s *subject) evaluate() {
	if s.rules.Expressions == nil {
		return
	}
	refused, score, err := s.rules.Expressions.Evaluate(s.Node, s.now)
	if err == nil {
		s.verdict.Score = score
	}
	switch {
	case err != nil:
		s.refuse(refuse(v1alpha1.PolicyExpressionInvalid, "correct the expression, for example with has() before an optional field",
			"the expression failed for node %s: %s", s.Node.Name, err))
	case refused:
		s.refuse(refuse(RefusedByExpression, "to allow the node as a donor, change the expression",
			"node %s is refused by the policy's expression selection.refuse", s.Node.Name))
	}
}

func (s *subject) refuse(r *cloud.Refusal) { s.verdict.Refusals = append(s.verdict.Refusals, *r) }

// changes returns the earliest time after now at which the decision may change without an event.
func (j *evaluation) changes(verdicts []NodeVerdict) (next time.Time) {
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if j.rules.MaxImageAge > 0 && !j.overdue {
		earlier(j.pool.BuiltAt.Add(j.rules.MaxImageAge))
	}
	for i := range verdicts {
		if v := &verdicts[i]; len(v.Refusals) == 1 && v.Refusals[0].Reason == ReadyTooShort {
			earlier(v.ReadySince.Add(j.rules.MinReadyTime))
		}
	}
	return next
}

// short formats a duration without trailing zeros: 1h, not 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func utc(t time.Time) string { return fmt.Sprint(t.UTC().Format(time.RFC3339)) }
