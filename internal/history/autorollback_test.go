package history

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var midday = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func clock(hours int) string {
	return midday.Add(time.Duration(hours) * time.Hour).Format(time.RFC3339)
}

// withTags returns a version of a capture with additional tags.
func withTags(version string, tags map[string]string) cloud.Image {
	i := ours(version)
	maps.Copy(i.Tags, tags)
	return i
}

// TestReturns has a row for each state of a return.
func TestReturns(t *testing.T) {
	base := map[string]string{cloud.TagSuspect: "nodes do not join", cloud.TagRolledBackAt: clock(0), cloud.TagRolledBackTo: v1}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(base)
		for k, v := range more {
			if all[k] = v; v == "" {
				delete(all, k)
			}
		}
		return all
	}
	for name, test := range map[string]struct {
		tags       map[string]string
		arrived    string
		want       *AutoRollback
		unfinished bool
		says       string
	}{
		"nothing":                {map[string]string{}, "", nil, false, ""},
		"a rollback by a person": {map[string]string{cloud.TagQuarantined: "bad", cloud.TagRolledBackTo: v1}, "", nil, false, ""},
		"begun": {base, "", &AutoRollback{Version: v2, To: v1, At: midday, Why: "nodes do not join", Open: true}, true,
			"the next node of the pool will show"},
		"arrived long ago": {base, clock(-24), &AutoRollback{Version: v2, To: v1, At: midday, Why: "nodes do not join", Open: true}, true,
			"the next node of the pool will show"},
		"arrived": {base, clock(0), &AutoRollback{Version: v2, To: v1, At: midday, Why: "nodes do not join", Open: true, Arrived: true},
			false, "the next node of the pool will show"},
		"confirmed bad": {with(map[string]string{cloud.TagQuarantined: "join health: so"}), clock(0),
			&AutoRollback{Version: v2, To: v1, At: midday, Why: "nodes do not join", Bad: true, Arrived: true}, false, "the version is quarantined"},
		"cleared": {with(map[string]string{cloud.TagSuspect: "", cloud.TagRolledBackTo: ""}), clock(0),
			&AutoRollback{Version: v2, At: midday}, false, "the image was not the cause"},
		"acknowledged": {with(map[string]string{cloud.TagSuspect: "", cloud.TagRolledBackAt: clock(0) + " " + clock(3)}), clock(0),
			&AutoRollback{Version: v2, To: v1, At: midday, Acknowledged: midday.Add(3 * time.Hour), Arrived: true}, false, ""},
		"another tool's tag": {map[string]string{cloud.TagSuspect: "I do not like it"}, "",
			&AutoRollback{Version: v2, Why: "I do not like it", Open: true}, false, "is marked as suspect"},
		"no time at all": {with(map[string]string{cloud.TagRolledBackAt: "yesterday"}), "",
			&AutoRollback{Version: v2, To: v1, Why: "nodes do not join", Open: true}, false, "is marked as suspect"},
	} {
		t.Run(name, func(t *testing.T) {
			older := ours(v1)
			if test.arrived != "" {
				older.Tags[cloud.TagPromotedAt] = test.arrived
			}
			images := []cloud.Image{older, withTags(v2, test.tags)}
			all := AutoRollbacks(images)
			if test.want == nil {
				if len(all) > 0 || Unacknowledged(images) != nil {
					t.Fatalf("%+v", all)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("%+v", all)
			}
			if diff := cmp.Diff(*test.want, all[0]); diff != "" {
				t.Error(diff)
			}
			if all[0].Unfinished() != test.unfinished {
				t.Errorf("unfinished: %t", all[0].Unfinished())
			}
			waits := Unacknowledged(images)
			if (waits == nil) != (test.says == "") {
				t.Fatalf("waits: %+v", waits)
			}
			if waits != nil {
				if refusal := waits.Refusal("pool1", cloud.Recipe{Version: v1}); refusal.Reason != RolledBack ||
					!strings.Contains(refusal.Message, test.says) || !strings.Contains(refusal.Message, "kamino acknowledge pool1") {
					t.Errorf("%+v", refusal)
				}
			}
			if h := historyOf(v1, images...); h.Find(v2).usable() != (test.want.Why == "") {
				t.Errorf("it is usable: %t", h.Find(v2).usable())
			}
		})
	}
}

