package joinhealth

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// letters stand for outcomes, so that a word is a history.
var letters = map[rune]Outcome{'J': Joined, 'F': Failed, 'w': Waiting, 'u': Uncounted}

// joined returns the joins of a version by the word, one a minute from a start.
func joined(version, word string, from time.Time) []Join {
	var joins []Join
	for i, letter := range word {
		j := Join{
			Instance: cloud.InstanceID(fmt.Sprintf("%s/%d", version, i)), Node: fmt.Sprintf("n%d", i), Version: version,
			Running: from.Add(time.Duration(i+1) * time.Minute), Outcome: letters[letter],
		}
		if j.Outcome == Failed {
			j.Why = "the instance has run for 16 min without a Node"
		}
		joins = append(joins, j)
	}
	return joins
}

// words returns all words up to a length.
func words(alphabet string, length int) []string {
	all, last := []string{""}, []string{""}
	for range length {
		var next []string
		for _, word := range last {
			for _, letter := range alphabet {
				next = append(next, word+string(letter))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

// pool returns the facts of a pool whose nodes do not join, with all conditions to go back: nodes of other pools join.
func pool(word string) Facts {
	return Facts{
		Now: noon, Pool: "workers", Current: "2026.03.09", Prior: "2026.03.01",
		Joins: joined("2026.03.09", word, noon.Add(-2*time.Hour)), Others: 10, OthersReady: 9,
		Elsewhere: joined("x", strings.Repeat("J", 12), noon.Add(-2*time.Hour)),
	}
}

// rule is the rule as a pattern: consecutive failures, without three joins in a row after the failures.
var rule = regexp.MustCompile(`(^FF|FFF)(F|JF|JJF)*J?J?$`)

// TestTheRule compares Decide with the pattern for every history of up to nine joins.
func TestTheRule(t *testing.T) {
	fired := 0
	for _, word := range words("JFw", 9) {
		want := rule.MatchString(strings.ReplaceAll(word, "w", ""))
		got := Decide(pool(word))
		switch {
		case want && (got.Do != GoBack || got.To != "2026.03.01" || got.State != Bad):
			t.Fatalf("%s: %+v, want to go back", word, got)
		case !want && (got.Do != Nothing || got.State != Watching || len(got.Failed) > 0):
			t.Fatalf("%s: %+v, want nothing", word, got)
		}
		for _, join := range got.Failed {
			if join.Outcome != Failed || join.Version != "2026.03.09" {
				t.Fatalf("%s: speaks against it: %+v", word, join)
			}
		}
		if want {
			fired++
		}
	}
	if fired < 1000 {
		t.Errorf("only %d histories go back", fired)
	}
}

// TestWhatDoesNotCount: excluded nodes, other versions and earlier periods do not change the verdict.
func TestWhatDoesNotCount(t *testing.T) {
	for _, word := range words("JF", 5) {
		plain := pool(word)
		noisy := pool(word)
		noisy.Joins = append(noisy.Joins, joined("2026.03.01", "FFF", noon.Add(-3*time.Hour))...)
		noisy.Joins = append(noisy.Joins, joined("", "FFF", noon.Add(-3*time.Hour))...)
		for i := range noisy.Joins[:len(word)] {
			aside := noisy.Joins[i]
			aside.Instance += "/aside"
			aside.Outcome = Uncounted
			noisy.Joins = append(noisy.Joins, aside)
		}
		if diff := cmp.Diff(Decide(plain), Decide(noisy)); diff != "" {
			t.Fatalf("%s (-plain +noisy):\n%s", word, diff)
		}
	}
}

// TestVerdicts has a row for each state, with its sentence.
func TestVerdicts(t *testing.T) {
	against := "2 nodes of version 2026.03.09 in pool workers did not join, last n1: the instance has run for 16 min without a Node"
	stays := against + "; the pool stays on the version: "
	after := func(word string) func(*Facts) {
		return func(f *Facts) {
			f.Suspect, f.Current, f.WentBack = "2026.03.09", "2026.03.01", noon.Add(-time.Hour)
			f.Joins = append(f.Joins, joined("2026.03.01", "FF", noon.Add(-5*time.Hour))...) // before the rollback
			f.Joins = append(f.Joins, joined("2026.03.01", word, noon.Add(-time.Hour))...)
		}
	}
	for name, test := range map[string]struct {
		word   string
		change func(*Facts)
		do     Action
		state  State
		says   string
		frozen bool
	}{
		"no version": {"FF", func(f *Facts) { f.Current = "" }, Nothing, Idle, "the recipe of pool workers names no version of the pool", false},
		"too few":    {"JFw", nil, Nothing, Watching, "version 2026.03.09 of pool workers: 1 nodes joined, 1 failed, 1 pending", false},
		"bad":        {"FF", nil, GoBack, Bad, against + "; version 2026.03.01 is the version before", false},
		"no control": {"FF", func(f *Facts) { f.Others, f.OthersReady = 0, 0 }, Nothing, NoControl, stays + "there is no node of another image to compare with", true},
		"unwell":     {"FF", func(f *Facts) { f.OthersReady = 7 }, Nothing, Unwell, stays + "only 7 of 10 nodes of other images are Ready, so the image may not be the cause", true},
		"just well":  {"FF", func(f *Facts) { f.OthersReady = 8 }, GoBack, Bad, against + "; version 2026.03.01 is the version before", false},
		"everywhere": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "Fwu", noon.Add(-2*time.Hour)) }, Nothing, Everywhere, stays + "new nodes of other pools did not join either, so the image is not the cause", true},
		"everywhere, and it is over": {"FFw", func(f *Facts) {
			f.Elsewhere = append(joined("x", "FF", noon.Add(-2*time.Hour)), joined("y", "JJ", noon.Add(-30*time.Minute))...)
		}, Nothing, Everywhere, stays + "new nodes of other pools did not join either, so the image is not the cause", true},
		"nobody knows elsewhere yet": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "wwu", noon.Add(-2*time.Hour)) }, Nothing, Awaited,
			stays + "new nodes of other pools have not joined yet, so the image may not be the cause", true},
		"one joins elsewhere": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "wJw", noon.Add(-2*time.Hour)) }, GoBack, Bad,
			against + "; version 2026.03.01 is the version before", false},
		"long ago elsewhere": {"FF", func(f *Facts) { f.Elsewhere = append(f.Elsewhere, joined("x", "FF", noon.Add(-5*time.Hour))...) }, GoBack, Bad,
			against + "; version 2026.03.01 is the version before", false},
		"a person has settled it": {"FFJ", func(f *Facts) { f.Since = noon.Add(-2*time.Hour + 2*time.Minute) }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 nodes joined, 2 failed, 0 pending", false},
		"not everywhere": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "FJF", noon.Add(-2*time.Hour)) }, GoBack, Bad,
			against + "; version 2026.03.01 is the version before", false},
		"three in a row, and nobody tells whether a node can join": {"JFFF", func(f *Facts) { f.Elsewhere = nil }, Nothing, Alone,
			"3 nodes of version 2026.03.09 in pool workers did not join, last n3: the instance has run for 16 min without a Node; the pool stays on the version: " +
				"no node of another pool joined at that time, so the image may not be the cause", true},
		"three in a row, and one joined elsewhere before": {"JFFF", func(f *Facts) { f.Elsewhere = joined("x", "J", noon.Add(-2*time.Hour)) }, Nothing, Alone,
			"3 nodes of version 2026.03.09 in pool workers did not join, last n3: the instance has run for 16 min without a Node; the pool stays on the version: " +
				"no node of another pool joined at that time, so the image may not be the cause", true},
		"three in a row for hours": {"JFFF", func(f *Facts) { f.Elsewhere, f.Joins[3].Running = nil, noon.Add(50*time.Minute) }, GoBack, Bad,
			"3 nodes of version 2026.03.09 in pool workers did not join, last n3: the instance has run for 16 min without a Node; version 2026.03.01 is the version before", false},
		"the first two, and others got nodes an hour before": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "J", noon.Add(-3*time.Hour)) }, Nothing, Alone,
			stays + "no node of another pool joined at that time, so the image may not be the cause", true},
		"the first two, and others got nodes two days before": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "J", noon.Add(-50*time.Hour)) }, GoBack, Bad,
			against + "; version 2026.03.01 is the version before", false},
		"the first two, and nobody else got a node": {"FF", func(f *Facts) { f.Elsewhere = nil }, GoBack, Bad, against + "; version 2026.03.01 is the version before", false},
		"too many are not Ready for anything to count": {"Jww", func(f *Facts) { f.OthersReady = 7 }, Nothing, Unwell, "version 2026.03.09 of pool workers: 1 nodes joined, 0 failed, 2 pending, " +
			"2 of them for more than 30 min; failures are ignored while only 7 of 10 nodes of other images are Ready", true},
		"too many are not Ready, and nobody is late": {"Jww", func(f *Facts) { f.OthersReady, f.Now = 7, f.Now.Add(-90*time.Minute) }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 nodes joined, 0 failed, 2 pending", false},
		"they join now":                     {"JFFFJJJ", nil, Nothing, Watching, "version 2026.03.09 of pool workers: 4 nodes joined, 3 failed, 0 pending", false},
		"the first two, and they join now":  {"FFJJJF", nil, Nothing, Watching, "version 2026.03.09 of pool workers: 3 nodes joined, 3 failed, 0 pending", false},
		"some do, and nobody knows of more": {"FFJJFJJ", nil, GoBack, Bad, against + "; version 2026.03.01 is the version before", false},
		"more than a day ago": {"FF", func(f *Facts) { f.Now = f.Now.Add(23 * time.Hour) }, Nothing, LongAgo,
			stays + "the failures are more than a day old; the next nodes decide", true},
		"more than a day ago, and another now": {"FFF", func(f *Facts) { f.Now, f.Joins[2].Running = f.Now.Add(23*time.Hour), noon.Add(22*time.Hour) }, GoBack, Bad,
			against + "; version 2026.03.01 is the version before", false},
		"no prior": {"FF", func(f *Facts) { f.Prior = "" }, Nothing, NoPrior, stays + "there is no version to roll back to", true},
		"too soon": {"FF", func(f *Facts) { f.WentBack = noon.Add(-Pause + time.Second) }, Nothing, TooSoon,
			stays + "the last automatic rollback was at 2026-03-08T12:00:01Z, and Kamino rolls a pool back at most once a day", true},
		"a day later":  {"FF", func(f *Facts) { f.WentBack = noon.Add(-Pause) }, GoBack, Bad, against + "; version 2026.03.01 is the version before", false},
		"switched off": {"FF", func(f *Facts) { f.Off = true }, Nothing, SwitchedOff, stays + "the policy does not enable automatic rollback", true},
		"suspected":    {"FF", after("w"), Nothing, Suspected, "pool workers rolled back from version 2026.03.09 to 2026.03.01: the next node shows whether the image was the cause", false},
		"convicted":    {"FF", after("wJF"), ConfirmBad, Confirmed, "version 2026.03.09 of pool workers was bad: node n1 of version 2026.03.01 has joined", false},
		"convicted by a node of the same second": {"FF", func(f *Facts) {
			after("J")(f)
			f.Joins[len(f.Joins)-1].Running = f.WentBack
		}, ConfirmBad, Confirmed, "version 2026.03.09 of pool workers was bad: node n0 of version 2026.03.01 has joined", false},
		"innocent": {"FF", after("FJ"), ClearSuspect, Cleared,
			"version 2026.03.09 of pool workers was not the cause: node n0 of version 2026.03.01 did not join either: the instance has run for 16 min without a Node", false},
		"a person promoted the suspect again": {"FJ", func(f *Facts) { f.Suspect = f.Current }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 nodes joined, 1 failed, 0 pending", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool(test.word)
			if test.change != nil {
				test.change(&f)
			}
			got := Decide(f)
			if got.Do != test.do || got.State != test.state || got.Message != test.says || got.State.Frozen() != test.frozen {
				t.Errorf("%s, %s, frozen %t:\n%s\nwant %s, %s, frozen %t:\n%s", got.Do, got.State, got.State.Frozen(), got.Message, test.do, test.state, test.frozen, test.says)
			}
		})
	}
}

