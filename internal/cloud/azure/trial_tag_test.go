package azure

import (
	"fmt"
	"strings"
	"testing"
)

// longImage is the ID of a version of a gallery, so many characters long.
func longImage(n int) string {
	id := "/subscriptions/" + testSubscription + "/resourceGroups/" + strings.Repeat("g", 40) + "/providers/Microsoft.Compute/galleries/"
	const end = "/images/generic/versions/1.0.0"
	return id + strings.Repeat("i", n-len(id)-len(end)) + end
}

// TestLongImageID: a different process that closes the trial finds the previous image, even if the ID is longer
// than a tag. At the end no tag is left.
func TestLongImageID(t *testing.T) {
	for _, n := range []int{250, 256, 257, 394, 512} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			image := longImage(n)
			a := newARM(t)
			a.pool(`{"tags": {"Kamino-Trying-Before": "stale", "kamino-trying-before-2": "stale"}, "properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference": {"id": "` + image + `", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`)
			a.lists[fold(string(testPool)+"/virtualMachines")] = []any{}
			a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
			spec := trialOf(true)
			spec.Image = image
			if _, err := a.provider().EnsureTrial(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			opened := modelOf(t, a.documents[fold(string(testPool))])
			for name, text := range opened.Tags {
				if len(value(text)) > 256 {
					t.Errorf("tag %s has %d characters", name, len(value(text)))
				}
			}
			pool, err := parsePool(testPool)
			if err != nil {
				t.Fatal(err)
			}
			opened.Name = &pool.name
			listed, is := trialIn(opened, pool, []scaleSet{pool})
			if !is || listed.Image != image || listed.Name != theTrial {
				t.Fatalf("it is listed as %+v", listed)
			}
			other := a.provider()
			if err := other.CloseTrial(t.Context(), listed); err != nil {
				t.Fatal(err)
			}
			if now := modelOf(t, a.documents[fold(string(testPool))]); value(imageReference(now).ID) != image {
				t.Errorf("the recipe names %s", value(imageReference(now).ID))
			}
			if _, err := other.EndTrial(t.Context(), listed); err != nil {
				t.Fatal(err)
			}
			for name, text := range modelOf(t, a.documents[fold(string(testPool))]).Tags {
				if strings.HasPrefix(strings.ToLower(name), trialMarkTag) && value(text) != "" {
					t.Errorf("tag %s is left: %s", name, value(text))
				}
			}
		})
	}
}
