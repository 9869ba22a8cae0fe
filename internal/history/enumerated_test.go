package history

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// kind is the state of a version of an enumerated pool.
type kind string

const (
	absent       kind = "absent"
	former       kind = "former"       // complete, older than any capture
	proven       kind = "proven"       // complete, by a capture
	unproven     kind = "unproven"     // complete, by a capture, without its proof
	confirmedBad kind = "confirmedBad" // complete, by a capture, quarantined
	making       kind = "making"
	broken       kind = "broken"
	going        kind = "going"
)

var kinds = []kind{absent, former, proven, unproven, confirmedBad, making, broken, going}

// order lists the versions of an enumerated pool, oldest first.
var order = []string{v1, v2, v3}

// enumeratedPool is one of all pools with three versions at most.
type enumeratedPool struct {
	kinds [3]kind
	// recipe is a version, "latest" for the image definition, or "" for a foreign image.
	recipe string
	// run: each version has a node. flying: a capture in flight creates a new version.
	run, flying bool
}

func (w enumeratedPool) String() string {
	return fmt.Sprintf("versions %v, recipe %q, nodes %t, in flight %t", w.kinds, w.recipe, w.run, w.flying)
}

func (w enumeratedPool) kind(version string) kind {
	if i := slices.Index(order, version); i >= 0 {
		return w.kinds[i]
	}
	return absent
}

func (w enumeratedPool) usable(version string) bool {
	return w.kind(version) == former || w.kind(version) == proven
}

func (w enumeratedPool) images() (images []cloud.Image) {
	for i, version := range order {
		made := ours(version)
		switch w.kinds[i] {
		case absent:
			continue
		case former:
			made = image(version)
		case unproven:
			delete(made.Tags, cloud.TagProof)
		case confirmedBad:
			made.Tags[cloud.TagQuarantined] = "bad"
		case making:
			made.State = cloud.Pending
		case broken:
			made.State = cloud.Failed
		case going:
			made.State = cloud.Deleting
		case proven:
		}
		images = append(images, made)
	}
	return images
}

func (w enumeratedPool) facts() Facts {
	f := Facts{Pool: cloud.Pool{ID: "p1", Name: "pool1"}, Images: w.images(), Counted: true, Keep: 2}
	switch w.recipe {
	case "":
		f.Pool.Recipe = cloud.Recipe{Image: "ubuntu"}
	case "latest":
		f.Pool.Recipe = cloud.Recipe{Image: "definition", Latest: true}
	default:
		f.Pool.Recipe = cloud.Recipe{Image: "image/" + w.recipe, Version: w.recipe}
	}
	for _, version := range order {
		if w.run {
			f.Members = append(f.Members, Member{Name: "node-" + version, BuiltFrom: version})
		}
	}
	if w.flying {
		f.Prototypes = []v1alpha1.Prototype{capturing("pool1-next", "2026.03.04")}
	}
	return f
}

// everyWorld calls judge for all worlds.
func everyWorld(t *testing.T, judge func(enumeratedPool, History) string) {
	t.Helper()
	seen := 0
	for _, a := range kinds {
		for _, b := range kinds {
			for _, c := range kinds {
				for _, recipe := range []string{"", "latest", v1, v2, v3} {
					for bits := range 4 {
						w := enumeratedPool{kinds: [3]kind{a, b, c}, recipe: recipe, run: bits&1 != 0, flying: bits&2 != 0}
						if problem := judge(w, Of(w.facts())); problem != "" {
							t.Fatalf("%s\n%s", problem, w)
						}
						seen++
					}
				}
			}
		}
	}
	if want := 8 * 8 * 8 * 5 * 4; seen != want {
		t.Errorf("%d worlds, want %d", seen, want)
	}
}

// back returns the target of a rollback, by a shorter definition.
func (w enumeratedPool) back() string {
	for i := slices.Index(order, w.recipe) - 1; i >= 0; i-- {
		if w.usable(order[i]) {
			return order[i]
		}
	}
	return ""
}

