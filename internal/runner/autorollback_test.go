package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	goodVersion = "2026.03.01"
	badVersion  = "2026.03.02"
)

// goBack runs one pass of a rollback in a process without memory: goBack reads, decides again, and takes a step.
func goBack(ctx context.Context, c *cluster.Connection, provider cloud.Provider, reason string) (done bool, err error) {
	finder := &pool.Finder{Cluster: c, Cloud: provider}
	found, err := finder.Named(ctx, "crowd")
	if err != nil {
		return false, err
	}
	h, err := finder.History(ctx, found, 0)
	if err != nil {
		return false, err
	}
	r, refusals := h.Rollback("", reason)
	if len(refusals) > 0 {
		return false, fmt.Errorf("refused: %+v", refusals)
	}
	if r.Done {
		return true, nil
	}
	result, err := recipe.OfRollback(r, provider, found.ID).Pass(ctx)
	return result.Done(), err
}

// TestARollbackOutlivesItsProcess: after a kill or a lost call, before or after any call to the cloud, another process
// finishes the rollback to the same version.
func TestARollbackOutlivesItsProcess(t *testing.T) {
	api := apitest.Client(t)
	kube := kubernetes.NewForConfigOrDie(apitest.Server(t))
	c := &cluster.Connection{Client: api, Kube: kube, Config: apitest.Server(t)}
	clock := memory.NewClock(time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC))
	newCloud := func() (*memory.Cloud, cloud.PoolID) {
		memoryCloud := memory.New(memory.Config{Now: clock.Now})
		id := memoryCloud.AddPool(memory.PoolSpec{Name: "crowd"})
		for _, version := range []string{"2026.02.01", goodVersion, badVersion} {
			memoryCloud.AddVersion(id, memory.VersionSpec{Version: version})
		}
		memoryCloud.ChangeRecipe(id, string(id)+"/versions/"+badVersion)
		return memoryCloud, id
	}
	memoryCloud, id := newCloud()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "goes-back"}}
	n.Spec.ProviderID = string(memoryCloud.AddInstance(id, "goes-back"))
	if err := api.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), n) })

	run := func(provider cloud.Provider) {
		t.Helper()
		for process := 1; ; process++ {
			if process > 10 {
				t.Fatal("it does not end")
			}
			done, err := false, error(nil)
			killed := memory.RunUntilCrash(func() { done, err = goBack(t.Context(), c, provider, fmt.Sprintf("process %d says so", process)) })
			if !killed && err == nil && done {
				return
			}
		}
	}
	want := func(memoryCloud *memory.Cloud, id cloud.PoolID, what string) {
		t.Helper()
		is, err := memoryCloud.Pool(t.Context(), id)
		if err != nil || is.Recipe.Version != goodVersion || is.Recipe.Latest {
			t.Errorf("%s: the recipe names %+v, %v", what, is.Recipe, err)
		}
		for version, to := range map[string]string{"2026.02.01": "", goodVersion: "", badVersion: goodVersion} {
			image, err := memoryCloud.Image(t.Context(), cloud.ImageRef{Pool: id, Version: version})
			if err != nil || image.Tags[cloud.TagRolledBackTo] != to || (image.Tags[cloud.TagQuarantined] != "") != (to != "") {
				t.Errorf("%s: version %s carries %v, %v", what, version, image.Tags, err)
			}
		}
	}
	counting := memory.NewFaulty(memoryCloud, nil)
	run(counting.Provider)
	want(memoryCloud, id, "nothing is lost")
	outcomes := map[string]memory.Outcome{
		"lost before": memory.FailBefore(cloud.Unavailable), "lost behind": memory.FailAfter(cloud.Unavailable),
		"the end before": memory.CrashBefore(), "the end behind": memory.CrashAfter(),
	}
	for i, call := range counting.Calls() {
		for name, outcome := range outcomes {
			memoryCloud, id := newCloud()
			memoryCloud.AddInstance(id, "goes-back")
			run(memory.NewFaulty(memoryCloud, func(c memory.Call) memory.Outcome {
				if c.Index != i {
					return memory.Pass()
				}
				return outcome
			}).Provider)
			want(memoryCloud, id, fmt.Sprintf("%s, call %d, %s", call.Op, i, name))
		}
	}
}
