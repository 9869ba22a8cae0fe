package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial/trialnode"
)

// testNow is the time in every transcript.
var testNow = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// testCommand is the command of transcripts: real clients, a scripted engine, a cloud in memory, and a constant clock.
func testCommand() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	onSignal(func() { cancel(errInterrupted) })
	f := NewFactory()
	f.Now = func() time.Time { return testNow }
	f.Asks = func() bool { return os.Getenv("KAMINO_TEST_ASKS") != "" }
	f.Window = func() (int, int) { return 0, 0 }
	f.Cloud = func(context.Context, *Options) (cloud.Provider, error) {
		return testPast(os.Getenv("KAMINO_TEST_PAST")).Provider, nil
	}
	f.Engine = func(c *cluster.Connection, provider cloud.Provider, o *Options) runner.Engine {
		look := &trialnode.Observer{Kube: c.Kube, Namespace: o.Namespace, Image: o.Image, Same: provider.SameInstance}
		real := &capture.Engine{Client: c.Client, Kube: c.Kube, Cloud: provider, Namespace: o.Namespace, Image: o.Image, Now: f.Now, TrialObserver: look}
		return &scriptedEngine{real, c.Client, os.Getenv("KAMINO_TEST_SCRIPT"), f.Now}
	}
	return f.Run(ctx, os.Args[1:])
}

// testCloud holds two pools with a history. With noCopy, the cloud copies no disk in use.
func testCloud(noCopy bool) *memory.Cloud {
	c := memory.New(memory.Config{Now: func() time.Time { return testNow }, NoCopy: noCopy})
	first := c.AddPool(memory.PoolSpec{
		Name: "pool1", Capacity: 3, Location: "westeurope", Traits: map[string]string{"generation": "V2"},
		Image: "memory:///pools/pool1/versions/2026.03.01", Bootstrap: []string{"customData"},
	})
	c.AddPool(memory.PoolSpec{Name: "pool2", Capacity: 1, Location: "westeurope", Image: "ubuntu:2204"})
	for i, day := range []string{"2026.02.01", "2026.02.15", "2026.03.01"} {
		at := testNow.AddDate(0, 0, -40+i*14)
		tags := map[string]string{
			cloud.TagBuiltFrom: fmt.Sprintf("node-%d", i), cloud.TagBuiltAt: at.Format(cloud.BuiltAtLayout),
			cloud.TagProof: "static/1/sha256:" + strings.Repeat("a", 8), cloud.TagCluster: testClusterID,
		}
		if i == 0 {
			tags[cloud.TagQuarantined] = "its nodes lost their network"
		}
		c.AddVersion(first, memory.VersionSpec{Version: day, Tags: tags, CreatedAt: at})
	}
	return c
}
