package conformance

import (
	"errors"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// stage returns the group.
func (w *amazonGroup) stage() captureEnv {
	donor := path.Base(string(w.ids[0]))
	return captureEnv{t: w.T, p: cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)), pool: w.pool, poolName: awsGroup, profile: v1alpha1.ProfileEKS, donor: w.ids[0], peer: w.ids[1], requests: w.server,
		isOn: func() bool { return w.fleet.Power(donor) == fleet.On }, powerOff: func() { w.must(w.server.Shutdown(w.Context(), donor)) }}
}

const awsRequests = "../../docs/contribute/requests-aws.md"

// mostOnAWS is the number of requests of a capture on AWS.
const mostOnAWS = 150

// TestRequestsOfACaptureOnAWS has the engine capture a node of a group twice at AWS's own latencies.
func TestRequestsOfACaptureOnAWS(t *testing.T) {
	settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}}
	settings.Generalize.Profile = v1alpha1.ProfileEKS
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(day.Add(-20 * time.Hour)))
		w := groupOf(t, startAmazonOn(t, newWire(), 0, func(c *aws.Config) { c.PageSize = 0 }), "1")
		time.Sleep(time.Until(day))
		c := newCourse(w.stage())
		if first := c.play(t.Context(), version, settings); first.all() > mostOnAWS {
			t.Errorf("the first capture sends %+v, more than %d", first, mostOnAWS)
		}
		wantDocumented(t, awsRequests, inPlace, w.server.Requests(), func(r requestlog.Request) string { return r.Operation })
		time.Sleep(time.Hour)
		if later := c.play(t.Context(), version+"02", settings); later.all() > mostOnAWS {
			t.Errorf("a later capture sends %+v, more than %d", later, mostOnAWS)
		}
	})
}

// TestRequestsOfACopyOnAWS has the engine capture a node of a group by copy. The donor stays as it is, and nothing is left but the image.
func TestRequestsOfACopyOnAWS(t *testing.T) {
	settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}, Donor: v1alpha1.DonorSettings{Method: v1alpha1.MethodCopy}}
	settings.Generalize.Profile = v1alpha1.ProfileEKS
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(day.Add(-20 * time.Hour)))
		w := groupOf(t, startAmazonOn(t, newWire(), 0, func(c *aws.Config) { c.PageSize = 0 }), "1")
		time.Sleep(time.Until(day))
		stage := w.stage()
		stage.powerOff = func() { t.Error("the donor was generalized in place") }
		c := newCourse(stage)
		if sent := c.play(t.Context(), version, settings); sent.all() > mostOfACopy {
			t.Errorf("the capture sends %+v, more than %d", sent, mostOfACopy)
		}
		wantDocumented(t, awsRequests, byCopy, w.server.Requests(), func(r requestlog.Request) string { return r.Operation })
		if !stage.isOn() {
			t.Error("the donor is off")
		}
		p := stage.p
		workshops, err := p.Workshops(t.Context(), stage.pool)
		copies, copyErr := p.Copies(t.Context(), stage.pool)
		w.must(errors.Join(err, copyErr))
		if len(workshops)+len(copies) > 0 {
			t.Errorf("left behind: %+v %+v", workshops, copies)
		}
	})
}

// mostOfACopy is the number of requests of a capture by copy on AWS.
const mostOfACopy = 250

// Methods of captures, as pages name them.
const inPlace, byCopy = "in place", "by copy"

// documentedRequest is a row of the table of requests, and countedRequest a row of the table that counts them by method.
var (
	documentedRequest = regexp.MustCompile("^\\| `([A-Za-z ]+)` \\| [a-z, ]+ \\| (only |" + inPlace + ": |" + byCopy + ": )?")
	countedRequest    = regexp.MustCompile("^\\| `([A-Za-z ]+)` \\| ([0-9]+) \\| ([0-9]+) \\|$")
)

// wantDocumented compares the kinds of requests of a capture with the table of a page, and their numbers with the table that counts
// them. Rows with "only" need not be sent, and rows of another method must not.
func wantDocumented(t *testing.T, page, method string, requests []requestlog.Request, name func(requestlog.Request) string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	documented, sent, counts := map[string]bool{}, map[string]bool{}, map[string]int{}
	counted := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if m := documentedRequest.FindStringSubmatch(line); m != nil && (m[2] == "" || m[2] == method+": ") {
			documented[m[1]] = true
		}
		if m := countedRequest.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			column := map[string]string{inPlace: m[2], byCopy: m[3]}[method]
			if n, _ := strconv.Atoi(column); n > 0 {
				counted[m[1]] = n
			}
		}
	}
	for _, r := range requests {
		if n := name(r); n != "" {
			sent[n] = true
			counts[n]++
		}
	}
	if diff := cmp.Diff(documented, sent); diff != "" {
		t.Errorf("%s lists other requests (-page +sent):\n%s", page, diff)
	}
	if diff := cmp.Diff(counted, counts); diff != "" && len(counted) > 0 {
		t.Errorf("%s counts other requests %s (-page +sent):\n%s", page, method, diff)
	}
}
