package contents

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// wholeDiff is a difference as JSON: scripts read these names.
const wholeDiff = `{
  "pool": "pool1",
  "from": {
    "version": "2026.02.01",
    "prototype": "pool1-2026.02.01",
    "donor": "node-1",
    "os": "Debian 12",
    "kernel": "6.1",
    "kubelet": "v1.33.1",
    "runtime": "containerd://1.7.1",
    "contentsDigest": "sha256:1"
  },
  "to": {
    "version": "2026.03.01",
    "lineage": "2026.02.01",
    "missing": "not read"
  },
  "packages": [
    {
      "change": "changed",
      "name": "a",
      "arch": "amd64",
      "from": "1",
      "to": "2"
    },
    {
      "change": "added",
      "name": "b",
      "arch": "amd64",
      "to": "1"
    },
    {
      "change": "removed",
      "name": "c",
      "arch": "amd64",
      "from": "1"
    }
  ],
  "fixed": [
    {
      "cve": "CVE-2026-1",
      "source": "a"
    }
  ],
  "imagesAdded": [
    {
      "name": "pause:3.9",
      "digest": "sha256:1"
    }
  ],
  "imagesGone": [],
  "unknown": [
    {
      "dir": "/opt",
      "from": 1,
      "to": 2
    }
  ],
  "notes": [
    "version 2026.03.01: packages of rpm: the database is damaged"
  ]
}`

func TestWholeDiff(t *testing.T) {
	a, b := listOf(deb("a", "1"), deb("c", "1")), listOf(deb("a", "2"), deb("b", "1"))
	a.Fixes, b.Fixes = map[string][]string{"a": {}}, map[string][]string{"a": {"CVE-2026-1"}}
	a.Unknown, b.Unknown = []Directory{{"/opt", 1}}, []Directory{{"/opt", 2}}
	b.Images, b.Notes = []Image{{"pause:3.9", "sha256:1"}}, []string{"packages of rpm: the database is damaged"}
	from, to := versionsOf(a, b)
	from.Prototype, from.Donor, from.OS, from.Kernel, from.Kubelet, from.Runtime, from.Digest = "pool1-2026.02.01", "node-1", "Debian 12", "6.1",
		"v1.33.1", "containerd://1.7.1", "sha256:1"
	to.Lineage, to.Missing = "2026.02.01", "not read"
	text, err := json.MarshalIndent(Compare("pool1", from, to), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wholeDiff, string(text)); diff != "" {
		t.Error(diff)
	}
}

// TestSortIsComplete: any order of the parts gives the same text.
func TestSortIsComplete(t *testing.T) {
	list := func(shuffle func(n int, swap func(i, j int))) Contents {
		c := Contents{}
		for i := range 20 {
			c.Packages = append(c.Packages, deb(fmt.Sprint("p", i%7), fmt.Sprint(i)))
			c.Images = append(c.Images, Image{fmt.Sprint("i", i%5), fmt.Sprint(i)})
			c.Unknown = append(c.Unknown, Directory{fmt.Sprint("/", i), i})
		}
		shuffle(20, func(i, j int) { c.Packages[i], c.Packages[j] = c.Packages[j], c.Packages[i] })
		shuffle(20, func(i, j int) { c.Images[i], c.Images[j] = c.Images[j], c.Images[i] })
		shuffle(20, func(i, j int) { c.Unknown[i], c.Unknown[j] = c.Unknown[j], c.Unknown[i] })
		c.Sort()
		return c
	}
	want := encoded(t, list(func(int, func(i, j int)) {}))
	for seed := range int64(20) {
		if encoded(t, list(rand.New(rand.NewSource(seed)).Shuffle)) != want {
			t.Fatalf("seed %d gives another text", seed)
		}
	}
}

// TestFixesAreOfTheNewList, never of the old list, and each one once.
func TestFixesAreOfTheNewList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cve := rapid.SampledFrom([]string{"CVE-2026-1", "CVE-2026-2", "CVE-2026-3"})
		source := rapid.SampledFrom([]string{"a", "b"})
		draw := func(label, version string) *Contents {
			c := listOf(deb("a", version), deb("b", version))
			c.Fixes = map[string][]string{}
			for range rapid.IntRange(0, 4).Draw(t, label) {
				name, number := source.Draw(t, "source"), cve.Draw(t, "cve")
				if !slices.Contains(c.Fixes[name], number) {
					c.Fixes[name] = append(c.Fixes[name], number)
				}
			}
			return c
		}
		a, b := draw("from", "1"), draw("to", "2")
		seen := map[CVEFix]bool{}
		for _, f := range compare(a, b).Fixed {
			if seen[f] || slices.Contains(a.Fixes[f.Source], f.CVE) || !slices.Contains(b.Fixes[f.Source], f.CVE) {
				t.Errorf("%+v of %v and %v", f, a.Fixes, b.Fixes)
			}
			seen[f] = true
		}
	})
}
