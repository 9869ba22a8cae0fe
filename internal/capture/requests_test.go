package capture

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// budget is the cost of a capture in requests. A higher number fails; write a lower number down here.
type budget struct{ passes, cloud, server int }

// documentedRequest is a row of the page on requests to the API server: request, count and reason.
var documentedRequest = regexp.MustCompile("^\\| `([a-z]+ [a-z/]+)` \\| ([0-9]+) \\| .+ \\|$")

// documented are the requests of the page.
func documented(t *testing.T) map[string]int {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/requests-api-server.md")
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{}
	for line := range strings.Lines(string(page)) {
		if m := documentedRequest.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			requests[m[1]], err = strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return requests
}

// serverRequest is a call of the engine as the page names the request.
var serverRequest = strings.NewReplacer("prototype status", "prototypes/status", "prototype", "prototypes", "nodeorder", "nodeorders", "reviews/", "reviews")

// cost plays a capture, and counts its passes and its requests to the cloud and to the API server.
func (s *testEnv) cost(t *testing.T) (budget, map[string]int) {
	t.Helper()
	var b budget
	s.calls = nil
	p := s.play(func(int) { b.passes++ })
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	toCloud, toServer := map[string]int{}, map[string]int{}
	for _, call := range s.calls {
		verb, rest, _ := strings.Cut(call, " ")
		switch {
		case strings.HasPrefix(call, "look at "), strings.HasPrefix(call, "clean up "):
		case verb != strings.ToLower(verb): // EnsureSnapshot NAME
			toCloud[verb]++
			b.cloud++
		default:
			toServer[strings.TrimSuffix(serverRequest.Replace(verb+" "+rest), "/")]++
			b.server++
		}
	}
	t.Logf("%+v\ncloud:\n%s\nAPI server:\n%s", b, counts(toCloud), counts(toServer))
	return b, toServer
}

func counts(of map[string]int) string {
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, fmt.Sprintf("%5d %s", of[what], what))
	}
	return strings.Join(lines, "\n")
}

// TestRequestsOfACapture holds what a capture without a trial costs. Polls are part of the numbers; the clock of the test decides how many
// there are.
func TestRequestsOfACapture(t *testing.T) {
	have, toServer := inFull(t).cost(t)
	if diff := cmp.Diff(documented(t), toServer); diff != "" {
		t.Errorf("docs/reference/requests-api-server.md lists other requests (-page +sent):\n%s", diff)
	}
	if want := (budget{passes: 15, cloud: 52, server: 96}); have != want {
		t.Errorf("a capture costs %+v, not %+v", have, want)
	}
}

// TestRequestsOfATrial holds what a trial of ten minutes adds.
func TestRequestsOfATrial(t *testing.T) {
	without, _ := newTestEnv(t).decide().cost(t)
	v := trying(t, func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Trial.Soak = &metav1.Duration{Duration: 10 * time.Minute}
	})
	with, _ := v.cost(t)
	if have, want := (budget{with.passes - without.passes, with.cloud - without.cloud, with.server - without.server}), (budget{passes: 30, cloud: 26, server: 21}); have != want {
		t.Errorf("a trial adds %+v, not %+v", have, want)
	}
}

// TestNoEffectOfATrialRestsOnKeptReads: before a write to the cloud, a pass has read all facts of its decision.
func TestNoEffectOfATrialRestsOnKeptReads(t *testing.T) {
	reads := map[string][]string{
		"TagImage": {"Image", "Trial", "Pool"}, "EndTrial": {"Trial"}, "SetRecipe": {"Image", "Pool"}, "EnsureTrial": {"Image", "Snapshot", "Trials", "Pool"},
	}
	v := trying(t, func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Trial.Soak = &metav1.Duration{Duration: 4 * time.Minute}
	})
	seen, from := map[string]int{}, 0
	v.play(func(int) {
		pass := v.calls[from:]
		from = len(v.calls)
		for at, call := range pass {
			effect, _, _ := strings.Cut(call, " ")
			for _, read := range reads[effect] {
				if !slices.ContainsFunc(pass[:at], func(before string) bool { return strings.HasPrefix(before, read+" ") }) {
					t.Errorf("%s rests on %s of an earlier pass: %v", effect, read, pass)
				}
			}
			seen[effect]++
		}
	})
	for effect := range reads {
		if seen[effect] == 0 {
			t.Errorf("there was no %s", effect)
		}
	}
}