// TestDeletedVersionIsNoAutoRollback: a version that is being deleted is no return, because the version cannot be used.
func TestDeletedVersionIsNoAutoRollback(t *testing.T) {
	gone := withTags(v2, map[string]string{cloud.TagSuspect: "why", cloud.TagRolledBackAt: clock(0)})
	gone.State = cloud.Deleting
	if all := AutoRollbacks([]cloud.Image{gone}); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestLatestAutoRollbackComesFirst(t *testing.T) {
	images := []cloud.Image{
		withTags(v1, map[string]string{cloud.TagRolledBackAt: clock(-48) + " " + clock(-47)}),
		withTags(v2, map[string]string{cloud.TagRolledBackAt: clock(-24)}),
		withTags(v3, map[string]string{cloud.TagRolledBackAt: clock(0), cloud.TagSuspect: "why"}),
	}
	var order []string
	for _, r := range AutoRollbacks(images) {
		order = append(order, r.Version)
	}
	if !slices.Equal(order, []string{v3, v2, v1}) || Unacknowledged(images).Version != v3 {
		t.Errorf("%v, %+v", order, Unacknowledged(images))
	}
}

// TestSince: joins count from the latest event that settled earlier joins.
func TestSince(t *testing.T) {
	for name, test := range map[string]struct {
		tags map[string]string
		want time.Time
	}{
		"never left":   {nil, time.Time{}},
		"come to":      {map[string]string{cloud.TagPromotedAt: clock(1)}, midday.Add(time.Hour)},
		"acknowledged": {map[string]string{cloud.TagRolledBackAt: clock(0) + " " + clock(2)}, midday.Add(2 * time.Hour)},
		"both": {map[string]string{cloud.TagRolledBackAt: clock(0) + " " + clock(2), cloud.TagPromotedAt: clock(5)},
			midday.Add(5 * time.Hour)},
		"both, the other order": {map[string]string{cloud.TagRolledBackAt: clock(0) + " " + clock(7), cloud.TagPromotedAt: clock(5)},
			midday.Add(7 * time.Hour)},
		"not acknowledged": {map[string]string{cloud.TagRolledBackAt: clock(0)}, time.Time{}},
		"nonsense":         {map[string]string{cloud.TagPromotedAt: "soon"}, time.Time{}},
	} {
		if got := Since([]cloud.Image{ours(v1), withTags(v2, test.tags)}, v2); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if got := Since([]cloud.Image{withTags(v2, map[string]string{cloud.TagPromotedAt: clock(1)})}, v1); !got.IsZero() {
		t.Errorf("another version's: %s", got)
	}
}

// TestBeginAutoRollback tests the tags and the refusals.
func TestBeginAutoRollback(t *testing.T) {
	now := midday.Add(300 * time.Millisecond)
	r, refusals := historyOf(v3, ours(v1), ours(v2), ours(v3)).RollBackAutomatically(v2, "two nodes", now)
	want := map[string]string{cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0), cloud.TagRolledBackTo: v2}
	if refusals != nil || r.From != v3 || r.To != v2 || r.Done || !maps.Equal(r.Tags, want) {
		t.Errorf("%+v, %v", r, refusals)
	}
	suspect := withTags(v2, map[string]string{cloud.TagSuspect: "why", cloud.TagRolledBackAt: clock(0)})
	bad := withTags(v2, map[string]string{cloud.TagQuarantined: "why"})
	for name, test := range map[string]struct {
		h      History
		to     string
		reason string
	}{
		"to a quarantined one":       {historyOf(v3, ours(v1), bad, ours(v3)), v2, VersionQuarantined},
		"to a suspect":               {historyOf(v3, ours(v1), suspect, ours(v3)), v2, RolledBack},
		"to itself":                  {historyOf(v3, ours(v1), ours(v3)), v3, VersionNeeded},
		"to nothing that there is":   {historyOf(v3, ours(v1), ours(v3)), v2, VersionNotFound},
		"from an image that is gone": {historyOf(v3, ours(v1)), v1, RecipeNotOurs},
		"from a generic image":       {historyOf("", ours(v1)), v1, RecipeNotOurs},
	} {
		if r, refusals := test.h.RollBackAutomatically(test.to, "why", now); len(refusals) == 0 || refusals[0].Reason != test.reason {
			t.Errorf("%s: %+v, %v", name, r, refusals)
		}
	}
}

// TestSuspectsAreNotUsed: before the acknowledgement, neither a promotion nor a rollback uses a suspect.
func TestSuspectsAreNotUsed(t *testing.T) {
	suspect := withTags(v2, map[string]string{cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0)})
	h := historyOf(v3, ours(v1), suspect, ours(v3))
	if _, refusals := h.Promote(v2); len(refusals) != 1 || refusals[0].Reason != RolledBack ||
		!strings.Contains(refusals[0].Message, "`kamino acknowledge pool1`") {
		t.Errorf("%v", refusals)
	}
	if _, refusals := h.Rollback(v2, "why"); len(refusals) != 1 || refusals[0].Reason != RolledBack {
		t.Errorf("%v", refusals)
	}
	if h.Prior != v1 {
		t.Errorf("a rollback goes to %s", h.Prior)
	}
	m, refusals := h.Unquarantine(v2)
	if refusals != nil || m.Done || m.Tags[cloud.TagSuspect] != "" || len(m.Tags) != 3 {
		t.Errorf("%+v, %v", m, refusals)
	}
}

