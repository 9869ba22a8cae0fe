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

// Reasons of a decision about a pool as a whole, in the order in which they are found.
const (
	// PoolRefused: nothing of the pool may be captured.
	PoolRefused = "PoolRefused"
	// CaptureInFlight: one capture of a pool at a time.
	CaptureInFlight = "CaptureInFlight"
	// CapturedToday: one version of a pool and a day.
	CapturedToday = "CapturedToday"
	// NoNodes: the pool has none.
	NoNodes = "NoNodes"
	// Chosen: a donor was found.
	Chosen = "Chosen"
	// NothingPatched: no node of the pool says when it was patched.
	NothingPatched = "NothingPatched"
	// UpToDate: no node was patched since the current image was captured.
	UpToDate = "UpToDate"
	// TooFewCandidates: fewer nodes than minCandidates pass the rules.
	TooFewCandidates = "TooFewCandidates"
)

// Pool is what is known of a pool whose donor is to be chosen.
type Pool struct {
	Name string
	// Nodes of the pool, all of them, in any order. They are only read: labels and annotations, the deletion
	// time, spec.unschedulable, the operating system of status.nodeInfo, and of the condition Ready its status
	// and last transition. Expressions may read more (see package expression).
	Nodes []*corev1.Node
	// Reserved reports whether a Lease confirms the reservation on a Node. Nil believes the Nodes.
	Reserved func(*corev1.Node) bool
	// OwnNode is the node that this process runs on; empty if it runs on none.
	OwnNode string
	// Version that the recipe names; empty if that is none of the pool's own.
	Version string
	// BuiltAt is when that version's donor was captured; zero without a version, or if nobody knows.
	BuiltAt time.Time
	// BadUntil is when the newest quarantined version was captured that is newer than Version; zero if there is
	// none. Patches from after BuiltAt until then are those that somebody rolled back from.
	BadUntil time.Time
	// Refusals: why nothing of the pool may be captured, such as the cloud's.
	Refusals []cloud.Refusal
	// InFlight is the Prototype that captures the pool now, and CapturedToday the one that did so today.
	InFlight, CapturedToday string
	// NodeRefusals are those that others have against single nodes, by the node's name: that it was built from
	// a quarantined version, that its disk cannot be captured.
	NodeRefusals map[string][]cloud.Refusal
	// FailedToday names, by the node's name, the Prototype that failed with that donor today. Such a donor is
	// taken only if no other will do.
	FailedToday map[string]string
	// Leaves tells whether a node would not return if it were the donor (v1alpha1.Settings.DonorLeaves). Nil: all return.
	Leaves func(*corev1.Node) bool
}

func (p Pool) leaves(n *corev1.Node) bool { return p.Leaves != nil && p.Leaves(n) }

// Rules are a policy's.
type Rules struct {
	// MostRecentPatch and RebootPending are names of annotations.
	MostRecentPatch, RebootPending string
	MinReadyTime                   time.Duration
	// MinCandidates is taken as 1 if it is less.
	MinCandidates int
	// MaxImageAge past which the rules about patches are waived; never if zero.
	MaxImageAge time.Duration
	// IgnoreNodes, IgnoreAnnotations and IgnoreLabels are names.
	IgnoreNodes, IgnoreAnnotations, IgnoreLabels []string
	// Disrupt and MaxUnavailable are those of Subject.
	Disrupt        bool
	MaxUnavailable intstr.IntOrString
	// Expressions of the policy; nil if it has none.
	Expressions Evaluator
}

// Evaluator judges a node by expressions that a person wrote.
type Evaluator interface {
	// Evaluate tells whether the node is refused, and its score, which is a number. An error is about this node.
	Evaluate(node *corev1.Node, now time.Time) (refused bool, score float64, err error)
}

