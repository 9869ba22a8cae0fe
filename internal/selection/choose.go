package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of a decision about a whole pool, in the order of the checks.
const (
	// PoolRefused: the pool cannot be captured at all.
	PoolRefused = "PoolRefused"
	// CaptureInFlight: another capture of the pool is running. A pool has one capture at a time.
	CaptureInFlight = "CaptureInFlight"
	// CapturedToday: the pool has a version of today. A pool gets one version a day.
	CapturedToday = "CapturedToday"
	// NoNodes: the pool has no nodes.
	NoNodes = "NoNodes"
	// DonorChosen: a donor was found.
	DonorChosen = "DonorChosen"
	// NothingPatched: no node of the pool has the annotation of the last patch.
	NothingPatched = "NothingPatched"
	// UpToDate: no node has a patch that the current image lacks.
	UpToDate = "UpToDate"
	// TooFewCandidates: fewer nodes than minCandidates pass the rules.
	TooFewCandidates = "TooFewCandidates"
)

// PoolState has the facts about a pool for the choice of a donor.
type PoolState struct {
	Name string
	// Nodes are all nodes of the pool, in any order. Choose reads metadata, spec.unschedulable, taints, operating system and the
	// condition Ready. Expressions may read more: see package expression.
	Nodes []*corev1.Node
	// Reserved reports whether a Lease confirms the reservation on a Node. Nil trusts the Node.
	Reserved func(*corev1.Node) bool
	// OwnNode is the node of this process; empty outside a node.
	OwnNode string
	// Version is the version in the recipe; empty if the recipe names an image from elsewhere.
	Version string
	// BuiltAt is when the donor of Version was captured; zero without a version, or if unknown.
	BuiltAt time.Time
	// Level is the patch level of Version; empty without a version, or if unknown.
	Level string
	// BadUntil is the capture time of the newest quarantined version after Version; zero if there is none. Patches
	// between BuiltAt and BadUntil are suspect, because the pool was rolled back from a version with these patches.
	BadUntil time.Time
	// Refusals are the reasons against any capture of the pool, for example from the cloud.
	Refusals []cloud.Refusal
	// InFlight is the Prototype that captures the pool now, and CapturedToday the Prototype of today's capture.
	InFlight, CapturedToday string
	// NodeRefusals are refusals from elsewhere by node name: built from a quarantined version, or a disk that cannot be
	// captured.
	NodeRefusals map[string][]cloud.Refusal
	// FailedToday has, by node name, the Prototype that failed today with the node as donor. Choose takes such a node
	// last.
	FailedToday map[string]string
	// InService is as in Candidate, for all nodes.
	InService bool
}

// Rules are the rules of a policy.
type Rules struct {
	// MostRecentPatch and RebootPending are names of annotations.
	MostRecentPatch, RebootPending string
	MinReadyTime                   time.Duration
	// MinCandidates is at least 1; smaller values mean 1.
	MinCandidates int
	// MaxImageAge is the age of the image from which the rules about patches are waived; zero: never.
	MaxImageAge time.Duration
	// Pioneer: Kamino patches the donor before the capture, so the rules about earlier patches are waived.
	Pioneer bool
	// IgnoreNodes, IgnoreAnnotations and IgnoreLabels are names.
	IgnoreNodes, IgnoreAnnotations, IgnoreLabels []string
	// Disrupt and MaxUnavailable are as in Candidate.
	Disrupt        bool
	MaxUnavailable intstr.IntOrString
	// Expressions are the policy's expressions; nil without expressions.
	Expressions Evaluator
}

// Evaluator judges a node by the expressions of a policy.
type Evaluator interface {
	// Evaluate reports whether the node is refused, and the node's score. The score is finite. An error is about this
	// node only.
	Evaluate(node *corev1.Node, now time.Time) (refused bool, score float64, err error)
}

// RulesOf returns the rules of a policy without its expressions.
func RulesOf(spec v1alpha1.PrototypePolicySpec) Rules {
	spec = spec.Defaulted()
	patch, pending := spec.Patched.Annotations()
	return Rules{
		MostRecentPatch: patch, RebootPending: pending,
		MinReadyTime: spec.Selection.MinReadyTime.Duration, MinCandidates: int(spec.Selection.MinCandidates),
		MaxImageAge: spec.Selection.MaxImageAge.Duration, Pioneer: spec.Pioneer != nil, IgnoreNodes: spec.Selection.IgnoreNodes,
		IgnoreAnnotations: spec.Selection.IgnoreAnnotations, IgnoreLabels: spec.Selection.IgnoreLabels,
		Disrupt: spec.Settings.Drain.Disrupt, MaxUnavailable: *spec.Settings.OutOfService.MaxUnavailable,
	}
}