// TestEveryWorldsRollback: without a name, the target is the newest usable version before the current version. With a
// name, any usable version is allowed.
//
// A newer version that the pool leaves is quarantined if it exists.
func TestEveryWorldsRollback(t *testing.T) {
	outcomes := map[string]int{}
	everyWorld(t, func(w enumeratedPool, h History) string {
		for _, to := range append([]string{"", "2026.01.01"}, order...) {
			target, want := to, ""
			if to == "" {
				target = w.back()
			}
			switch k := w.kind(target); {
			case w.recipe == "" || w.recipe == "latest":
				want = RecipeNotOurs
			case w.flying:
				want = CaptureInFlight
			case target == "":
				want = NoPrior
			case k == absent:
				want = VersionNotFound
			case target == w.recipe:
				want = VersionNeeded
			case k == confirmedBad:
				want = VersionQuarantined
			case k == unproven:
				want = VersionUnusable
			case !w.usable(target):
				want = VersionUnusable
			}
			got, refusals := h.Rollback(to, "why")
			outcomes[want]++
			if reasons(refusals) != want {
				return fmt.Sprintf("a rollback to %q is refused for %q, want %q", to, reasons(refusals), want)
			}
			if want != "" {
				continue
			}
			there := w.kind(w.recipe) != absent && w.kind(w.recipe) != going
			if marks := there && imageversion.Compare(target, w.recipe) < 0; got.To != target || got.From != w.recipe || got.Done ||
				(len(got.Tags) > 0) != marks {
				return fmt.Sprintf("a rollback to %q is %+v, want one to %s which marks: %t", to, got, target, marks)
			}
			if nodes := w.run && w.kind(w.recipe) != absent; (len(got.Nodes) == 1) != nodes {
				return fmt.Sprintf("a rollback to %q leaves the nodes %v", to, got.Nodes)
			}
		}
		return ""
	})
	for _, outcome := range []string{
		"", RecipeNotOurs, CaptureInFlight, NoPrior, VersionNotFound, VersionNeeded, VersionQuarantined, VersionUnusable, VersionUnusable,
	} {
		if outcomes[outcome] < 50 {
			t.Errorf("only %d rollbacks come to %q", outcomes[outcome], outcome)
		}
	}
}

// TestEveryWorldsPromotion requires the same as the end of a capture: complete, proven, not quarantined, nothing in
// flight.
func TestEveryWorldsPromotion(t *testing.T) {
	promoted := 0
	everyWorld(t, func(w enumeratedPool, h History) string {
		for _, to := range order {
			want := ""
			switch k := w.kind(to); {
			case k == absent || k == going:
				want = VersionNotFound
			case k == confirmedBad:
				want = VersionQuarantined
			case k == making || k == broken:
				want = VersionUnusable
			case to == w.recipe:
			case k == unproven || k == former:
				want = VersionUnusable
			case w.flying:
				want = CaptureInFlight
			}
			got, refusals := h.Promote(to)
			if reasons(refusals) != want {
				return fmt.Sprintf("promoting %s is refused for %q, want %q", to, reasons(refusals), want)
			}
			if want != "" {
				continue
			}
			if promoted++; got.Done != (to == w.recipe) || !got.Done && (!got.RemovesBootstrap || got.Prototype != "pool1-"+to) {
				return fmt.Sprintf("promoting %s is %+v", to, got)
			}
			if got.FromVersion != h.Recipe.Version {
				return fmt.Sprintf("promoting %s leaves version %q, and the recipe names %q", to, got.FromVersion, h.Recipe.Version)
			}
		}
		return ""
	})
	if promoted < 1000 {
		t.Errorf("only %d promotions", promoted)
	}
}

// TestEveryWorldsRetirement: the current version, the rollback target and unfinished versions cannot be deleted. If the
// recipe names an image from elsewhere, each version without nodes can be deleted.
func TestEveryWorldsRetirement(t *testing.T) {
	retired := 0
	everyWorld(t, func(w enumeratedPool, h History) string {
		lost := w.kind(w.recipe) == absent // the recipe names none of the versions
		for _, name := range order {
			k, want := w.kind(name), ""
			aside := w.recipe == "" && (!w.run || k == making)
			switch {
			case k == absent:
				want = VersionNotFound
			case name == w.recipe:
				want = VersionNeeded
			case k == going:
			case lost && !aside:
				want = RecipeNotOurs
			case name == w.back():
				want = VersionNeeded
			case k == making:
				want = VersionUnusable
			}
			got, refusals := h.Retire(name)
			if reasons(refusals) != want {
				return fmt.Sprintf("retiring %s is refused for %q, want %q", name, reasons(refusals), want)
			}
			if want != "" {
				continue
			}
			if retired++; got.Version != name || got.Done != (k == going) || (len(got.Nodes) == 1) != w.run || got.Forgets && k != confirmedBad {
				return fmt.Sprintf("retiring %s is %+v", name, got)
			}
		}
		return ""
	})
	if retired < 1000 {
		t.Errorf("only %d retirements", retired)
	}
}

// TestEveryWorldsUses: current exactly if the recipe names the version; prior exactly if a rollback goes to the
// version. Current, prior, unfinished, newer and used versions stay.
func TestEveryWorldsUses(t *testing.T) {
	everyWorld(t, func(w enumeratedPool, h History) string {
		if h.Prior != w.back() {
			return fmt.Sprintf("prior is %q", h.Prior)
		}
		if len(h.Versions) != len(w.images()) ||
			!slices.IsSortedFunc(h.Versions, func(a, b Version) int { return imageversion.Compare(b.Version, a.Version) }) {
			return fmt.Sprintf("the versions are %v", h.Versions)
		}
		for _, v := range h.Versions {
			k := w.kind(v.Version)
			want := Older
			switch newer := slices.Contains(order, w.recipe) && v.Version > w.recipe; {
			case v.Version == w.recipe:
				want = Current
			case k == making || k == going:
				want = InProgress
			case k == broken:
				want = Failed
			case k == confirmedBad:
				want = Quarantined
			case newer:
				want = Newer
			case v.Version == w.back():
				want = Prior
			}
			if v.Use != want {
				return fmt.Sprintf("version %s is called %s, want %s", v.Version, v.Use, want)
			}
			if stays := v.Use == Current || v.Version == w.back() || v.Use == InProgress && k == making; stays && !v.Keep {
				return fmt.Sprintf("version %s (%s) would be retired: %s", v.Version, v.Use, v.Why)
			}
			if v.Why == "" || (len(v.Nodes) == 1) != w.run {
				return fmt.Sprintf("version %s: %q, nodes %v", v.Version, v.Why, v.Nodes)
			}
		}
		return ""
	})
}

