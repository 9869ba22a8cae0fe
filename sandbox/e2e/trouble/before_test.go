package trouble

import (
	"net/http"
	"testing"
)

// TestGalleryNameIsTaken wants a resource group without a gallery, and so comes before all captures: the
// first of them makes it.
func TestGalleryNameIsTaken(t *testing.T) {
	g := ownGround(t, "name=gallery,nodes=2")
	if get(t, compute("galleries/"+galleryName())) != nil {
		t.Fatal("a capture has made the gallery already: this test comes before all others")
	}
	location := map[string]any{"location": sandbox.Facts().Location}
	other := "/resourceGroups/other/providers/Microsoft.Compute/galleries/" + galleryName()
	g.put("/resourceGroups/other", location)
	g.put(other, location)
	g.refuses(g.nodes[0], 3, "gallery name "+galleryName()+" is taken in resource group other", "rename or delete the other one")

	// It is found again when somebody takes the name while the donor is away.
	g.free(other)
	before := g.look()
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(g.nodes[0])
	snapshot.await(g)
	g.put(other, location)
	snapshot.letGo()
	capture.ends(t, 4, galleryName(), "rename or delete the other one", "was given back")
	g.givenBack(before, g.nodes[0], 1)
	g.failed("CloudRefused")
	g.free(other)
}

// put makes a resource by somebody else's hand.
func (g *ground) put(path string, body any) {
	g.Helper()
	if status, answer := request(g, http.MethodPut, path, body); status >= http.StatusBadRequest {
		g.Fatalf("PUT %s: %d %v", path, status, answer)
	}
}

// free deletes a resource by somebody else's hand.
func (g *ground) free(path string) {
	g.Helper()
	request(g, http.MethodDelete, path, nil)
	eventually(g.T, path+" is gone", func() (bool, string) { return get(g, path) == nil, "it is still there" })
}