// drawn draws arbitrary facts, even impossible ones.
var drawn = rapid.Custom(func(t *rapid.T) Facts {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("JFwu")), 0, 8, -1)
	others := rapid.IntRange(0, 20).Draw(t, "others")
	f := Facts{
		Now: noon, Pool: "workers", Current: rapid.SampledFrom([]string{"", "b", "a"}).Draw(t, "current"),
		Prior: rapid.SampledFrom([]string{"", "a"}).Draw(t, "prior"), Suspect: rapid.SampledFrom([]string{"", "b"}).Draw(t, "suspect"),
		Others: others, OthersReady: rapid.IntRange(0, others).Draw(t, "ready"),
		Elsewhere: joined("x", word.Draw(t, "elsewhere"), noon.Add(-time.Hour)), Off: rapid.Bool().Draw(t, "off"),
		Since: rapid.SampledFrom([]time.Time{{}, noon.Add(-118 * time.Minute)}).Draw(t, "since"),
		Joins: append(joined("a", word.Draw(t, "a"), noon.Add(-5*time.Hour)), joined("b", word.Draw(t, "b"), noon.Add(-2*time.Hour))...),
	}
	if rapid.Bool().Draw(t, "went back") {
		f.WentBack = noon.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "hours ago")) * time.Hour)
	}
	return f
})

