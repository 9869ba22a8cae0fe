package aws

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// recorded is a request of the aws command (2.9.19) from testdata/aws-requests.jsonl, with the status of its
// response. IDs that the cloud generates stand in braces.
type recorded struct {
	Command string `json:"command"`
	Service string `json:"service"`
	Body    string `json:"body"`
	Status  int    `json:"status"`
}

// sendSigned sends a query without the SDK.
func (c *testCloud) sendSigned(t *testing.T, service, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.web.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	keys := sdk.Credentials{AccessKeyID: testKey, SecretAccessKey: c.config.Users[0].Secret}
	if err := signer.NewSigner().SignHTTP(t.Context(), keys, r, sum(body), service, testRegion, time.Now()); err != nil {
		t.Fatal(err)
	}
	resp, err := c.web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestReplayAws replays the aws command's requests of a whole capture, and requires the recorded statuses.
func TestReplayAws(t *testing.T) {
	c := newCloud(t, nil)
	file, err := os.Open("testdata/aws-requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	made := map[string]string{"{subnet}": c.world.config.Subnets[0].ID}
	// The first ID of each kind in a response replaces the recorded ID in later requests.
	first := map[string]*regexp.Regexp{
		"{template}": regexp.MustCompile(`<launchTemplateId>(lt-\w+)<`), "{instance}": regexp.MustCompile(`<InstanceId>(i-\w+)<`),
		"{volume}": regexp.MustCompile(`<volumeId>(vol-\w+)<`), "{snapshot}": regexp.MustCompile(`<snapshotId>(snap-\w+)<`),
	}
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		body := r.Body
		for name, id := range made {
			body = strings.ReplaceAll(body, name, id)
		}
		status, answer := c.sendSigned(t, r.Service, body)
		if status != r.Status {
			t.Fatalf("request %d, %s, answered %d, want %d: %s", n+1, r.Command, status, r.Status, answer)
		}
		for name, pattern := range first {
			if found := pattern.FindStringSubmatch(answer); found != nil && made[name] == "" {
				made[name] = found[1]
			}
		}
		if found := regexp.MustCompile(`<imageId>(ami-\w+)<`).FindStringSubmatch(answer); found != nil && r.Command == "aws ec2 register-image" {
			made["{image}"] = found[1]
		}
		if strings.HasPrefix(r.Command, "aws ec2 stop-") {
			c.fleet.WriteFile(fleet.DiskID(root(c.currentInstance(t, made["{instance}"]))), "made", "by hand")
		}
		c.advance(10 * time.Minute)
	}
	if n != 20 {
		t.Errorf("%d requests were replayed, want 20", n)
	}
	c.wantLifecycles(t, "3: InService InService InService")
	copies := 0
	for _, i := range c.currentGroup(t).Instances {
		got := c.currentInstance(t, *i.InstanceId)
		if *got.ImageId == made["{image}"] && c.fleet.File(fleet.DiskID(root(got)), "made") == "by hand" {
			copies++
		}
	}
	if copies != 1 {
		t.Errorf("%d nodes are copies of the donor, want the one that came behind the promotion", copies)
	}
}
