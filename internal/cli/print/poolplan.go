package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
)

// PoolPlan describes a policy's decision about a pool, with the reasons.
type PoolPlan struct {
	Pool   string `json:"pool"`
	PoolID string `json:"poolID"`
	Policy string `json:"policy"`
	// Captures reports that a capture would begin now.
	Captures bool                  `json:"captures"`
	Decision v1alpha1.PoolDecision `json:"decision"`
	// Says replaces the decision's message if the remedy is a look at this output.
	Says     string                  `json:"-"`
	Status   v1alpha1.PoolStatus     `json:"status"`
	Nodes    []selection.NodeVerdict `json:"nodes"`
	Donor    string                  `json:"donor,omitempty"`
	Version  string                  `json:"version,omitempty"`
	Estimate estimate.Estimate       `json:"estimate"`
	// Turnover is how fast the pool replaces nodes of earlier images without rebuilds; nil without such nodes. SlowTurnover:
	// rebuild.outdated would replace the nodes sooner.
	Turnover     *estimate.Turnover `json:"turnover,omitempty"`
	SlowTurnover bool               `json:"slowTurnover,omitempty"`
	// Joins is the detected way in which the donor joins, if the policy names no profile.
	Joins bootstrapkind.Answer `json:"bootstrap,omitzero"`
	// Method is how the donor's disk becomes an image, with the reason if the policy names no method.
	Method capturemethod.Answer `json:"method,omitzero"`
	admission.Preview
	// CustomDataFrom is the Secret with the copy of customData, which Kamino stores with the lost parts of the recipe.
	CustomDataFrom string `json:"customDataFrom,omitempty"`
	Error          string `json:"error,omitempty"`
	// Attention is what needs a person about the pool, by captures and policies.
	Attention []attention.Item `json:"attention,omitempty"`
}

// hidden are the kinds of items behind a decision that seems to be fine, such as CapturedToday.
var hidden = []attention.Kind{attention.NodesDoNotJoin, attention.CurrentVersionMissing, attention.VersionQuarantined}

// now is the donor, the decision in one word, and the next run: what needs a person comes before a decision that seems to be
// fine.
func (p PoolPlan) now(now time.Time) (donor, decision, next string) {
	donor, decision, next = orNone(p.Donor), p.Decision.Reason, None
	if p.Status.NextRun != nil {
		next = "in " + wording.Duration(p.Status.NextRun.Sub(now))
	}
	for _, i := range p.Attention {
		switch {
		case i.Kind == attention.CaptureRefused:
			if i.NextAt.After(now) {
				next = "in " + wording.Duration(i.NextAt.Sub(now))
			}
			return None, i.Reason, next
		case slices.Contains(hidden, i.Kind):
			return donor, string(i.Kind), next
		}
	}
	return donor, decision, next
}