// rank orders actions by their severity for the current version.
func rank(v Verdict) int {
	switch {
	case v.Do == GoBack:
		return 2
	case v.State.Frozen():
		return 1
	default:
		return 0
	}
}

// TestAFailureMoreIsNeverBetter: if a join or a waiting node becomes a failure, the verdict on the current version is
// never better.
func TestAFailureMoreIsNeverBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawn.Draw(t, "facts")
		if f.Suspect != "" && f.Suspect != f.Current {
			return // the verdict is about a different version
		}
		before := Decide(f)
		for i := range f.Joins {
			if f.Joins[i].Version != f.Current || f.Joins[i].Outcome != Joined {
				continue
			}
			worse := f
			worse.Joins = append([]Join(nil), f.Joins...)
			worse.Joins[i].Outcome = Failed
			if after := Decide(worse); rank(after) < rank(before) {
				t.Fatalf("%+v\nwas %+v\nis %+v", worse, before, after)
			}
		}
	})
}

// objection returns why a verdict is wrong for the facts; empty for a valid verdict. The code is independent of Decide.
func objection(f Facts, v Verdict) string {
	judged, waits := "", false
	for _, join := range f.Joins {
		if letter := string(join.Outcome[0]); join.Version == f.Current && !join.Running.Before(f.Since) && strings.Contains("JF", letter) {
			judged += letter
		}
		waits = waits || join.Version == f.Current && join.Outcome == Waiting
	}
	open := f.Suspect != "" && f.Suspect != f.Current && f.Current != ""
	bad := !open && f.Current != "" && rule.MatchString(judged)
	switch {
	case v.State == "" || v.Message == "":
		return "it says nothing"
	case v.Do != Nothing && v.State.Frozen():
		return "it acts, and says that it does not"
	case v.Do == GoBack && !bad:
		return "it goes back, and the nodes join"
	case v.Do == GoBack && (v.To == "" || v.To == f.Current):
		return "it goes back to nothing"
	case v.Do == GoBack && (f.Others == 0 || float64(f.OthersReady)/float64(f.Others) < 0.8):
		return "it goes back, and the others are not Ready"
	case v.Do == GoBack && f.Off:
		return "it goes back though it must not"
	case v.Do == GoBack && !f.WentBack.IsZero() && f.Now.Sub(f.WentBack) < 24*time.Hour:
		return "it goes back twice in a day"
	case v.State == NoPrior && f.Prior != "" && f.Prior != f.Current:
		return "it sees nothing to go back to"
	case v.Do == Nothing && bad && !v.State.Frozen():
		return "nodes do not join, and nobody is told"
	case v.State.Frozen() && !bad && !(v.State == Unwell && waits && float64(f.OthersReady)/float64(f.Others) < 0.8):
		return "it alarms, and the nodes join"
	case (v.Do == ConfirmBad || v.Do == ClearSuspect) && (!open || v.To != f.Suspect):
		return "it judges whom nobody suspects"
	case open && v.State != Suspected && v.Do == Nothing:
		return "the suspect is forgotten"
	case (v.Do == ConfirmBad || v.Do == ClearSuspect) && afterGoingBack(f) != v.Do:
		return "the next node has said something else"
	}
	return ""
}