// TestRolledBackVersionIsNotRetired before the acknowledgement, because the tags that stop captures would
// be lost.
func TestRolledBackVersionIsNotRetired(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"suspect":       {cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0)},
		"quarantined":   {cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0), cloud.TagQuarantined: "bad"},
		"not the cause": {cloud.TagRolledBackAt: clock(0)},
	} {
		p := &pool{images: []cloud.Image{ours(v1), withTags(v2, tags), ours(v3), ours("2026.03.04")}, current: "2026.03.04"}
		if _, refusals := p.history().Retire(v2); len(refusals) != 1 || refusals[0].Reason != RolledBack ||
			!strings.Contains(refusals[0].Remedy, "`kamino acknowledge pool1`") {
			t.Errorf("%s: %v", name, refusals)
		}
		if v := p.history().Find(v2); !v.Keep || v.Suspect != "" && !strings.Contains(v.Why, "`kamino acknowledge pool1`") {
			t.Errorf("%s: the next capture keeps it: %t, because %s", name, v.Keep, v.Why)
		}
		for _, m := range p.history().Acknowledge(midday).Marks {
			p.tag(m.Version, m.Tags)
		}
		if _, refusals := p.history().Retire(v2); refusals != nil {
			t.Errorf("%s, and acknowledged: %v", name, refusals)
		}
	}
}

// TestAutoRollbackFromBeginToEnd tests all sequences, one write at a time. Every intermediate read has the same
// target. After the acknowledgement, nothing stops captures.
func TestAutoRollbackFromBeginToEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{images: []cloud.Image{ours(v1), ours(v2), ours(v3)}, current: v3}
		back, refusals := p.history().RollBackAutomatically(v2, "two nodes", midday)
		if refusals != nil {
			t.Fatal(refusals)
		}
		p.tag(back.From, back.Tags)
		again, refusals := p.history().RollBackAutomatically(rapid.SampledFrom([]string{v1, v2, ""}).Draw(t, "thought better"),
			"three nodes", midday.Add(time.Hour))
		if refusals != nil || again.To != v2 || !maps.Equal(again.Tags, back.Tags) {
			t.Fatalf("begun as %+v, gone on with as %+v, %v", back, again, refusals)
		}
		p.current = v2
		began := Unacknowledged(p.images)
		if began == nil || !began.Unfinished() {
			t.Fatalf("%+v", began)
		}
		arrive := p.history().Arrive(*began)
		p.tag(arrive.Version, arrive.Tags)
		if Unacknowledged(p.images).Unfinished() || !Since(p.images, v2).Equal(midday) {
			t.Fatalf("%+v", Unacknowledged(p.images))
		}
		guilty := rapid.Bool().Draw(t, "guilty")
		switch verdict := rapid.IntRange(0, 1).Draw(t, "judged"); {
		case verdict == 0:
			guilty = false
		case guilty:
			p.tag(v3, p.history().ConfirmBad(v3, "node n has joined").Tags)
		default:
			p.tag(v3, p.history().ClearSuspect(v3).Tags)
		}
		a := p.history().Acknowledge(midday.Add(2 * time.Hour))
		if a.Done || len(a.Marks) != 1 || len(a.AutoRollbacks) != 1 {
			t.Fatalf("%+v", a)
		}
		p.tag(a.Marks[0].Version, a.Marks[0].Tags)
		h := p.history()
		if Unacknowledged(p.images) != nil || !h.Acknowledge(midday.Add(3*time.Hour)).Done {
			t.Fatalf("%+v", h.AutoRollbacks)
		}
		if h.Find(v3).usable() == guilty {
			t.Fatalf("guilty %t, and usable %t", guilty, h.Find(v3).usable())
		}
		if !h.AutoRollbacks[0].At.Equal(midday) || !Since(p.images, v3).Equal(midday.Add(2*time.Hour)) {
			t.Fatalf("it is forgotten when the pool rolled back: %+v", h.AutoRollbacks)
		}
	})
}

func TestShort(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("ä", MaxReason), strings.Repeat("ä", MaxReason+1)} {
		got := Short(text)
		if n := utf8.RuneCountInString(got); n > MaxReason || n < min(utf8.RuneCountInString(text), MaxReason) ||
			!strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Errorf("%d characters became %d", utf8.RuneCountInString(text), n)
		}
	}
}

// TestLastRollback reads the tags of both versions, and ignores deleted versions.
func TestLastRollback(t *testing.T) {
	from, to := map[string]string{cloud.TagRolledBackAt: clock(0) + " " + clock(3)}, map[string]string{cloud.TagPromotedAt: clock(0)}
	gone := func(image cloud.Image) cloud.Image { image.State = cloud.Deleting; return image }
	for name, test := range map[string]struct {
		images []cloud.Image
		want   time.Time
	}{
		"never":           {[]cloud.Image{withTags(v1, nil)}, time.Time{}},
		"both":            {[]cloud.Image{withTags(v1, to), withTags(v2, from)}, midday},
		"one was retired": {[]cloud.Image{withTags(v1, to)}, midday},
		"the other was":   {[]cloud.Image{withTags(v2, from)}, midday},
		"goes":            {[]cloud.Image{gone(withTags(v1, to)), gone(withTags(v2, from))}, time.Time{}},
		"on its way":      {[]cloud.Image{withTags(v1, map[string]string{cloud.TagPromotedAt: clock(-48)}), withTags(v2, from)}, midday},
		"a user's words":  {[]cloud.Image{withTags(v1, map[string]string{cloud.TagPromotedAt: "lately"})}, time.Time{}},
	} {
		if got := LastRollback(test.images); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
