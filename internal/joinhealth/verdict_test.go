package joinhealth

import (
	"fmt"
	"math/rand/v2"
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

// hasEvidence is the rule for a history of joined (J) and failed (F) nodes in an hour: of the last six, or of all, at least two, and more than
// half, have failed.
func hasEvidence(word string) bool {
	for _, sample := range []string{word[max(0, len(word)-6):], word} {
		if failed := strings.Count(sample, "F"); failed >= 2 && 2*failed > len(sample) {
			return true
		}
	}
	return false
}

// fails reports whether a person must know of the history.
func fails(word string) bool {
	failed := strings.Count(word, "F")
	return strings.Count(word[max(0, len(word)-6):], "F") >= 2 || failed >= 2 && 10*failed >= len(word)
}

// TestTheRule compares Decide with the rule for every history of up to nine joins.
func TestTheRule(t *testing.T) {
	fired := 0
	for _, word := range words("JFw", 9) {
		judged := strings.ReplaceAll(word, "w", "")
		got := Decide(pool(word))
		switch {
		case hasEvidence(judged) && (got.Do != RollBack || got.To != "2026.03.01" || got.State != Failing):
			t.Fatalf("%s: %+v, want to go back", word, got)
		case !hasEvidence(judged) && (got.Do != Nothing || (got.State == Failing) != fails(judged)):
			t.Fatalf("%s: %+v, want nothing", word, got)
		}
		for _, join := range got.Failed {
			if join.Outcome != Failed || join.Version != "2026.03.09" {
				t.Fatalf("%s: speaks against it: %+v", word, join)
			}
		}
		if hasEvidence(judged) {
			fired++
		}
	}
	if fired < 1000 {
		t.Errorf("only %d histories go back", fired)
	}
}

// TestIgnoredNodes: excluded nodes, other versions and earlier periods do not change the verdict.
func TestIgnoredNodes(t *testing.T) {
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

// TestVerdicts has a row for each state and each reason to stay, with its sentence.
func TestVerdicts(t *testing.T) {
	against := "2 of the last 2 nodes of version 2026.03.09 in pool workers failed, last n1: the instance has run for 16 min without a Node"
	stays := against + "; the pool stays on the version: "
	goes := against + "; version 2026.03.01 is the version before"
	ends := ". If the image is the cause, run `kamino rollback workers`"
	restores := ". If the image is the cause, run `kamino restore workers`"
	after := func(word string) func(*Facts) {
		return func(f *Facts) {
			f.Suspect, f.Current, f.LastRollback = "2026.03.09", "2026.03.01", noon.Add(-time.Hour)
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
	}{
		"no version": {"FF", func(f *Facts) { f.Current = "" }, Nothing, Watching, "the recipe of pool workers names no version of the pool"},
		"too few":    {"JFw", nil, Nothing, Watching, "version 2026.03.09 of pool workers: 1 node joined, 1 failed, 1 pending"},
		"bad":        {"FF", nil, RollBack, Failing, goes},
		"half join": {"FJFJ", nil, Nothing, Failing,
			"2 of the last 4 nodes of version 2026.03.09 in pool workers failed, last n2: the instance has run for 16 min without a Node; " +
				"the pool stays on the version: at least half of these nodes joined" + ends},
		"a person settled the failures": {"FFJ", func(f *Facts) { f.Since = noon.Add(-2*time.Hour + 2*time.Minute) }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 node joined, 2 failed, 0 pending"},
		"more than a day ago": {"FF", func(f *Facts) { f.Now = f.Now.Add(23 * time.Hour) }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 0 nodes joined, 2 failed, 0 pending"},
		"other nodes fail": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "Fwu", noon.Add(-2*time.Hour)) }, Nothing, Failing,
			stays + "nodes of other versions or pools did not join in the same time either, so the image may not be the cause" + ends},
		"other nodes joined just before": {"FF", func(f *Facts) { f.Elsewhere = joined("x", "JJ", noon.Add(-2*time.Hour-10*time.Minute)) }, Nothing, Failing,
			stays + "too few nodes of other versions or pools started later and joined, so there is too little evidence against the image" + ends},
		"another version joins in the pool": {"FF", func(f *Facts) {
			f.Elsewhere, f.Joins = nil, append(f.Joins, joined("2026.03.01", "wJ", noon.Add(-2*time.Hour))...)
		}, RollBack, Failing, goes},
		"no control": {"FF", func(f *Facts) { f.Others, f.OthersReady = 0, 0 }, Nothing, Failing, stays + "there is no node of another image to compare with" + ends},
		"unwell": {"FF", func(f *Facts) { f.OthersReady = 7 }, Nothing, Failing,
			stays + "only 7 of 10 nodes of other images are Ready, so the image may not be the cause" + ends},
		"just well": {"FF", func(f *Facts) { f.OthersReady = 8 }, RollBack, Failing, goes},
		"too many are not Ready for anything to count": {"Jww", func(f *Facts) { f.OthersReady = 7 }, Nothing, Failing,
			"version 2026.03.09 of pool workers: 1 node joined, 0 failed, 2 pending, " +
				"2 of them for more than 30 min; failures are ignored while only 7 of 10 nodes of other images are Ready"},
		"too many are not Ready, and no node is late": {"Jww", func(f *Facts) { f.OthersReady, f.Now = 7, f.Now.Add(-90*time.Minute) }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 node joined, 0 failed, 2 pending"},
		"no prior": {"FF", func(f *Facts) { f.Prior = "" }, Nothing, Failing, stays + "there is no version to roll back to" + restores},
		"no prior, and no evidence": {"FF", func(f *Facts) { f.Prior, f.Elsewhere = "", joined("x", "Fwu", noon.Add(-2*time.Hour)) }, Nothing, Failing,
			stays + "there is no version to roll back to" + restores},
		"too soon": {"FF", func(f *Facts) { f.LastRollback = noon.Add(-Pause + time.Second) }, Nothing, Failing,
			stays + "the last automatic rollback was at 2026-03-08T12:00:01Z, and Kamino rolls a pool back at most once a day" + ends},
		"a day later":  {"FF", func(f *Facts) { f.LastRollback = noon.Add(-Pause) }, RollBack, Failing, goes},
		"switched off": {"FF", func(f *Facts) { f.Off = true }, Nothing, Failing, stays + "the policy does not enable automatic rollback" + ends},
		"suspected": {"FF", after("w"), Nothing, Suspected,
			"pool workers rolled back from version 2026.03.09 to 2026.03.01: the next node shows whether the image was the cause"},
		"confirmed": {"FF", after("wJF"), ConfirmBad, Confirmed, "version 2026.03.09 of pool workers was bad: node n1 of version 2026.03.01 has joined"},
		"confirmed by a node of the same second": {"FF", func(f *Facts) {
			after("J")(f)
			f.Joins[len(f.Joins)-1].Running = f.LastRollback
		}, ConfirmBad, Confirmed, "version 2026.03.09 of pool workers was bad: node n0 of version 2026.03.01 has joined"},
		"cleared": {"FF", after("FJ"), ClearSuspect, Cleared,
			"version 2026.03.09 of pool workers was not the cause: node n0 of version 2026.03.01 did not join either: " +
				"the instance has run for 16 min without a Node"},
		"a person promoted the suspect again": {"FJ", func(f *Facts) { f.Suspect = f.Current }, Nothing, Watching,
			"version 2026.03.09 of pool workers: 1 node joined, 1 failed, 0 pending"},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool(test.word)
			if test.change != nil {
				test.change(&f)
			}
			got := Decide(f)
			if got.Do != test.do || got.State != test.state || got.Message != test.says {
				t.Errorf("%s, %s:\n%s\nwant %s, %s:\n%s", got.Do, got.State, got.Message, test.do, test.state, test.says)
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
		Elsewhere: joined("x", word.Draw(t, "elsewhere"),
			rapid.SampledFrom([]time.Time{noon.Add(-2 * time.Hour), noon.Add(-time.Hour)}).Draw(t, "elsewhere from")), Off: rapid.Bool().Draw(t, "off"),
		Since: rapid.SampledFrom([]time.Time{{}, noon.Add(-118 * time.Minute)}).Draw(t, "since"),
		Joins: append(joined("a", word.Draw(t, "a"), noon.Add(-5*time.Hour)), joined("b", word.Draw(t, "b"), noon.Add(-2*time.Hour))...),
	}
	if rapid.Bool().Draw(t, "rolled back") {
		f.LastRollback = noon.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "hours ago")) * time.Hour)
	}
	return f
})