// afterGoingBack returns the outcome of the first judged node after the rollback.
func afterGoingBack(f Facts) Action {
	for _, join := range f.Joins {
		switch {
		case join.Version != f.Current || join.Running.Before(f.WentBack):
		case join.Outcome == Joined:
			return ConfirmBad
		case join.Outcome == Failed:
			return ClearSuspect
		}
	}
	return Nothing
}

// TestNothingWithoutGrounds tests arbitrary facts.
func TestNothingWithoutGrounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawn.Draw(t, "facts")
		if v := Decide(f); objection(f, v) != "" {
			t.Fatalf("%s: %+v", objection(f, v), v)
		}
	})
}

// TestWrongDeciders: for each wrong variant of Decide, some facts cause an objection. So the objections work.
func TestWrongDeciders(t *testing.T) {
	with := func(change func(*Facts)) func(Facts) Verdict {
		return func(f Facts) Verdict {
			change(&f)
			return Decide(f)
		}
	}
	for name, wrong := range map[string]func(Facts) Verdict{
		"takes any two for enough": func(f Facts) Verdict {
			failed := 0
			for _, join := range judgedOf(f.Joins, f.Current, f.Since) {
				if join.Outcome == Failed {
					failed++
				}
			}
			v := Decide(f)
			if failed >= 2 && v.State == Watching && f.Prior != "" {
				v = Verdict{Do: GoBack, State: Bad, Message: v.Message, To: f.Prior}
			}
			return v
		},
		"asks no others":                  with(func(f *Facts) { f.Others, f.OthersReady = 1, 1 }),
		"has half of them do":             with(func(f *Facts) { f.OthersReady = min(f.Others, f.OthersReady*8/5) }),
		"forgets that it went back":       with(func(f *Facts) { f.WentBack = time.Time{} }),
		"forgets the suspect":             with(func(f *Facts) { f.Suspect = "" }),
		"goes back unasked":               with(func(f *Facts) { f.Off = false }),
		"takes itself for the one before": with(func(f *Facts) { f.Prior = f.Current }),
		"invents a version":               with(func(f *Facts) { f.Prior = "z"; f.Current = "b" }),
		"counts what is settled":          with(func(f *Facts) { f.Since = time.Time{} }),
		"never sees a failure":            with(func(f *Facts) { f.Joins = nil }),
		"counts who is set aside":         with(func(f *Facts) { f.Joins = renamed(f.Joins, Uncounted, Failed) }),
		"counts who is awaited":           with(func(f *Facts) { f.Joins = renamed(f.Joins, Waiting, Failed) }),
		"has them in a wrong order":       with(func(f *Facts) { f.Joins = slices.Clone(f.Joins); slices.Reverse(f.Joins) }),
		"takes the nodes for joined":      with(func(f *Facts) { f.Joins = renamed(f.Joins, Failed, Joined) }),
		"is silent when it is frozen": func(f Facts) Verdict {
			v := Decide(f)
			if v.State.Frozen() {
				v.State = Watching
			}
			return v
		},
		"says nothing": func(f Facts) Verdict { return Verdict{State: Decide(f).State} },
		"goes back, and condemns at once": func(f Facts) Verdict {
			v := Decide(f)
			if v.State == Suspected {
				v.Do, v.To = ConfirmBad, f.Suspect
			}
			return v
		},
	} {
		found := false
		for seed := 0; seed < 20_000 && !found; seed++ {
			f := drawn.Example(seed)
			found = objection(f, wrong(f)) != ""
		}
		if !found {
			t.Errorf("nobody objects to a decider that %s", name)
		}
	}
}

