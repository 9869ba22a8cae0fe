package cli

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// testContents are the stored lists of two versions. One package has a hostile name.
var testContents = map[string]string{
	"2026.02.15": stored(map[string]string{"curl": "8.5.0-2", "libcurl4": "8.5.0-2"}, nil, ""),
	"2026.03.01": stored(map[string]string{"curl": "8.5.0-3", "libcurl4": "8.5.0-3", "linux-image-6.8.0-1021-azure": "6.8.0-1021.25",
		"evil\x1b[8m\u202e": hostileText},
		[]string{"CVE-2026-1234"}, "registry.k8s.io/pause:3.10"),
}

// stored is a stored list with packages of the source curl, the CVEs in the changelog, and a container image.
func stored(packages map[string]string, cves []string, image string) string {
	c := contents.Contents{OS: contents.OS{ID: "ubuntu", VersionID: "24.04"}, Fixes: map[string][]string{"curl": cves}}
	for name, version := range packages {
		p := contents.Package{Kind: contents.Deb, Name: name, Version: version, Arch: "amd64"}
		if name == "libcurl4" {
			p.Source = "curl"
		}
		c.Packages = append(c.Packages, p)
	}
	if image != "" {
		c.Images = []contents.Image{{Name: image, Digest: "sha256:1111"}}
	}
	c.Sort()
	text, err := c.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

// withContents puts the stored lists into a world, for the placeholders $CONTENTS_VERSION.
func withContents(world []byte) []byte {
	var pairs []string
	for version, text := range testContents {
		pairs = append(pairs, "$CONTENTS_"+version, text)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(world)))
}

// testPast is the test's cloud with instances after an event in pool1: its versions are 2026.02.01 (quarantined),
// 2026.02.15 and 2026.03.01, the version in the recipe. With "copies", nothing has happened, and the cloud copies disks in use.
func testPast(what string) *memory.Cloud {
	c := testCloud(what != "copies")
	if what == "" || what == "copies" {
		return c
	}
	const pool = cloud.PoolID("memory:///pools/pool1")
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	image := func(version string) string { return string(pool) + "/versions/" + version }
	point := func(version string) { c.ChangeRecipe(pool, image(version)) }
	tag := func(version string, tags map[string]string) {
		must(c.TagImage(ctx, cloud.ImageRef{Pool: pool, Version: version}, tags))
	}
	point("2026.02.15")
	c.AddInstance(pool, "1")
	point("2026.03.01")
	c.AddInstance(pool, "2")
	c.AddInstance(pool, "3")
	tag("2026.03.01", map[string]string{
		cloud.TagLineage: "2026.02.15", cloud.TagOS: "Ubuntu 24.04.1 LTS", cloud.TagKernel: "6.8.0-1021-azure",
		cloud.TagKubelet: "v1.37.1", cloud.TagPatchedAt: "2026-02-24T03:00:00Z",
	})
	left := map[string]string{cloud.TagQuarantined: "nodes lose their network", cloud.TagRolledBackTo: "2026.02.15"}
	switch what {
	case "lived":
	case "two pools lived":
		c.AddInstance("memory:///pools/pool2", "1")
	case "contents":
		for version, text := range testContents {
			tag(version, map[string]string{cloud.TagContents: v1alpha1.ContentsDigest(text), cloud.TagPrototype: "pool1-" + version,
				cloud.TagKernel: "6.8.0-1020-azure"})
		}
		tag("2026.02.01", map[string]string{cloud.TagContents: "sha256:other", cloud.TagPrototype: "pool1-2026.02.01"})
		tag("2026.03.01", map[string]string{cloud.TagKernel: "6.8.0-1021-azure"})
	case "broken off":
		tag("2026.03.01", left)
	case "rolled back":
		tag("2026.03.01", left)
		point("2026.02.15")
	case "replaced":
		tag("2026.03.01", left)
		point("2026.02.15")
		c.RemoveInstance(cloud.InstanceID(pool + "/instances/2"))
		c.RemoveInstance(cloud.InstanceID(pool + "/instances/3"))
	case "tried in the pool":
		tag("2026.03.01", map[string]string{cloud.TagPrototype: "pool1-2026.03.01"})
	case "rolled back automatically", "rolled back automatically, bad", "rolled back automatically, in vain":
		tag("2026.03.01", map[string]string{cloud.TagSuspect: "2 of its first 2 nodes did not join", cloud.TagRolledBackAt: "2026-03-09T10:00:00Z",
			cloud.TagRolledBackTo: "2026.02.15"})
		point("2026.02.15")
		tag("2026.02.15", map[string]string{cloud.TagPromotedAt: "2026-03-09T10:00:00Z"})
		switch what {
		case "rolled back automatically, bad":
			tag("2026.03.01", map[string]string{cloud.TagQuarantined: "join health: 2 of its first 2 nodes did not join"})
		case "rolled back automatically, in vain":
			tag("2026.03.01", map[string]string{cloud.TagSuspect: "", cloud.TagRolledBackTo: ""})
		}
	case "rolling back":
		tag("2026.03.01", map[string]string{cloud.TagSuspect: "2 of its first 2 nodes did not join", cloud.TagRolledBackAt: "2026-03-09T10:00:00Z",
			cloud.TagRolledBackTo: "2026.02.15"})
	case "no prior":
		tag("2026.02.15", map[string]string{cloud.TagQuarantined: "bad too"})
	case "generic":
		c.ChangeRecipe(pool, "ubuntu:2204")
	case "unpromoted":
		tag("2026.03.01", map[string]string{cloud.TagPrototype: "pool1-2026.03.01"})
		c.ChangeRecipe(pool, "ubuntu:2204", "customData")
	case "automatic":
		tag("2026.03.01", map[string]string{cloud.TagPrototype: "pool1-2026.03.01"})
		point("2026.02.15")
		c.SetUpgrades(pool, true)
	case "left":
		must(c.ProtectFromScaleIn(ctx, cloud.InstanceID(pool+"/instances/1"), cloud.TokenUnprotected))
		must(c.ProtectFromScaleIn(ctx, cloud.InstanceID(pool+"/instances/3"), cloud.TokenUnprotected))
		_, err := c.EnsureSnapshot(ctx, cloud.SnapshotSpec{
			Name: "pool1-2026.03.08", Instance: cloud.InstanceID(pool + "/instances/1"),
			Tags: map[string]string{cloud.TagPrototype: "pool1-2026.03.08", cloud.TagUID: "gone", cloud.TagCluster: testClusterID},
		})
		must(err)
	case "gone":
		point("2026.02.15")
		must(c.DeleteImage(ctx, cloud.ImageRef{Pool: pool, Version: "2026.03.01"}))
		point("2026.03.01")
	case "hostile":
		for _, version := range []string{"2026.02.15", "2026.03.01"} {
			tag(version, map[string]string{cloud.TagOS: hostileText, cloud.TagKernel: hostileText, cloud.TagKubelet: hostileText + version,
				cloud.TagBuiltFrom: hostileText})
		}
		tag("2026.02.01", map[string]string{cloud.TagQuarantined: hostileText})
		tag("2026.02.15", map[string]string{cloud.TagQuarantined: hostileText})
	case "no permission":
		c.Forbid("SetRecipe")
	case "no powers":
		c.Forbid("EnsureRebuilt")
	case "no tags":
		c.Forbid("TagImage")
	case "no look":
		c.Forbid("Pool")
	case "uncounted":
		c.Forbid("Instances")
	default:
		panic("no such past: " + what)
	}
	return c
}
