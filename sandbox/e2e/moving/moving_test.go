// Package moving tests, end to end, the takeover of objects of the Python original, vmss-prototype: gallery,
// definition, versions, and a recipe with the definition.
package moving

import (
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, world.Options{TimeScale: 200}, &sandbox))
}

// historyOutput is the part of `kamino history -o json` that the test reads.
type historyOutput struct {
	Recipe   struct{ Version string }
	Prior    string
	Versions []version
}

type version struct {
	Version, Use, Donor string
	Nodes               []string
	Keep                bool
}

func history(t *testing.T, set string) historyOutput {
	t.Helper()
	var h historyOutput
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "history", set, "-o", "json")), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestMoving runs the verbs on a pool of the original without any preparation.
func TestMoving(t *testing.T) {
	sandbox.Install(t)
	nodes := sandbox.Pool(t, "name=moved,nodes=2")
	set := path.Base(nodes[0].Pool)
	c := connect(t, set)
	now := time.Now().UTC()
	older, old := now.AddDate(0, 0, -20).Format("2006.01.02"), now.AddDate(0, 0, -10).Format("2006.01.02")
	c.createLeftovers(t, older, old)
	before := c.scaleSet(t)

	// Reads change nothing: status shows the version that the definition means.
	if messages := sandbox.Must(t, "kamino", "status", set); !strings.Contains(messages, old) {
		t.Errorf("the status doesn't know that the recipe means %s:\n%s", old, messages)
	}
	want := []version{
		{Version: old, Use: "current", Donor: c.donor, Nodes: []string{}, Keep: true},
		{Version: older, Use: "prior", Donor: c.donor, Nodes: []string{}, Keep: true},
	}
	if diff := cmp.Diff(want, history(t, set).Versions); diff != "" {
		t.Errorf("what the original left is no history (-want +got):\n%s", diff)
	}
	if now := c.scaleSet(t); imageOf(now) != imageOf(before) {
		t.Errorf("looking changed the recipe from %s to %s", imageOf(before), imageOf(now))
	}

	// The first capture pins the recipe to an exact version, in the same gallery and definition.
	today := now.Format("2006.01.02")
	sandbox.Must(t, "kamino", unverified.Capture(nodes[1].Node, "--version", today)...)
	if got, want := imageOf(c.scaleSet(t)), c.definition+"/versions/"+today; !strings.EqualFold(got, want) {
		t.Errorf("the recipe names %s, want %s", got, want)
	}
	sandbox.Must(t, "kamino-sandbox", "scale", "moved", "3", "--wait")
	h := history(t, set)
	if len(h.Versions) != 3 || h.Recipe.Version != today || h.Prior != old || len(h.Versions[0].Nodes) != 1 {
		t.Errorf("after the capture: %+v", h)
	}
	for _, id := range c.published(t) {
		if v := path.Base(id); v != older && v != old && v != today {
			t.Errorf("there is a version %s", v)
		}
	}

	// Roll back to the original's version, which is an exact version, too.
	sandbox.Must(t, "kamino", "rollback", set, "--reason", "the move is tried")
	if got, want := imageOf(c.scaleSet(t)), c.definition+"/versions/"+old; !strings.EqualFold(got, want) {
		t.Errorf("after the rollback the recipe names %s, want %s", got, want)
	}
}

func imageOf(set armcompute.VirtualMachineScaleSet) string {
	return *set.Properties.VirtualMachineProfile.StorageProfile.ImageReference.ID
}

// createLeftovers creates the objects of the original: gallery and definition, versions that are live on
// publication, and a recipe with the definition, without customData and bootstrap.
func (c *cloud) createLeftovers(t *testing.T, versions ...string) {
	t.Helper()
	gallery, err := c.factory.NewGalleriesClient().BeginCreateOrUpdate(t.Context(), c.group, c.gallery, armcompute.Gallery{Location: &c.location}, nil)
	done(t, gallery, err)
	definition, err := c.factory.NewGalleryImagesClient().BeginCreateOrUpdate(t.Context(), c.group, c.gallery, c.image, armcompute.GalleryImage{
		Location: &c.location,
		Properties: &armcompute.GalleryImageProperties{
			OSType: to.Ptr(armcompute.OperatingSystemTypesLinux), OSState: to.Ptr(armcompute.OperatingSystemStateTypesGeneralized),
			HyperVGeneration: to.Ptr(armcompute.HyperVGenerationV2),
			Identifier:       &armcompute.GalleryImageIdentifier{Publisher: to.Ptr("VMSS-Prototype-Pattern"), Offer: &c.group, SKU: &c.set},
		},
	}, nil)
	c.definition = *done(t, definition, err).ID
	disk := c.firstDisk(t)
	for _, version := range versions {
		c.publish(t, version, disk)
	}
	patch, err := c.factory.NewVirtualMachineScaleSetsClient().BeginUpdate(t.Context(), c.group, c.set, c.recipe(t), nil)
	done(t, patch, err)
}

// publish creates a version like the original, with a snapshot that is deleted afterwards.
func (c *cloud) publish(t *testing.T, version, disk string) {
	t.Helper()
	name := "snapshot_" + c.set
	snapshots := c.factory.NewSnapshotsClient()
	taken, err := snapshots.BeginCreateOrUpdate(t.Context(), c.group, name, armcompute.Snapshot{
		Location: &c.location,
		Properties: &armcompute.SnapshotProperties{
			CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: &disk},
		},
	}, nil)
	snapshot := *done(t, taken, err).ID
	built, err := time.Parse("2006.01.02", version)
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.factory.NewGalleryImageVersionsClient().BeginCreateOrUpdate(t.Context(), c.group, c.gallery, c.image, version,
		armcompute.GalleryImageVersion{
			Location: &c.location,
			Tags:     map[string]*string{"BuiltFrom": &c.donor, "BuiltAt": to.Ptr(built.Format("2006-01-02 15:04:05.000000"))},
			Properties: &armcompute.GalleryImageVersionProperties{
				StorageProfile: &armcompute.GalleryImageVersionStorageProfile{OSDiskImage: &armcompute.GalleryOSDiskImage{
					Source: &armcompute.GalleryDiskImageSource{ID: &snapshot},
				}},
				PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{
					ReplicaCount: to.Ptr[int32](3), StorageAccountType: to.Ptr(armcompute.StorageAccountTypeStandardZRS),
					TargetRegions: []*armcompute.TargetRegion{{Name: &c.location}},
				},
			},
		}, nil)
	done(t, made, err)
	deleted, err := snapshots.BeginDelete(t.Context(), c.group, name, nil)
	done(t, deleted, err)
}