// RulesOf a policy, without its expressions.
func RulesOf(spec v1alpha1.PrototypePolicySpec) Rules {
	spec = spec.Defaulted()
	patch, pending := spec.Patched.Annotations()
	return Rules{
		MostRecentPatch: patch, RebootPending: pending,
		MinReadyTime: spec.Selection.MinReadyTime.Duration, MinCandidates: int(spec.Selection.MinCandidates),
		MaxImageAge: spec.Selection.MaxImageAge.Duration, IgnoreNodes: spec.Selection.IgnoreNodes,
		IgnoreAnnotations: spec.Selection.IgnoreAnnotations, IgnoreLabels: spec.Selection.IgnoreLabels,
		Disrupt: spec.Settings.Drain.Disrupt, MaxUnavailable: *spec.Settings.OutOfService.MaxUnavailable,
	}
}

// Verdict on one node.
type Verdict struct {
	Node string `json:"node"`
	// Refusals, all of them. None means that it is a candidate.
	Refusals []cloud.Refusal `json:"refusals,omitempty"`
	// PatchedAt is what the node says of its patch, if that is a time that has come.
	PatchedAt time.Time `json:"patchedAt,omitzero"`
	// ReadySince is zero for a node that is not Ready.
	ReadySince time.Time `json:"readySince,omitzero"`
	Score      float64   `json:"score,omitempty"`
	// FailedToday is the Prototype that failed with this donor today, which makes it the last choice.
	FailedToday string `json:"failedToday,omitempty"`
}

// Choice for one pool.
type Choice struct {
	// Donor to capture; nil if there is to be no capture now.
	Donor *corev1.Node `json:"-"`
	// Reason and Message of the decision. The message carries no times, so that it stays while nothing changes.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Remedy is what to do about it, which Message ends with, and Obstacle what Message says before; without a remedy
	// that is all of it.
	Remedy   string `json:"remedy,omitempty"`
	Obstacle string `json:"-"`
	// Best is the donor that the rules for nodes would choose, were nothing to be said against the pool; nil
	// without candidates.
	Best *corev1.Node `json:"-"`
	// Candidates, the best first.
	Candidates []Verdict `json:"candidates"`
	// Verdicts on all nodes, by name.
	Verdicts []Verdict `json:"verdicts"`
	// Refusals counted by the first reason of each refused node, the most frequent first: with the candidates
	// they add up to the nodes.
	Refusals []v1alpha1.RefusalCount `json:"refusals,omitempty"`
	// NewestPatch that any node carries; zero if none does.
	NewestPatch time.Time `json:"newestPatch,omitzero"`
	// Waived tells that the image is older than maxImageAge, so that the rules about patches do not apply.
	Waived bool `json:"waived,omitempty"`
	// Changes is when the passing of time alone changes the answer next: a node has been Ready for long enough,
	// or the image is too old. Zero if it does not. Expressions are not thought of.
	Changes time.Time `json:"changes,omitzero"`
}

// Choose judges every node of the pool and decides whether there is a capture now, and of which node. The
// same pool, rules and time give the same choice, in whatever order the nodes are given.
func Choose(pool Pool, rules Rules, now time.Time) Choice {
	j := newJudge(pool, rules, now)
	c := Choice{Waived: j.waived, Verdicts: make([]Verdict, 0, len(pool.Nodes))}
	nodes := slices.Clone(pool.Nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		v := j.judge(n)
		if v.PatchedAt.After(c.NewestPatch) {
			c.NewestPatch = v.PatchedAt
		}
		if len(v.Refusals) == 0 {
			c.Candidates = append(c.Candidates, v)
		}
		c.Verdicts = append(c.Verdicts, v)
	}
	slices.SortStableFunc(c.Candidates, better)
	if len(c.Candidates) > 0 {
		c.Best = named(nodes, c.Candidates[0].Node)
	}
	c.Refusals = count(c.Verdicts)
	c.Changes = j.changes(c.Verdicts)
	said := j.decide(&c)
	c.Reason, c.Message, c.Remedy, c.Obstacle = said.reason, said.message, said.remedy, said.obstacle
	if c.Reason == Chosen {
		c.Donor = c.Best
	}
	return c
}

