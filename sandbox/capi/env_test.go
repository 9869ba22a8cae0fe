package capi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// noon is the begin of each capture. The clock stands still while Cluster API works.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

const version = "2026.03.14"

// clusterID is the ID of the workload cluster.
const clusterID = "our-cluster"

func ourCluster(context.Context) (string, error) { return clusterID, nil }

// testEnv has a pool of Cluster API and all parts of a capture. Disks and workload cluster are in memory. The engine
// runs with recipes whose objects the controllers of Cluster API process. Each call to the recipes and each request
// to the management cluster can be lost.
type testEnv struct {
	*pool
	*workload
	t      testing.TB
	engine *capture.Engine
	name   string

	donor, peer unstructured.Unstructured // the Machines before the capture, which stay as they are
	// lose decides the outcome of the n-th call to the recipes, from 0. cut decides about the response to the n-th
	// write in the management cluster.
	lose, cut func(n int, what string) memory.Outcome
	calls     []string
	writes    []request
	// stirred: Cluster API may have work.
	stirred bool
}

// request is a write request to the management cluster, with the call that caused the request.
type request struct {
	what string
	call int
}

// ofDisks lists the calls that only read disks.
var ofDisks = []string{
	"Instance", "Snapshot", "EnsureSnapshot", "DeleteSnapshot", "Image", "Images", "EnsureImage", "TagImage", "Snapshots", "DropSnapshot", "Copy", "Copies",
	"EnsureAttached", "EnsureDetached", "EnsureCopySnapshot", "EndCopy",
}

// newTestEnv makes a pool of so many machines.
func newTestEnv(t testing.TB, machines int) *testEnv {
	t.Helper()
	clock := memory.NewClock(noon)
	made := memory.New(memory.Config{Now: clock.Now, Latency: memory.Latency{
		Start: 20 * time.Second, Snapshot: 6 * time.Second, Attach: 5 * time.Second, Image: 20 * time.Second, Delete: 5 * time.Second,
	}})
	s := &testEnv{t: t, pool: newCluster(t, objects), workload: newWorkload(t, clock, made)}
	s.makers.set(s.namespace, &disks{Cloud: made, kubelets: kubelets{nodes: s.client}})
	s.create(strings.Replace(deployment, "replicas: 3", fmt.Sprintf("replicas: %d", machines), 1))
	s.stirred = true
	s.settle()
	s.runKubelets()
	s.restart()
	return s
}

// decide writes the Prototype, as a person would.
func (s *testEnv) decide() {
	s.t.Helper()
	machines := s.list("Machine")
	s.donor, s.peer = machines[0], machines[len(machines)-1]
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: s.pool.name + "-" + version}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: s.pool.name, PoolID: string(s.id()), Version: version,
		Donor: v1alpha1.Donor{NodeName: nodeNameOf(s.donor), ProviderID: string(instanceOf(s.donor))}}
	p.Spec.Settings.Trial.Mode, p.Spec.Settings.Donor.Method = v1alpha1.TrialOff, v1alpha1.MethodCopy
	p.Spec.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap
	p.Spec.Settings = p.Spec.Settings.Defaulted()
	s.name = p.Name
	s.must(s.objects.Create(s.t.Context(), p))
}

// instanceOf returns the instance of a Machine.
func instanceOf(m unstructured.Unstructured) cloud.InstanceID {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return cloud.InstanceID(id)
}

// nodeNameOf is the name of a Machine's Node.
func nodeNameOf(m unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	return name
}

// restart replaces the process. The new process has no memory of the previous process.
func (s *testEnv) restart() {
	s.t.Helper()
	recipes := s.watched(s.cloud.Disks(), func(what string) memory.Outcome {
		n := len(s.writes)
		s.writes, s.stirred = append(s.writes, request{what, len(s.calls) - 1}), true
		return lost(s.cut, n, what)
	})
	provider := memory.NewFaulty(cloud.New(cloud.DisksOf(s.cloud.Disks()), cloud.RecipesOf(recipes)), func(c memory.Call) memory.Outcome {
		if slices.Contains(ofDisks, c.Op) {
			return memory.Pass()
		}
		n := len(s.calls)
		s.calls = append(s.calls, c.Op)
		return lost(s.lose, n, c.Op)
	})
	s.engine = &capture.Engine{Client: s.objects, Kube: s.kube, Cloud: cloud.InCluster(provider.Provider, ourCluster), Image: "kamino:test", Now: s.clock.Now, Log: logr.Discard(), TrialObserver: s.workload,
		Sleep: func(_ context.Context, d time.Duration) error {
			s.clock.Advance(d)
			s.runPods()
			return nil
		}}
}