// NodeVerdict is the judgement of one node.
type NodeVerdict struct {
	Node string `json:"node"`
	// Refusals are all refusals of the node. A node without refusals is a candidate.
	Refusals []cloud.Refusal `json:"refusals,omitempty"`
	// PatchedAt is the time in the patch annotation; zero if the time is absent, invalid or in the future.
	PatchedAt time.Time `json:"patchedAt,omitzero"`
	// ReadySince is the start of the current Ready period; zero for a node that is not Ready.
	ReadySince time.Time `json:"readySince,omitzero"`
	Score      float64   `json:"score,omitempty"`
	// ZoneNodes is the number of the pool's nodes in the node's zone. A donor from a smaller zone can make a cloud rebalance
	// the zones, by which other nodes are terminated.
	ZoneNodes int `json:"zoneNodes,omitempty"`
	// FailedToday is the Prototype that failed today with this node as donor. The node is then the last choice.
	FailedToday string `json:"failedToday,omitempty"`
}

// Choice is the decision about one pool.
type Choice struct {
	// Donor is the node to capture; nil if there is no capture now.
	Donor *corev1.Node `json:"-"`
	// Reason and Message explain the decision. Message has no times, so that it is stable while nothing changes.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Remedy is the advice at the end of Message, and Obstacle the text before it. Without a remedy Obstacle is the
	// whole Message.
	Remedy   string `json:"remedy,omitempty"`
	Obstacle string `json:"-"`
	// Best is the best donor by the rules for nodes, regardless of refusals of the pool; nil without candidates.
	Best *corev1.Node `json:"-"`
	// Candidates are the nodes without refusals, best first.
	Candidates []NodeVerdict `json:"candidates"`
	// Verdicts are the judgements of all nodes, by name.
	Verdicts []NodeVerdict `json:"verdicts"`
	// Refusals counts the refused nodes by their first reason, the most frequent first. Refused nodes and candidates
	// add up to all nodes.
	Refusals []v1alpha1.RefusalCount `json:"refusals,omitempty"`
	// NewestPatch is the newest patch time of all nodes; zero without any.
	NewestPatch time.Time `json:"newestPatch,omitzero"`
	// Waived is true if the image is older than maxImageAge, so that the rules about patches do not apply.
	Waived bool `json:"waived,omitempty"`
	// Changes is the next moment at which the decision may change without an event: minReadyTime or maxImageAge is
	// reached. Changes is zero if there is no such moment. Changes ignores expressions.
	Changes time.Time `json:"changes,omitzero"`
}

// Choose judges every node of the pool and chooses the donor, if a capture may begin now. Choose is deterministic: the
// order of the nodes does not matter.
func Choose(pool PoolState, rules Rules, now time.Time) Choice {
	j := newJudge(pool, rules, now)
	c := Choice{Waived: j.overdue, Verdicts: make([]NodeVerdict, 0, len(pool.Nodes))}
	nodes := slices.Clone(pool.Nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		v := j.evaluate(n)
		if v.PatchedAt.After(c.NewestPatch) {
			c.NewestPatch = v.PatchedAt
		}
		if len(v.Refusals) == 0 {
			c.Candidates = append(c.Candidates, v)
		}
		c.Verdicts = append(c.Verdicts, v)
	}
	zones := map[string]int{}
	for _, n := range nodes {
		zones[n.Labels[corev1.LabelTopologyZone]]++
	}
	for i := range c.Candidates {
		if zone := nodeNamed(nodes, c.Candidates[i].Node).Labels[corev1.LabelTopologyZone]; zone != "" {
			c.Candidates[i].ZoneNodes = zones[zone]
		}
	}
	slices.SortStableFunc(c.Candidates, better)
	if len(c.Candidates) > 0 {
		c.Best = nodeNamed(nodes, c.Candidates[0].Node)
	}
	c.Refusals = count(c.Verdicts)
	c.Changes = j.changes(c.Verdicts)
	d := j.decide(&c)
	c.Reason, c.Message, c.Remedy, c.Obstacle = d.reason, d.message, d.remedy, d.obstacle
	if c.Reason == DonorChosen {
		c.Donor = c.Best
	}
	return c
}

// better orders candidates: no failure today first, then score, then the nodes of the zone, then time since Ready, then
// name. No two candidates are equal.
func better(a, b NodeVerdict) int {
	if (a.FailedToday == "") != (b.FailedToday == "") {
		return cmp.Compare(len(a.FailedToday), len(b.FailedToday))
	}
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ZoneNodes, a.ZoneNodes), a.ReadySince.Compare(b.ReadySince), cmp.Compare(a.Node, b.Node))
}

