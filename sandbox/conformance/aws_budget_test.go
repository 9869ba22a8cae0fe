package conformance

import (
	"os"
	"path"
	"regexp"
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
func (w *amazonGroup) stage() stage {
	donor := path.Base(string(w.ids[0]))
	return stage{t: w.T, p: cloud.New(w.disks, w.recipes), pool: w.pool, poolName: awsGroup, profile: v1alpha1.ProfileEKS, donor: w.ids[0], peer: w.ids[1], requests: w.server,
		isOn: func() bool { return w.fleet.Power(donor) == fleet.On }, powerOff: func() { w.must(w.server.Shutdown(w.Context(), donor)) }}
}

// Requests of the first capture of a process, and of a later capture. Repeats mostly read the snapshot and the donor.
var (
	firstAWSCapture = budget{reads: 32, writes: 8, repeats: 57}
	laterAWSCapture = budget{reads: 30, writes: 8, repeats: 57}
)

// TestRequestsOfACaptureOnAWS has the engine capture a node of a group twice at AWS's own latencies. The page on requests
// lists the requests of the first capture, with reasons.
func TestRequestsOfACaptureOnAWS(t *testing.T) {
	settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}}
	settings.Generalize.Profile = v1alpha1.ProfileEKS
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(day.Add(-20 * time.Hour)))
		w := groupOf(t, startAmazonOn(t, newWire(), 0, func(c *aws.Config) { c.PageSize = 0 }), "1")
		time.Sleep(time.Until(day))
		c := newCourse(w.stage())
		if first := c.play(t.Context(), version, settings); first != firstAWSCapture {
			t.Errorf("the first capture sends %+v, not %+v", first, firstAWSCapture)
		}
		var sent []string
		for _, r := range w.server.Requests() {
			if r.Class != requestlog.Repeat {
				sent = append(sent, r.Operation)
			}
		}
		if diff := cmp.Diff(documentedRequests(t, "../../docs/reference/requests-aws.md"), sent); diff != "" {
			t.Errorf("docs/reference/requests-aws.md lists other requests (-page +sent):\n%s", diff)
		}
		time.Sleep(time.Hour)
		if later := c.play(t.Context(), version+"02", settings); later != laterAWSCapture {
			t.Errorf("a later capture sends %+v, not %+v", later, laterAWSCapture)
		}
	})
}

var documentedRequest = regexp.MustCompile("^\\| [^|]+ \\| `([A-Za-z]+)` \\|")

// documentedRequests returns the requests of the page's table.
func documentedRequests(t *testing.T, file string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if m := documentedRequest.FindStringSubmatch(line); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}
