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
func (w *amazonGroup) stage() captureEnv {
	donor := path.Base(string(w.ids[0]))
	return captureEnv{t: w.T, p: cloud.New(w.disks, w.recipes), pool: w.pool, poolName: awsGroup, profile: v1alpha1.ProfileEKS, donor: w.ids[0],
		peer: w.ids[1], requests: w.server,
		isOn: func() bool { return w.fleet.Power(donor) == fleet.On }, powerOff: func() { w.must(w.server.Shutdown(w.Context(), donor)) }}
}

// Requests of the first capture of a process, and of a later capture. Repeats mostly read the snapshot and the donor.
var (
	firstAWSCapture = budget{reads: 26, writes: 8, repeats: 48}
	laterAWSCapture = budget{reads: 26, writes: 8, repeats: 48}
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
		wantDocumented(t, "../../docs/reference/requests-aws.md", w.server.Requests(), func(r requestlog.Request) string { return r.Operation })
		time.Sleep(time.Hour)
		if later := c.play(t.Context(), version+"02", settings); later != laterAWSCapture {
			t.Errorf("a later capture sends %+v, not %+v", later, laterAWSCapture)
		}
	})
}

var documentedRequest = regexp.MustCompile("^\\| [^|]+ \\| `([A-Za-z ]+)` \\|")

// wantDocumented compares the requests of a capture, without repeats and requests without a name, with the table of a page.
func wantDocumented(t *testing.T, page string, requests []requestlog.Request, name func(requestlog.Request) string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var documented, sent []string
	for line := range strings.Lines(string(data)) {
		if m := documentedRequest.FindStringSubmatch(line); m != nil {
			documented = append(documented, m[1])
		}
	}
	for _, r := range requests {
		if n := name(r); n != "" && r.Class != requestlog.Repeat {
			sent = append(sent, n)
		}
	}
	if diff := cmp.Diff(documented, sent); diff != "" {
		t.Errorf("%s lists other requests (-page +sent):\n%s", page, diff)
	}
}