func nodeNamed(nodes []*corev1.Node, name string) *corev1.Node {
	i, _ := slices.BinarySearchFunc(nodes, name, func(n *corev1.Node, name string) int { return cmp.Compare(n.Name, name) })
	return nodes[i]
}

// decision has the texts of a decision, as in Choice.
type decision struct{ reason, message, remedy, obstacle string }

// decided returns a decision without a remedy.
func decided(reason, sentence string, args ...any) decision {
	message := fmt.Sprintf(sentence, args...)
	return decision{reason: reason, message: message, obstacle: message}
}

// withRemedy returns a decision with a remedy.
func withRemedy(r cloud.Refusal) decision { return decision{r.Reason, r.Message, r.Remedy, r.What()} }

// decide decides about the pool as a whole.
func (j *evaluation) decide(c *Choice) decision {
	name, enough := j.pool.Name, max(j.rules.MinCandidates, 1)
	switch {
	case len(j.pool.Refusals) > 0:
		refused := j.pool.Refusals[0]
		return withRemedy(cloud.Refuse(PoolRefused, fmt.Sprintf("pool %s cannot be captured: %s", name, refused.What()), refused.Remedy))
	case j.pool.InFlight != "":
		return decided(CaptureInFlight, "prototype %s is capturing pool %s: the next decision follows the capture", j.pool.InFlight, name)
	case j.pool.CapturedToday != "":
		return decided(CapturedToday, "pool %s was already captured today by prototype %s: the limit is one version per day", name, j.pool.CapturedToday)
	case len(c.Verdicts) == 0:
		return decided(NoNodes, "pool %s has no nodes", name)
	case len(c.Candidates) >= enough && !j.pool.InService && j.away >= MayBeAway(j.rules.MaxUnavailable, len(c.Verdicts)):
		return decided(TooManyUnavailable, "no capture of pool %s now: %s (settings.outOfService.maxUnavailable)",
			name, awaySentence(name, j.away, MayBeAway(j.rules.MaxUnavailable, len(c.Verdicts))))
	case len(c.Candidates) >= enough:
		return decided(DonorChosen, "%s", chosen(name, c.Candidates))
	case !j.waived && c.NewestPatch.IsZero():
		return withRemedy(cloud.Refuse(NothingPatched,
			fmt.Sprintf("no node of pool %s has the time of a patch in annotation %s", name, j.rules.MostRecentPatch),
			"run a patcher that annotates nodes (kured with --annotate-nodes), or set selection.maxImageAge to ignore patches"))
	case !j.waived && !j.pool.BuiltAt.IsZero() && !j.news:
		return decided(UpToDate, "no node of pool %s has a patch that %s lacks", name, j.image())
	default:
		return withRemedy(cloud.Refuse(TooFewCandidates, fmt.Sprintf("pool %s has %s, but the policy requires %d (selection.minCandidates); refused: %s",
			name, candidates(len(c.Candidates)), enough, counts(c.Refusals)), fmt.Sprintf("for the reason of each node, run `kamino plan %s`", name)))
	}
}

func chosen(pool string, candidates []NodeVerdict) string {
	if len(candidates) == 1 {
		return fmt.Sprintf("node %s is the only candidate of pool %s", candidates[0].Node, pool)
	}
	return fmt.Sprintf("node %s is the best of %d candidates of pool %s", candidates[0].Node, len(candidates), pool)
}

func candidates(n int) string {
	if n == 1 {
		return "1 candidate"
	}
	return fmt.Sprintf("%d candidates", n)
}

// image names the image of the recipe.
func (j *evaluation) image() string {
	if j.pool.Version == "" {
		return "its image"
	}
	return "version " + j.pool.Version
}

// count counts the refused nodes by the first reason of each node.
func count(verdicts []NodeVerdict) []v1alpha1.RefusalCount {
	byReason := map[string]int32{}
	for i := range verdicts {
		if refusals := verdicts[i].Refusals; len(refusals) > 0 {
			byReason[refusals[0].Reason]++
		}
	}
	all := make([]v1alpha1.RefusalCount, 0, len(byReason))
	for reason, n := range byReason {
		all = append(all, v1alpha1.RefusalCount{Reason: reason, Count: n})
	}
	slices.SortFunc(all, func(a, b v1alpha1.RefusalCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func counts(refusals []v1alpha1.RefusalCount) string {
	if len(refusals) == 0 {
		return "none"
	}
	words := make([]string, len(refusals))
	for i, r := range refusals {
		words[i] = fmt.Sprintf("%s %d", r.Reason, r.Count)
	}
	return strings.Join(words, ", ")
}