func renamed(joins []Join, from, to Outcome) []Join {
	joins = slices.Clone(joins)
	for i := range joins {
		if joins[i].Outcome == from {
			joins[i].Outcome = to
		}
	}
	return joins
}

// alarms returns the percentage of pools in which a rule fires. Each of the healthy nodes fails with a probability.
func alarms(base float64, nodes int, rule func(string) bool) float64 {
	const runs = 100_000
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a simulation that is the same in each run
	fired := 0
	word := make([]byte, nodes)
	for range runs {
		for i := range word {
			word[i] = 'J'
			if random.Float64() < base {
				word[i] = 'F'
			}
		}
		if rule(string(word)) {
			fired++
		}
	}
	return 100 * float64(fired) / runs
}

// ours is the rule of Decide.
func ours(word string) bool { return Decide(pool(word)).Do == GoBack }

// TestFalseAlarms: the rate of rollbacks from a good version, over a hundred joins that fail for other reasons. The
// rejected rules are listed for comparison.
func TestFalseAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("half a million histories")
	}
	quick := func(word string) bool { return strings.HasPrefix(word, "FF") || strings.Contains(word, "FFF") }
	gone := map[string]bool{}              // whether the pool has gone back by then; the words come by their length
	for _, word := range words("JF", 10) { // the quick form of the simulation is the rule itself, asked at each join
		gone[word] = word != "" && gone[word[:len(word)-1]] || ours(word)
		if quick(word) != gone[word] {
			t.Fatalf("%s: %t", word, quick(word))
		}
	}
	twice := func(word string) bool { return strings.Contains(word, "FF") }
	for _, test := range []struct{ base, most, twiceLeast float64 }{
		{0.01, 0.06, 0.8}, {0.02, 0.16, 3.2}, {0.05, 1.6, 19},
	} {
		own, other := alarms(test.base, 100, quick), alarms(test.base, 100, twice)
		t.Logf("%.0f %% of joins fail by themselves: %.3f false alarms in 100 pools; with two in a row %.2f", 100*test.base, own, other)
		if own > test.most {
			t.Errorf("at a base rate of %g: %.3f, want %g at most", test.base, own, test.most)
		}
		if other < test.twiceLeast {
			t.Errorf("two in a row at a base rate of %g: %.3f, and that was why the rule is another", test.base, other)
		}
	}
}

