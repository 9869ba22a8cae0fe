package azure

import (
	"net/http"
	"strings"
	"testing"
)

// TestVersionPutKeepsOmittedProperties: a PUT that changes one setting of an existing version needs no source, and
// changes nothing else.
func TestVersionPutKeepsOmittedProperties(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	id, token := c.publish(t, testVersion), c.token(t)
	path := id + "?api-version=2024-03-03"
	_, before := c.raw(t, token, http.MethodGet, path, "")
	resp, answer := c.raw(t, token, http.MethodPut, path, `{"location": "westus2", "properties": {"publishingProfile": {"excludeFromLatest": true}}}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("it answered %d %v", resp.StatusCode, answer)
	}
	_, after := c.raw(t, token, http.MethodGet, path, "")
	if !truth(after, "properties", "publishingProfile", "excludeFromLatest") {
		t.Errorf("the setting was not changed: %v", after)
	}
	for _, part := range [][]string{{"properties", "storageProfile"}, {"properties", "publishingProfile", "targetRegions"}, {"tags"}} {
		if !same(at(before, part...), at(after, part...)) {
			t.Errorf("%s was %v and is %v", strings.Join(part, "."), at(before, part...), at(after, part...))
		}
	}
}

// TestGroupExists: the az command asks with HEAD, and wants 204 or 404 without a body.
func TestGroupExists(t *testing.T) {
	c := newCloud(t, nil)
	token := c.token(t)
	for group, want := range map[string]int{testGroup: http.StatusNoContent, "other": http.StatusNotFound} {
		resp, _ := c.raw(t, token, http.MethodHead, "/subscriptions/"+testSubscription+"/resourcegroups/"+group+"?api-version=2024-11-01", "")
		if resp.StatusCode != want {
			t.Errorf("group %s: %d, want %d", group, resp.StatusCode, want)
		}
	}
}

// TestDiskCreationData: by an ID, whether the image is the platform's or a gallery's.
func TestDiskCreationData(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	token := c.token(t)
	disk := *c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	_, document := c.raw(t, token, http.MethodGet, disk+"?api-version=2024-03-02", "")
	if id := text(document, "properties", "creationData", "imageReference", "id"); !strings.Contains(id, "/Publishers/") ||
		!strings.Contains(id, "/Versions/") {
		t.Errorf("a disk of the platform's image says %q", id)
	}
}