// rank orders actions by their severity for the current version.
func rank(v Verdict) int {
	switch {
	case v.Do == RollBack:
		return 2
	case v.State == Failing:
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
	bad := !open && f.Current != "" && hasEvidence(judged)
	switch {
	case v.State == "" || v.Message == "":
		return "it says nothing"
	case v.Do == RollBack && !bad:
		return "it goes back, and the nodes join"
	case v.Do == RollBack && (v.To == "" || v.To == f.Current):
		return "it goes back to nothing"
	case v.Do == RollBack && (f.Others == 0 || float64(f.OthersReady)/float64(f.Others) < 0.8):
		return "it goes back, and the others are not Ready"
	case v.Do == RollBack && f.Off:
		return "it goes back though it must not"
	case v.Do == RollBack && !f.LastRollback.IsZero() && f.Now.Sub(f.LastRollback) < 24*time.Hour:
		return "it goes back twice in a day"
	case strings.Contains(v.Message, "no version to roll back to") && f.Prior != "" && f.Prior != f.Current:
		return "it sees nothing to go back to"
	case v.Do == Nothing && !open && f.Current != "" && fails(judged) && v.State != Failing:
		return "nodes do not join, and no report says so"
	case v.State == Failing && !fails(judged) && !(waits && float64(f.OthersReady)/float64(f.Others) < 0.8):
		return "it alarms, and the nodes join"
	case (v.Do == ConfirmBad || v.Do == ClearSuspect) && (!open || v.To != f.Suspect):
		return "it judges a version without a suspicion"
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
		case join.Version != f.Current || join.Running.Before(f.LastRollback):
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
			if failed >= 2 && v.Do == Nothing && f.Prior != "" {
				v = Verdict{Do: RollBack, State: Failing, Message: v.Message, To: f.Prior}
			}
			return v
		},
		"asks no others":                  with(func(f *Facts) { f.Others, f.OthersReady = 1, 1 }),
		"has half of them do":             with(func(f *Facts) { f.OthersReady = min(f.Others, f.OthersReady*8/5) }),
		"forgets the last rollback":       with(func(f *Facts) { f.LastRollback = time.Time{} }),
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
			if v.State == Failing {
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
			t.Errorf("no test fails for a decider that %s", name)
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

// ours is the rule of Decide.
func ours(word string) bool { return Decide(pool(word)).Do == RollBack }

// TestFalseAlarms: the rate of rollbacks from a good version, over a hundred joins that fail for other reasons.
func TestFalseAlarms(t *testing.T) {
	runs := 100_000
	if testing.Short() {
		runs = 10_000
	}
	for _, word := range words("JF", 8) { // the simulation asks the rule itself
		if hasEvidence(word) != ours(word) {
			t.Fatalf("%s: %t", word, hasEvidence(word))
		}
	}
	for _, test := range []struct{ base, most float64 }{{0.01, 0.06}, {0.02, 0.3}, {0.05, 3}} {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a simulation that is the same in each run
		fired := 0
		for range runs {
			word := ""
			for range 100 {
				if word = next(word, test.base, random); hasEvidence(word) {
					fired++
					break
				}
			}
		}
		rate := 100 * float64(fired) / float64(runs)
		t.Logf("%.0f %% of joins fail without a bad version: %.3f false alarms in 100 pools", 100*test.base, rate)
		if rate > test.most {
			t.Errorf("at a base rate of %g: %.3f, want %g at most", test.base, rate, test.most)
		}
	}
}

// next appends a judged node, of which the share bad fails, and keeps the last six.
func next(word string, bad float64, random *rand.Rand) string {
	letter := "J"
	if random.Float64() < bad {
		letter = "F"
	}
	return (word + letter)[max(0, len(word)-5):]
}

// TestNodesUntilRollback: the average number of nodes that a bad version costs.
func TestNodesUntilRollback(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a simulation that is the same in each run
	for _, test := range []struct{ bad, least, most float64 }{{1, 2, 2}, {0.9, 2, 2.5}, {0.7, 2.5, 4}, {0.5, 4, 8}} {
		const runs = 20_000
		nodes := 0
		for range runs {
			for word := ""; !hasEvidence(word); nodes++ {
				word = next(word, test.bad, random)
			}
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

// TestAYoungNodeSettlesNothing: joined nodes of the older version confirm the suspect only if older than the suspect's
// nodes at their failure.
func TestAYoungNodeSettlesNothing(t *testing.T) {
	for _, test := range []struct {
		minutes float64
		word    string
		want    Action
	}{{10, "J", Nothing}, {20, "J", Nothing}, {22, "J", ConfirmBad}, {10, "F", ClearSuspect}} {
		f := pool("")
		f.Current, f.Suspect, f.LastRollback = f.Prior, f.Current, noon.Add(-time.Hour)
		f.Joins = joined(f.Current, test.word, noon.Add(-time.Duration((test.minutes+1)*float64(time.Minute))))
		for _, born := range []float64{-200, -190} {
			f.Joins = append(f.Joins, Join{Node: "s", Version: f.Suspect, Running: minute(born), Outcome: Failed, OverdueSince: minute(born + 20)})
		}
		if got := Decide(f); got.Do != test.want || got.Do == Nothing && got.State != Suspected {
			t.Errorf("%s, %g minutes old: %s, %s: %s", test.word, test.minutes, got.Do, got.State, got.Message)
		}
	}
}

// TestNameOfAnInstance: a message names a node, or the last word of the long ID of its instance.
func TestNameOfAnInstance(t *testing.T) {
	for id, want := range map[string]string{
		"azure:///subscriptions/s/virtualMachines/4": "instance 4", "aws:///eu-central-1a/i-0ff1": "instance i-0ff1", "x": "instance x",
	} {
		if got := (Join{Instance: cloud.InstanceID(id)}).name(); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if got := (Join{Node: "node-1", Instance: "azure:///4"}).name(); got != "node-1" {
		t.Error(got)
	}
}