var command = regexp.MustCompile("`kamino ([^`]+)`")

// commands are those that a sentence names.
func commands(sentence string) (all []string) {
	for _, found := range command.FindAllStringSubmatch(sentence, -1) {
		all = append(all, found[1])
	}
	return all
}

// run returns what is in the way of a command.
func (h History) run(t *testing.T, line string) (refusals []cloud.Refusal) {
	t.Helper()
	words := strings.Fields(line)
	version := words[len(words)-1]
	switch verb := words[0]; {
	case verb == "cancel", verb == "acknowledge": // nothing refuses these
	case verb == "restore":
		refusals = h.RefuseRestore()
	case words[1] != "pool1":
		t.Fatalf("%q is of no pool", line)
	case verb == "rollback" && len(words) == 2:
		_, refusals = h.Rollback("", "why")
	case verb == "rollback" && len(words) == 4 && words[2] == "--to":
		_, refusals = h.Rollback(version, "why")
	case verb == "promote":
		_, refusals = h.Promote(version)
	case verb == "delete-version":
		_, refusals = h.Retire(version)
	case verb == "quarantine":
		_, refusals = h.Quarantine(version, "why")
	case verb == "unquarantine":
		_, refusals = h.Unquarantine(version)
	default:
		t.Fatalf("the effect of %q is unknown", line)
	}
	return refusals
}

// deadEnd follows the commands of a refusal, and of what refuses these, and returns the first that leads in a circle.
func (h History) deadEnd(t *testing.T, refusals []cloud.Refusal, path ...string) string {
	t.Helper()
	for _, refusal := range refusals {
		for _, line := range commands(refusal.Message) {
			if slices.Contains(path, line) {
				return strings.Join(append(path, line), " → ")
			}
			if circle := h.deadEnd(t, h.run(t, line), append(slices.Clone(path), line)...); circle != "" {
				return circle
			}
		}
	}
	return ""
}

// TestNoRemedyLeadsInACircle: whatever is refused in whatever pool, the commands that the sentence names are not refused
// with one that leads back to the first.
func TestNoRemedyLeadsInACircle(t *testing.T) {
	followed := 0
	everyWorld(t, func(w enumeratedPool, h History) string {
		var lines []string
		for _, version := range order {
			for _, verb := range []string{"promote pool1 ", "delete-version pool1 ", "quarantine pool1 ", "unquarantine pool1 ", "rollback pool1 --to "} {
				lines = append(lines, verb+version)
			}
		}
		for _, line := range append(lines, "rollback pool1", "restore pool1") {
			refusals := h.run(t, line)
			if len(refusals) > 0 {
				followed++
			}
			for _, r := range refusals {
				if r.Remedy == "" || !strings.HasSuffix(r.Message, r.Remedy) {
					return fmt.Sprintf("%s is refused without a remedy: %+v", line, r)
				}
			}
			if circle := h.deadEnd(t, refusals, line); circle != "" {
				return circle
			}
		}
		return ""
	})
	if followed < 10000 {
		t.Errorf("only %d refusals", followed)
	}
}

// TestEveryWorldsWayOut: where the version that the recipe names is gone, the command that the sentence names works, once
// no capture is in flight.
func TestEveryWorldsWayOut(t *testing.T) {
	gone, led := 0, 0
	everyWorld(t, func(w enumeratedPool, h History) string {
		k := w.kind(w.recipe)
		want := w.recipe != "" && (k == absent || k == going || k == broken)
		if w.recipe == "latest" {
			want = !slices.ContainsFunc(w.images(), func(i cloud.Image) bool { return i.Version == "" })
		}
		if (h.Gone != nil) != want {
			return fmt.Sprintf("gone: %+v", h.Gone)
		}
		if h.Gone == nil {
			return ""
		}
		gone++
		lines := commands(h.Gone.Message)
		for _, line := range lines {
			led++
			if refusals := h.run(t, line); len(refusals) > 0 && reasons(refusals) != CaptureInFlight {
				return fmt.Sprintf("%s: it is refused: %+v", h.Gone.Message, refusals)
			}
		}
		if way := w.recipe != "latest" && slices.ContainsFunc(order, func(v string) bool { return v != w.recipe && w.usable(v) }); way && len(lines) != 1 {
			return h.Gone.Message
		}
		return ""
	})
	if gone < 1000 || led < 500 {
		t.Errorf("%d pools whose version is gone, %d ways out", gone, led)
	}
}
