package azure

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

// recorded is a request of the az command from testdata/az-requests.jsonl, with the status of its response.
type recorded struct {
	Command       string          `json:"command"`
	Kind          string          `json:"kind"`
	Method        string          `json:"method"`
	Path          string          `json:"path"`
	Query         string          `json:"query"`
	Body          json.RawMessage `json:"body"`
	Status        int             `json:"status"`
	LongOperation bool            `json:"longOperation"`
}

var recordedDisk = regexp.MustCompile(`/disks/[^"]*_OsDisk_1_[0-9a-f]{32}`)

// TestReplayAz replays the az command's requests of a whole capture, and requires the recorded statuses. Generated
// names of operations and disks are replaced by the names of this cloud.
func TestReplayAz(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.ZRS = true })
	c.pool(t, 3, nil)
	token := c.token(t)
	disk := *c.instances(t)[1].Properties.StorageProfile.OSDisk.ManagedDisk.ID

	file, err := os.Open("testdata/az-requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	operation, n := "", 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		path := r.Path + "?" + r.Query
		if r.Kind == "poll" {
			c.await(t, token, operation)
			path = operation
			if strings.Contains(r.Query, "monitor=true") {
				path += "&monitor=true"
			}
		}
		body := string(r.Body)
		if body != "" {
			body = recordedDisk.ReplaceAllString(body, disk[strings.Index(disk, "/disks/"):])
		}
		resp, answer := c.raw(t, token, r.Method, path, body)
		if resp.StatusCode != r.Status {
			t.Fatalf("request %d of %q: %s %s answered %d, want %d: %v", n+1, r.Command, r.Method, path, resp.StatusCode, r.Status, answer)
		}
		where := resp.Header.Get("Azure-AsyncOperation")
		if r.LongOperation != (where != "") {
			t.Errorf("request %d of %q: long operation is %v, want %v", n+1, r.Command, where != "", r.LongOperation)
		}
		if where == "" {
			continue
		}
		u, err := url.Parse(where)
		if err != nil {
			t.Fatal(err)
		}
		operation = u.RequestURI()
		if r.Command == "az vmss start" {
			c.await(t, token, operation) // az ran with --no-wait
		}
	}
	if n != 53 {
		t.Errorf("%d requests were replayed, want 53", n)
	}
	c.await(t, token, operation)
	all := c.instances(t)
	if len(all) != 4 {
		t.Fatalf("the pool has %d instances after growing by one, want 4", len(all))
	}
	if got, want := *all[3].Properties.StorageProfile.ImageReference.ExactVersion, "2026.11.21"; got != want {
		t.Errorf("the new instance was built from %s, want %s", got, want)
	}
}

// await polls an operation until its end and requires success.
func (c *testCloud) await(t *testing.T, token, operation string) {
	t.Helper()
	for {
		_, answer := c.raw(t, token, "GET", operation, "")
		switch answer["status"] {
		case statusInProgress:
		case statusSucceeded:
			return
		default:
			t.Fatalf("operation ended as %v", answer)
		}
	}
}
