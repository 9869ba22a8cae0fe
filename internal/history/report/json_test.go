package report

import (
	"encoding/json"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// wholeReport is the report of the example as JSON: scripts read these names.
const wholeReport = `{
  "pool": "pool1",
  "since": "2026-03-01T12:00:00Z",
  "until": "2026-03-31T12:00:00Z",
  "builds": [
    {
      "version": "2026.03.21",
      "nodes": 1,
      "measured": 1,
      "medianSeconds": 60,
      "p95Seconds": 60,
      "failed": 0
    },
    {
      "version": "2026.03.02",
      "nodes": 2,
      "measured": 2,
      "medianSeconds": 120,
      "p95Seconds": 180,
      "failed": 0
    },
    {
      "version": "",
      "nodes": 3,
      "measured": 3,
      "medianSeconds": 720,
      "p95Seconds": 1200,
      "failed": 0
    }
  ],
  "figures": [
    {
      "name": "time-saved",
      "title": "waiting time saved by new nodes",
      "value": 0.5166666666666667,
      "unit": "hours",
      "kind": "saved",
      "source": "median from the creation of the instance to Ready, 3 nodes of versions against other images"
    },
    {
      "name": "reboots-avoided",
      "title": "patches with a reboot avoided",
      "value": 3,
      "unit": "nodes",
      "kind": "saved",
      "source": "nodes built from versions with the tag kamino-patched-at: one patch and one reboot for each node; creation of the instances in the cloud; removed nodes are not counted"
    },
    {
      "name": "pulls-avoided",
      "title": "container image pulls avoided, at most",
      "value": 5,
      "unit": "pulls",
      "kind": "saved",
      "source": "lists of the versions' contents, and nodes built from the versions"
    },
    {
      "name": "bytes-avoided",
      "title": "container image data not pulled, at least",
      "value": null,
      "unit": "GiB",
      "kind": "saved",
      "source": "unknown: the kubelets report no sizes of these images"
    },
    {
      "name": "package-downloads-avoided",
      "title": "package downloads avoided",
      "value": null,
      "unit": "GiB",
      "kind": "saved",
      "source": "unknown: neither dpkg nor rpm keeps the size of a download"
    },
    {
      "name": "removed-nodes",
      "title": "removed nodes that versions had built",
      "value": null,
      "unit": "nodes",
      "kind": "saved",
      "source": "unknown: neither the cluster nor the cloud keeps removed nodes; the metric kamino_node_join_seconds counts their joins"
    },
    {
      "name": "exposure",
      "title": "time of nodes without the newest patch, estimate",
      "value": 480,
      "unit": "node-hours",
      "kind": "risk",
      "source": "tag kamino-patched-at of versions, and annotations of nodes with the time of a patch; time before the last patch of a node is not counted; without 4 nodes of unknown patch level"
    },
    {
      "name": "failed-joins",
      "title": "failed joins",
      "value": 0,
      "unit": "nodes",
      "kind": "risk",
      "source": "instances and Nodes that exist now; removed nodes are not counted"
    },
    {
      "name": "captures-succeeded",
      "title": "captures that succeeded",
      "value": 1,
      "unit": "captures",
      "kind": "cost",
      "source": "Prototypes of the pool"
    },
    {
      "name": "captures-failed",
      "title": "captures that failed",
      "value": 0,
      "unit": "captures",
      "kind": "cost",
      "source": "Prototypes of the pool"
    },
    {
      "name": "drains",
      "title": "drains of donors",
      "value": 1,
      "unit": "nodes",
      "kind": "cost",
      "source": "status.donor of Prototypes"
    },
    {
      "name": "donor-hours",
      "title": "time of donors out of service",
      "value": 0.5,
      "unit": "hours",
      "kind": "cost",
      "source": "status.donor of 1 Prototype"
    },
    {
      "name": "pioneer-hours",
      "title": "time of pioneers before their capture",
      "value": 0,
      "unit": "hours",
      "kind": "cost",
      "source": "status.patch of 0 Prototypes"
    },
    {
      "name": "trial-hours",
      "title": "time of trials, at most",
      "value": 0.5,
      "unit": "hours",
      "kind": "cost",
      "source": "status.steps of 1 Prototype"
    },
    {
      "name": "storage",
      "title": "storage of versions, at most",
      "value": 38.465753424657535,
      "unit": "GiB-months",
      "kind": "cost",
      "source": "disk sizes in the cloud, one copy each; replicas are not counted; versions that a capture deleted have the size of the largest present version"
    },
    {
      "name": "storage-price",
      "title": "price of the storage, at most",
      "value": 38.465753424657535,
      "unit": "as --price-gb-month",
      "kind": "cost",
      "source": "storage times 1 per GiB and month"
    }
  ]
}`

func TestWholeReport(t *testing.T) {
	f := facts()
	f.PricePerGBMonth = 1
	f.Captures = []v1alpha1.Prototype{capture(1, v1alpha1.PhaseSucceeded, 0, 30)}
	text, err := json.MarshalIndent(Of(f), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wholeReport, string(text)); diff != "" {
		t.Error(diff)
	}
}

// TestOrderIsIrrelevant: clouds list versions and instances in any order.
func TestOrderIsIrrelevant(t *testing.T) {
	want := Of(facts())
	for seed := range int64(20) {
		f := facts()
		r := rand.New(rand.NewSource(seed))
		r.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
		r.Shuffle(len(f.Versions), func(i, j int) { f.Versions[i], f.Versions[j] = f.Versions[j], f.Versions[i] })
		if diff := cmp.Diff(want, Of(f)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// TestFurtherNodeAddsToFigures: a further node adds to each figure that counts nodes, and takes nothing away.
func TestFurtherNodeAddsToFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts()
		before := Of(f)
		minutes := rapid.IntRange(1, 59).Draw(t, "minutes")
		f.Nodes = append(f.Nodes, node("2026.03.02", rapid.IntRange(0, 29).Draw(t, "day"), time.Duration(minutes)*time.Minute))
		after := Of(f)
		for name, more := range map[string]float64{"reboots-avoided": 1, "pulls-avoided": 2} {
			was, is := *figure(t, before, name).Value, *figure(t, after, name).Value
			if is != was+more {
				t.Errorf("%s was %g and is %g, want %g more", name, was, is, more)
			}
		}
		if was, is := *figure(t, before, "exposure").Value, *figure(t, after, "exposure").Value; is < was || is > was+240 {
			t.Errorf("exposure was %g and is %g: the newest patch is 240 hours old", was, is)
		}
		if after.Builds[1].Nodes != before.Builds[1].Nodes+1 || after.Builds[1].Measured != before.Builds[1].Measured+1 {
			t.Errorf("builds were %+v and are %+v", before.Builds, after.Builds)
		}
		if diff := cmp.Diff(before.Builds[2], after.Builds[2]); diff != "" {
			t.Errorf("other images: %s", diff)
		}
	})
}

// TestALongerReport includes all that a shorter one includes.
func TestALongerReport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short, long := facts(), facts()
		short.Captures = []v1alpha1.Prototype{capture(1, v1alpha1.PhaseSucceeded, 0, 30), capture(15, v1alpha1.PhaseFailed, 0, 30)}
		long.Captures = short.Captures
		short.Since = day(rapid.IntRange(0, 29).Draw(t, "since"))
		long.Since = short.Since.AddDate(0, 0, -rapid.IntRange(0, 40).Draw(t, "longer"))
		a, b := Of(short), Of(long)
		for _, f := range a.Figures {
			if f.Value == nil || f.Name == "time-saved" {
				continue
			}
			if more := figure(t, b, f.Name); more.Value == nil || *more.Value < *f.Value-1e-9 {
				t.Errorf("%s since %s is %g, and since %s %v", f.Name, short.Since, *f.Value, long.Since, more.Value)
			}
		}
	})
}