func lost(by func(int, string) memory.Outcome, n int, what string) memory.Outcome {
	if by == nil {
		return memory.Pass()
	}
	return by(n, what)
}

// play runs the capture to its end, and restarts after each crash. Between two passes Cluster API finishes its
// work, and then time passes.
func (s *testEnv) play() *v1alpha1.Prototype {
	s.t.Helper()
	for pass := range 600 {
		var result capture.Result
		if memory.RunUntilCrash(func() { result, _ = s.engine.Pass(context.Background(), s.name) }) {
			s.restart()
		}
		if broken := s.cloud.World().Broken(); len(broken) > 0 {
			s.t.Fatalf("after pass %d: %v", pass, broken)
		}
		s.settle()
		if result.Done {
			return s.prototype()
		}
		s.clock.Advance(max(result.After, 4*time.Second))
		s.cloud.Settle()
		s.runPods()
		s.runKubelets()
	}
	s.t.Fatalf("the capture does not end: %s", verdict(s.prototype()))
	return nil
}

// prototype returns the current Prototype, or nil if the Prototype is gone.
func (s *testEnv) prototype() *v1alpha1.Prototype {
	s.t.Helper()
	p := &v1alpha1.Prototype{}
	err := s.objects.Get(context.Background(), client.ObjectKey{Name: s.name}, p)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return p
}

func verdict(p *v1alpha1.Prototype) string {
	if p == nil {
		return "the prototype is gone"
	}
	return fmt.Sprintf("phase %s, failure %+v, conditions %+v, record %+v", p.Status.Phase, p.Status.Failure, p.Status.Conditions, p.Status.Record)
}

// settle returns when Cluster API has no more work, or waits for others.
func (s *testEnv) settle() {
	s.t.Helper()
	if !s.stirred {
		return
	}
	s.stirred = false
	for last := time.Now().Add(maxWait); ; time.Sleep(pollInterval) {
		todo := s.pending()
		if todo == "" {
			return
		}
		if time.Now().After(last) {
			s.t.Fatalf("Cluster API does not come to rest: %s", todo)
		}
	}
}

// pending describes the remaining work of Cluster API, or is empty.
func (s *testEnv) pending() string {
	s.t.Helper()
	above, sets, places := s.get("MachineDeployment", s.pool.name), s.list("MachineSet"), int64(0)
	for _, set := range sets {
		places += replicas(set)
	}
	if places != replicas(*above) || !observed(*above) {
		return fmt.Sprintf("the pool is to have %d machines, and its sets %d", replicas(*above), places)
	}
	machines := s.list("Machine")
	for _, set := range sets {
		has := int64(0)
		for _, m := range machines {
			if owner := metav1.GetControllerOf(&m); owner != nil && owner.UID == set.GetUID() {
				has++
			}
		}
		if replicas(set) != has || !observed(set) {
			return fmt.Sprintf("%s is to have %d machines and has %d", set.GetName(), replicas(set), has)
		}
	}
	for _, m := range machines {
		switch {
		case m.GetDeletionTimestamp() == nil && !joined(m):
			return m.GetName() + " has not joined"
		case m.GetDeletionTimestamp() != nil && !slices.Equal(m.GetFinalizers(), []string{"kamino.dev/workshop"}):
			return m.GetName() + " is to go"
		}
	}
	return ""
}

func annotated(o unstructured.Unstructured, name string) bool {
	_, is := o.GetAnnotations()[name]
	return is
}

func replicas(o unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return n
}

// observed reports whether the controller has seen the current object.
func observed(o unstructured.Unstructured) bool {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return n == o.GetGeneration()
}

// joined reports whether a Machine has its Node.
func joined(m unstructured.Unstructured) bool {
	there, _, _ := unstructured.NestedBool(m.Object, "status", "initialization", "infrastructureProvisioned")
	return there && nodeNameOf(m) != ""
}
