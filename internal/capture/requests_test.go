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

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// budget is the cost of a capture in requests.
type budget struct{ passes, cloud, server int }

// documentedRequest is a row of the page on requests to the API server: request, count and reason.
var documentedRequest = regexp.MustCompile("^\\| `([a-z]+ [a-z/]+)` \\| ([0-9]+) \\| .+ \\|$")

// documented are the requests of the page.
func documented(t *testing.T) map[string]int {
	t.Helper()
	page, err := os.ReadFile("../../docs/contribute/requests-api-server.md")
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
	s.schedule = memory.NewSchedule(nil)
	p := s.play(func(int) { b.passes++ })
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	toCloud, toServer := map[string]int{}, map[string]int{}
	for _, call := range s.calls() {
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
		t.Errorf("docs/contribute/requests-api-server.md lists other requests (-page +sent):\n%s", diff)
	}
	if limit := (budget{passes: 30, cloud: 95, server: 150}); have.passes > limit.passes || have.cloud > limit.cloud || have.server > limit.server {
		t.Errorf("a capture costs %+v, and at most %+v", have, limit)
	}
}