// TestNothingIsKnown: a pool without nodes, versions and captures has zeros and unknown figures, and no build.
func TestNothingIsKnown(t *testing.T) {
	r := Of(Facts{Pool: "empty", Since: since, Now: now, Counted: true, PricePerGBMonth: -1})
	if len(r.Builds) > 0 {
		t.Errorf("builds %+v", r.Builds)
	}
	want := map[string]string{
		"time-saved":                "unknown",
		"reboots-avoided":           "unknown",
		"pulls-avoided":             "unknown",
		"bytes-avoided":             "unknown",
		"package-downloads-avoided": "unknown",
		"removed-nodes":             "unknown",
		"exposure":                  "unknown",
		"failed-joins":              "0",
		"captures-succeeded":        "0",
		"captures-failed":           "0",
		"drains":                    "0",
		"donor-hours":               "0",
		"pioneer-hours":             "0",
		"trial-hours":               "0",
		"storage":                   "0",
	}
	got := map[string]string{}
	for _, f := range r.Figures {
		got[f.Name] = "unknown"
		if f.Value != nil {
			got[f.Name] = "0"
			if *f.Value != 0 {
				got[f.Name] = "not zero"
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFiguresAreInOrder: savings, risks, costs.
func TestFiguresAreInOrder(t *testing.T) {
	place := map[Kind]int{Saved: 0, Risk: 1, Cost: 2}
	last := Saved
	seen := map[string]bool{}
	for _, f := range Of(facts()).Figures {
		if place[f.Kind] < place[last] {
			t.Errorf("%s of kind %s comes after %s", f.Name, f.Kind, last)
		}
		if seen[f.Name] {
			t.Errorf("two figures have the name %s", f.Name)
		}
		last, seen[f.Name] = f.Kind, true
	}
}