// better orders candidates: those that have not failed today, by score, by the time that they have been Ready,
// by name. No two are equal.
func better(a, b Verdict) int {
	if (a.FailedToday == "") != (b.FailedToday == "") {
		return cmp.Compare(len(a.FailedToday), len(b.FailedToday))
	}
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.ReadySince.Compare(b.ReadySince), cmp.Compare(a.Node, b.Node))
}

func named(nodes []*corev1.Node, name string) *corev1.Node {
	i, _ := slices.BinarySearchFunc(nodes, name, func(n *corev1.Node, name string) int { return cmp.Compare(n.Name, name) })
	return nodes[i]
}

// said is a decision in words, as Choice has them.
type said struct{ reason, message, remedy, obstacle string }

// say a decision about which there is nothing to do.
func say(reason, sentence string, args ...any) said {
	message := fmt.Sprintf(sentence, args...)
	return said{reason: reason, message: message, obstacle: message}
}

// mendable is a decision that somebody can change.
func mendable(r cloud.Refusal) said { return said{r.Reason, r.Message, r.Remedy, r.What()} }

// decide about the pool as a whole.
func (j *judge) decide(c *Choice) said {
	name, enough := j.pool.Name, max(j.rules.MinCandidates, 1)
	switch {
	case len(j.pool.Refusals) > 0:
		refused := j.pool.Refusals[0]
		return mendable(cloud.Refuse(PoolRefused, fmt.Sprintf("pool %s cannot be captured: %s", name, refused.What()), refused.Remedy))
	case j.pool.InFlight != "":
		return say(CaptureInFlight, "prototype %s is capturing pool %s: the next decision comes after it", j.pool.InFlight, name)
	case j.pool.CapturedToday != "":
		return say(CapturedToday, "pool %s was captured today, by prototype %s: a pool gets one version a day", name, j.pool.CapturedToday)
	case len(c.Verdicts) == 0:
		return say(NoNodes, "pool %s has no nodes, so there is nothing to capture", name)
	case len(c.Candidates) >= enough && j.away >= MayBeAway(j.rules.MaxUnavailable, len(c.Verdicts)):
		return say(TooManyUnavailable, "no node of pool %s is taken now: %s (settings.outOfService.maxUnavailable)",
			name, awaySentence(name, j.away, MayBeAway(j.rules.MaxUnavailable, len(c.Verdicts))))
	case len(c.Candidates) >= enough:
		return say(Chosen, "%s", chosen(name, c.Candidates))
	case !j.waived && c.NewestPatch.IsZero():
		return mendable(cloud.Refuse(NothingPatched, fmt.Sprintf("no node of pool %s says in annotation %s when it was patched", name, j.rules.MostRecentPatch),
			"see that the patcher runs and annotates nodes (kured does so with --annotate-nodes), or set selection.maxImageAge to go without"))
	case !j.waived && !j.pool.BuiltAt.IsZero() && !c.NewestPatch.After(j.pool.BuiltAt):
		return say(UpToDate, "no node of pool %s was patched since %s was captured", name, j.image())
	default:
		return mendable(cloud.Refuse(TooFewCandidates, fmt.Sprintf("pool %s has %s, and the policy wants %d (selection.minCandidates); refused are %s",
			name, candidates(len(c.Candidates)), enough, counts(c.Refusals)), fmt.Sprintf("`kamino plan %s` says why for each node", name)))
	}
}

func chosen(pool string, candidates []Verdict) string {
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

// image names what the recipe points at.
func (j *judge) image() string {
	if j.pool.Version == "" {
		return "its image"
	}
	return "version " + j.pool.Version
}

// count the refused nodes by the first reason of each.
func count(verdicts []Verdict) []v1alpha1.RefusalCount {
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