// TestNodesUntilItGoesBack: the average number of nodes that a bad version costs.
func TestNodesUntilItGoesBack(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a simulation that is the same in each run
	for _, test := range []struct{ bad, least, most float64 }{{1, 2, 2}, {0.9, 2.3, 2.9}, {0.7, 4, 6}, {0.5, 9, 14}} {
		const runs = 20_000
		nodes := 0
		for range runs {
			var judged []Join
			for (Facts{Now: noon}).fires(judged) == nil {
				outcome := Joined
				if random.Float64() < test.bad {
					outcome = Failed
				}
				judged = append(judged, Join{Outcome: outcome})
			}
			nodes += len(judged)
		}
		mean := float64(nodes) / runs
		t.Logf("%.0f %% of its nodes fail: %.1f nodes", 100*test.bad, mean)
		if mean < test.least || mean > test.most {
			t.Errorf("%.0f %% bad: %.2f nodes, want %g to %g", 100*test.bad, mean, test.least, test.most)
		}
	}
}

func TestCount(t *testing.T) {
	joins := append(joined("b", "JJFwuJ", noon), joined("a", "J", noon)...)
	for i, took := range []time.Duration{3 * time.Minute, time.Minute, 0, 0, 0, 2 * time.Minute} {
		joins[i].Took = took
	}
	if diff := cmp.Diff(Tally{Joined: 3, Failed: 1, Waiting: 1, Median: 2 * time.Minute}, Count(joins, "b")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Tally{}, Count(joins, "c")); diff != "" {
		t.Error(diff)
	}
}
