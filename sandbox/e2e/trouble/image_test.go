package trouble

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// useUp makes the answers of a gate tell that a quota is used up.
func useUp(quota string) func(*http.Response) error {
	return func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/usages") {
			return nil
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var page map[string]any
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		items, _ := page["value"].([]any)
		for _, item := range items {
			if usage, ok := item.(map[string]any); ok && at(usage, "name", "value") == quota {
				usage["currentValue"] = usage["limit"]
			}
		}
		if raw, err = json.Marshal(page); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		r.Header.Del("Content-Length")
		return nil
	}
}

func TestQuotaIsUsedUp(t *testing.T) {
	g := newGround(t, "name=quota,nodes=2")
	g.cloudGate().alter(useUp("StandardSnapshotCount"))
	g.refuses(g.nodes[0], 3, "the quota StandardSnapshotCount of region "+sandbox.Facts().Location+" is used up", "ask Azure for more")
}

// exceeded is what Compute answers when something does not fit into a quota.
func exceeded(noun, path string) fault.Fault {
	return fault.Fault{
		Resource: noun, Operation: "put", Path: path, Status: http.StatusConflict, Code: "OperationNotAllowed",
		Message: "Operation could not be completed as it results in exceeding approved quota. Current Limit: 10, Current Usage: 10, Additional Required: 1.",
	}
}

func TestQuotaIsUsedUpWhileTheDonorIsAway(t *testing.T) {
	for name, noun := range map[string]string{"qsnapshot": "snapshot", "qversion": "version"} {
		t.Run(noun, func(t *testing.T) {
			g := newGround(t, "name="+name+",nodes=2")
			before := g.look()
			sandbox.Fault(t, exceeded(noun, g.pool.ScaleSet()))
			g.capture(g.nodes[0]).ends(t, 4, "QuotaExceeded", "exceeding approved quota", "ask Azure for a larger quota", g.pool.ScaleSet(), "was given back")
			g.givenBack(before, g.nodes[0], 1)
			g.failed("CloudRefused")
		})
	}
}

func TestImageVersionFails(t *testing.T) {
	g := newGround(t, "name=badimage,nodes=2")
	before := g.look()
	sandbox.Fault(t, fault.Fault{Resource: "version", Operation: "put", Path: g.pool.ScaleSet(), Long: true, Count: 1, Message: "The source disk could not be read."})
	capture := g.capture(g.nodes[0], today)
	capture.ends(t, 4, "the cloud could not make version ", "of pool "+g.pool.ScaleSet(), "The source disk could not be read.", "was given back")
	g.givenBack(before, g.nodes[0], 1)
	g.failed("ImageFailed")
	if removed := count(g.writes(), "version delete"); removed == 0 {
		t.Error("the failed version was never removed")
	}

	// A failure does not use the day up.
	now := g.look()
	second := g.capture(g.nodes[0], today)
	second.ends(t, 0)
	all := g.prototypes(t.Context())
	if len(all) != 2 || all[1].Name != all[0].Name+"-2" || all[1].Status.Phase != "Succeeded" {
		t.Errorf("prototypes: %+v", all)
	}
	if !strings.HasSuffix(g.image(), "/versions/"+all[0].Spec.Version) {
		t.Errorf("the recipe's image is %q", g.image())
	}
	if now.Boots[g.nodes[0]]+1 != g.look().Boots[g.nodes[0]] {
		t.Error("the donor was not booted once")
	}
	g.settled()
}

func TestSnapshotFails(t *testing.T) {
	g := newGround(t, "name=badsnap,nodes=2")
	before := g.look()
	sandbox.Fault(t, fault.Fault{Resource: "snapshot", Operation: "put", Path: g.pool.ScaleSet(), Long: true, Message: "The disk is being moved."})
	g.capture(g.nodes[0]).ends(t, 4, "the cloud could not make the snapshot of node "+g.nodes[0], "The disk is being moved.", "was given back")
	g.givenBack(before, g.nodes[0], 1)
	g.failed("SnapshotFailed")
}