// PoolPlans writes plans: in full with all nodes, or a line for each plan.
func PoolPlans(w io.Writer, format output.Format, plans []PoolPlan, full bool, now time.Time) error {
	if format == output.JSON || format == output.YAML {
		return output.Value(w, format, map[string]any{"pools": plans})
	}
	if full {
		for _, p := range plans {
			if err := poolPlan(w, p, format == output.Wide, now); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range plans[:min(1, len(plans))] { // the decisions show the items about pools
		for _, line := range NeedsYou(attention.OfPools(p.Attention), format, now) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	rows := make([][]string, 0, len(plans))
	for _, p := range plans {
		s := p.Status
		age := None
		if s.ImageBuiltAt != nil {
			age = Age(s.ImageBuiltAt.Time, now)
		}
		donor, decision, next := p.now(now)
		row := []string{
			p.Pool, p.Policy, orNone(s.CurrentVersion), age, fmt.Sprintf("%d/%d", s.Candidates, s.Nodes), donor, decision, next,
		}
		if format == output.Wide {
			row = append(row, refusalCounts(s.Refusals), p.Decision.Message)
		}
		rows = append(rows, row)
	}
	heading := []string{"POOL", "POLICY", "VERSION", "AGE", "CANDIDATES", "DONOR", "DECISION", "NEXT RUN"}
	if format == output.Wide {
		heading = append(heading, "REFUSED", "WHY")
	}
	return table(w, layoutOf(format, "POOL"), heading, rows)
}

func refusalCounts(refusals []v1alpha1.RefusalCount) string {
	words := make([]string, len(refusals))
	for i, r := range refusals {
		words[i] = fmt.Sprintf("%s %d", r.Reason, r.Count)
	}
	return orNone(strings.Join(words, ", "))
}

// poolPlan writes one plan: the decision, all nodes, and the effects of a capture.
func poolPlan(w io.Writer, p PoolPlan, wide bool, now time.Time) error {
	lines := NeedsYou(p.Attention, "", now)
	lines = append(lines, fmt.Sprintf("Pool %s, policy %s: %s.", p.Pool, p.Policy, cmp.Or(p.Says, p.Decision.Message)))
	if p.Status.NextRun != nil {
		lines = append(lines, fmt.Sprintf("The policy begins no capture before %s, in %s.",
			p.Status.NextRun.UTC().Format(time.RFC3339), wording.Duration(p.Status.NextRun.Sub(now))))
	}
	lines = append(lines, patchLines(p.Status.Patches, now)...)
	if p.Status.Rebuild != nil {
		lines = append(lines, fmt.Sprintf("Nodes of earlier images: %s.", p.Status.Rebuild.Message))
	}
	if t := p.Turnover; t != nil {
		lines = append(lines, turnover(*t, p.SlowTurnover))
	}
	if reported := p.Status.JoinHealth; reported != nil && reported.Message != "" &&
		(reported.Joined+reported.Failed+reported.Waiting > 0 || reported.Suspect != "") {
		lines = append(lines, fmt.Sprintf("New nodes: %s.", reported.Message))
	}
	if err := output.Prose(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	if len(p.Nodes) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := nodeTable(w, p, wide, now); err != nil {
			return err
		}
	}
	if rest := captureLines(p); len(rest) > 0 {
		return output.Prose(w, "\n"+strings.Join(rest, "\n")+"\n")
	}
	return nil
}

// patchLines describe the pending patches of a pool, as a node reported; none without a policy that checks.
func patchLines(s *v1alpha1.PatchesStatus, now time.Time) []string {
	if s == nil || s.CheckedAt.IsZero() {
		return nil
	}
	checked := fmt.Sprintf("%s ago on node %s", wording.Duration(now.Sub(s.CheckedAt.Time)), s.Node)
	var lines []string
	if s.Reason != "" {
		lines = append(lines, fmt.Sprintf("Pending patches: unknown. The last check, %s, had no answer (%s): %s.",
			checked, s.Reason, strings.TrimSuffix(s.Message, ".")))
		if s.Set == "" {
			return lines
		}
		checked = "earlier"
	}
	if s.Packages == 0 {
		return append(lines, fmt.Sprintf("Pending patches: none, checked %s.", checked))
	}
	text := fmt.Sprintf("Pending patches: %s, %d for security, checked %s.", wording.Count(int(s.Packages), "package"), s.Security, checked)
	if s.Since != nil {
		text += fmt.Sprintf(" First seen %s ago.", wording.Duration(now.Sub(s.Since.Time)))
	}
	lines = append(lines, text)
	if len(s.Names) > 0 {
		lines = append(lines, "  "+wording.Names(s.Names))
	}
	if len(s.CVEs) > 0 {
		lines = append(lines, fmt.Sprintf("  The patches fix at least %s: %s", wording.Count(int(s.CVECount), "CVE"), wording.Names(s.CVEs)))
	}
	return lines
}

// turnover says how long nodes of earlier images stay.
func turnover(t estimate.Turnover, slow bool) string {
	line := fmt.Sprintf("%d of %s have earlier images.", t.Earlier, wording.Count(t.Nodes, "node"))
	if t.IsKnown() {
		line += fmt.Sprintf(" Without rebuilds, a new version reaches 95 %% of the nodes after about %s.", wording.Duration(t.Replaced()))
	}
	if slow {
		line += " To replace these nodes sooner, set rebuild.outdated in the policy."
	}
	return line
}

// nodeTable writes a line for each node, candidates first; the wide form has a line for each refusal.
func nodeTable(w io.Writer, p PoolPlan, wide bool, now time.Time) error {
	nodes := slices.Clone(p.Nodes)
	rank := func(v selection.NodeVerdict) int {
		switch {
		case v.Node == p.Donor:
			return 0
		case len(v.Refusals) == 0:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(nodes, func(a, b selection.NodeVerdict) int { return rank(a) - rank(b) })
	heading := []string{"NODE", "VERDICT", "PATCHED", "READY FOR", "WHY"}
	scored := slices.ContainsFunc(nodes, func(v selection.NodeVerdict) bool { return v.Score != 0 })
	if scored {
		heading = slices.Insert(heading, 4, "SCORE")
	}
	var rows [][]string
	for _, v := range nodes {
		row := []string{v.Node, verdictWord(v, p.Donor), Age(v.PatchedAt, now), Age(v.ReadySince, now)}
		if scored {
			row = append(row, strconv.FormatFloat(v.Score, 'g', -1, 64))
		}
		rows = append(rows, append(row, orNone(verdictWhy(v))))
		for i := 1; wide && i < len(v.Refusals); i++ {
			more := make([]string, len(heading))
			more[len(more)-1] = v.Refusals[i].Reason + ": " + orNone(v.Refusals[i].Message)
			rows = append(rows, more)
		}
	}
	l := layout{pool: p.Pool}
	if !wide {
		l.width = narrow
	}
	return table(w, l, heading, rows)
}

func verdictWord(v selection.NodeVerdict, donor string) string {
	switch {
	case v.Node == donor:
		return "donor"
	case len(v.Refusals) == 0:
		return "candidate"
	default:
		return "refused"
	}
}

func verdictWhy(v selection.NodeVerdict) string {
	if len(v.Refusals) > 0 {
		return v.Refusals[0].Reason + ": " + AboutIt(v.Node, v.Refusals[0].Message)
	}
	if v.FailedToday != "" {
		return fmt.Sprintf("last choice: prototype %s failed on this node today", v.FailedToday)
	}
	return ""
}

// AboutIt shortens a sentence about a node for a place next to the node's name.
func AboutIt(node, sentence string) string {
	if rest, begins := strings.CutPrefix(sentence, "node "+node+" "); begins {
		return "it " + rest
	}
	return sentence
}

// captureLines describe the effects of a capture of the donor.
func captureLines(p PoolPlan) []string {
	if p.Donor == "" {
		return nil
	}
	opening := fmt.Sprintf("Capturing node %s as version %s would", p.Donor, p.Version)
	if !p.Captures && len(p.Refusals) == 0 {
		opening = fmt.Sprintf("As soon as captures are allowed, capturing node %s as version %s would", p.Donor, p.Version)
	}
	lines := []string{opening}
	add := func(format string, args ...any) { lines = append(lines, "  "+fmt.Sprintf(format, args...)) }
	for _, r := range p.Refusals {
		add("be refused: %s", r.Message)
	}
	for _, message := range donorSentences(p) {
		add("%s", message)
	}
	if n := len(p.Evicts); n > 0 {
		add("evict %s: %s", wording.Count(n, "pod"), wording.Names(p.Evicts))
	}
	for _, message := range joinSentences(p.Joins) {
		add("%s", message)
	}
	if c := p.Change; c != nil {
		add("change the recipe of pool %s:", p.Pool)
		lines = append(lines, recipeDiff(c, p.CustomDataFrom)...)
		if p.Irreversible {
			add("%s", irreversibleParts(c, p.CustomDataFrom != ""))
		}
	}
	if len(p.Retires) > 0 {
		add("retire %s", strings.Join(p.Retires, ", "))
	}
	for _, message := range append(tryingAgain(p.Estimate.Trials), durationSentence(p)) {
		add("%s", message)
	}
	if p.ImageLimitWarning != "" && !slices.ContainsFunc(p.Refusals, func(r cloud.Refusal) bool { return r.Reason == imagecount.TooManyImages }) {
		lines = append(lines, "Captures will soon be refused: "+p.ImageLimitWarning)
	}
	if p.Error != "" {
		add("make more changes that could not be determined: %s", p.Error)
	}
	return lines
}

// joinSentences name the profile of the disk, and what may happen to nodes that join with it.
func joinSentences(j bootstrapkind.Answer) (all []string) {
	if j.Profile == "" || j.Why == "" {
		return nil
	}
	all = append(all, fmt.Sprintf("generalize the disk with profile %s%s", j.Profile, because(j)))
	if j.Caution != "" {
		all = append(all, fmt.Sprintf("%s. To prevent it, %s", j.Caution, bootstrapkind.NameReusedRemedy))
	}
	return all
}

func durationSentence(p PoolPlan) string {
	if e := p.Estimate; e.Captures > 0 {
		return fmt.Sprintf("take about %s, with %s (median of %s in this cluster)",
			wording.Duration(e.Total()), meanwhile(e), wording.Count(e.Captures, "capture"))
	}
	return fmt.Sprintf("take an unknown time: no capture %s has succeeded in this cluster", methodWord(p.Copy != nil))
}

// donorSentences describe what happens to the donor and its pool, with the reason for the method.
func donorSentences(p PoolPlan) []string {
	switch {
	case p.Copy != nil:
		return copySentences(p.Copy, p.Donor, p.Pool, p.Method, p.Estimate.Bill)
	case p.Method.Why != "":
		return []string{"take the node out of service" + chosen(p.Method)}
	}
	return nil
}

// Duration is the expected duration of a capture, in sentences.
func Duration(e estimate.Estimate, s v1alpha1.Settings) string {
	if e.Captures > 0 {
		return fmt.Sprintf("The capture takes about %s, with %s (median of %s in this cluster).",
			wording.Duration(e.Total()), meanwhile(e), wording.Count(e.Captures, "capture"))
	}
	text := fmt.Sprintf("The duration is unknown, because no capture %s has succeeded in this cluster.", methodWord(s.CopiesDonor()))
	if s = s.Defaulted(); s.HasTrial() {
		text += fmt.Sprintf(" The trial alone takes at least %s.", wording.Duration(s.Trial.Soak.Duration))
	}
	return text
}

// methodWord names a method after the word capture.
func methodWord(copies bool) string {
	if copies {
		return "by copy"
	}
	return "in place"
}

// meanwhile is what a capture takes for a part of its time: the donor, or a workshop.
func meanwhile(e estimate.Estimate) string {
	if e.WorkshopSeconds > 0 {
		return "a workshop for " + wording.Duration(e.Workshop())
	}
	return "the node out of service for " + wording.Duration(e.OutOfService())
}

// recipeDiff shows a change in the form of a diff.
func recipeDiff(c *cloud.RecipeChange, customDataFrom string) []string {
	if c.Done {
		return []string{"      image " + orNone(c.To)}
	}
	lines := []string{"    - image " + orNone(c.From), "    + image " + orNone(c.To)}
	if c.From == c.To {
		lines = []string{"      image " + orNone(c.To)}
	}
	for _, removed := range c.Removes {
		note := ""
		switch {
		case customDataFrom != "" && removed.Same(cloud.RecipeField{Kind: cloud.CustomData}):
			note = "  (kept: the copy in Secret " + customDataFrom + ")"
		case removed.Unreadable:
			note = "  (permanently lost: the cloud never returns this field)"
		}
		lines = append(lines, "    - "+removed.Describe()+note)
	}
	for _, added := range c.Adds {
		lines = append(lines, "    + "+added.Describe())
	}
	for _, kept := range c.Keeps {
		lines = append(lines, "      "+kept.Describe())
	}
	return lines
}
