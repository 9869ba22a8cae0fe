package conformance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// newTrial returns a world with a version, and the spec of a trial of this version.
func newTrial(t *testing.T) (*cloudEnv, cloud.TrialSpec) {
	t.Helper()
	w := newCloudEnv(t, options{})
	w.publish(w.snapshot())
	return w, cloud.TrialSpec{
		ImageRef: w.ref(), Name: "uid-1", RemoveBootstrap: true,
		Tags: map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid"},
	}
}

// TestErrorOfFailedTrial: Azure refuses the trial's instance, or accepts the instance and fails later. Lack of
// capacity and errors of Azure prove nothing about the version; errors of the guest do. A different process sees
// the same result, and no objects are left.
func TestErrorOfFailedTrial(t *testing.T) {
	const words = "Azure's own words"
	for name, test := range map[string]struct {
		fault         fault.Fault
		atOnce        bool
		lacksCapacity bool
		blamesImage   bool
	}{
		"no capacity":             {fault: fault.Fault{Long: true, Code: "AllocationFailed"}, lacksCapacity: true},
		"no capacity in the zone": {fault: fault.Fault{Long: true, Code: "ZonalAllocationFailed"}, lacksCapacity: true},
		"no such size":            {fault: fault.Fault{Status: http.StatusConflict, Code: "SkuNotAvailable"}, atOnce: true, lacksCapacity: true},
		"no quota": {fault: fault.Fault{Status: http.StatusConflict, Code: "OperationNotAllowed",
			Message: words + ". Exceeding approved quota."}, atOnce: true, lacksCapacity: true},
		"the guest does not report": {fault: fault.Fault{Long: true, Phase: fault.After, Code: "OSProvisioningTimedOut"}, blamesImage: true},
		"the guest fails":           {fault: fault.Fault{Long: true, Phase: fault.After, Code: "OSProvisioningClientError"}, blamesImage: true},
		"Azure fails":               {fault: fault.Fault{Long: true, Phase: fault.After, Code: "OSProvisioningInternalError"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, spec := newTrial(t)
			before, err := w.p.Pool(t.Context(), w.pool)
			w.must(err)
			f := test.fault
			f.Resource, f.Operation, f.Count = "pool", "put", 1
			if f.Message == "" {
				f.Message = words
			}
			w.fault(f)
			trialist := w.p
			have, err := trialist.EnsureTrial(t.Context(), spec)
			if test.atOnce {
				w.wantError(err, cloud.QuotaExceeded, test.fault.Code, words)
			} else {
				w.must(err)
				w.until("failed", func() bool {
					have, err = trialist.Trial(t.Context(), spec)
					w.must(err)
					return have.State == cloud.Failed
				})
				other, err := w.connect(w.environment(w.secret)).Trial(t.Context(), spec)
				w.must(err)
				for who, seen := range map[string]cloud.Trial{"who began it": have, "another process": other} {
					if seen.LacksCapacity != test.lacksCapacity || seen.BlamesImage != test.blamesImage ||
						!strings.Contains(seen.Trouble, test.fault.Code) || !strings.Contains(seen.Trouble, words) {
						t.Errorf("%s sees %+v", who, seen)
					}
				}
			}
			w.until("ended", func() bool {
				state, err := trialist.EndTrial(t.Context(), spec)
				w.must(err)
				return state == cloud.Absent
			})
			w.wantUnchanged(before, 2)
		})
	}
}

// wantUnchanged requires the pool of before the trial, and no other scale set.
func (w *cloudEnv) wantUnchanged(before cloud.Pool, nodes int) {
	w.t.Helper()
	pool, err := w.p.Pool(w.t.Context(), w.pool)
	w.must(err)
	if pool.Capacity != before.Capacity || pool.Recipe.Image != before.Recipe.Image || len(w.list()) != nodes {
		w.t.Errorf("the pool is %+v with %d machines, and had %d nodes from %s", pool, len(w.list()), before.Capacity, before.Recipe.Image)
	}
	if sets := w.scaleSets(); len(sets) != 1 {
		w.t.Errorf("there are the scale sets %v", sets)
	}
	if machines := len(w.cloud.Specs()); machines != nodes {
		w.t.Errorf("there are %d machines, want %d", machines, nodes)
	}
}

func (w *cloudEnv) scaleSets() []string {
	w.t.Helper()
	list := w.document("/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/virtualMachineScaleSets")
	var names []string
	for _, set := range list["value"].([]any) {
		names = append(names, set.(map[string]any)["name"].(string))
	}
	return names
}

// TestTrialMachine: the trial's machine has the exact version, its own name prefix, and the Prototype's tags. Two
// concurrent begins create one machine.
func TestTrialMachine(t *testing.T) {
	w, spec := newTrial(t)
	before, err := w.p.Pool(t.Context(), w.pool)
	w.must(err)
	ends := make(chan error)
	for _, p := range []cloud.Provider{w.p, w.connect(w.environment(w.secret))} {
		go func() {
			_, err := p.EnsureTrial(t.Context(), spec)
			ends <- err
		}()
	}
	for range 2 {
		w.must(<-ends)
	}
	var have cloud.Trial
	w.until("running", func() bool {
		var err error
		have, err = w.p.Trial(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete
	})
	if sets := w.scaleSets(); len(sets) != 2 || len(have.Instances) != 1 {
		t.Fatalf("there are the scale sets %v, and the trial is %+v", sets, have)
	}
	set := w.document(strings.TrimPrefix(strings.Split(string(have.Instances[0].ID), "/virtualMachines/")[0], "azure://"))
	if tags := set["tags"].(map[string]any); tags[cloud.TagUID] != "uid" || tags[cloud.TagPrototype] != "it" || tags["max"] != nil {
		t.Errorf("its tags are %v", tags)
	}
	for _, m := range w.cloud.Specs() {
		if m.Pool == poolName {
			continue
		}
		if !strings.HasPrefix(m.ComputerName, "kt") || !strings.HasSuffix(strings.ToLower(m.Image), "/versions/"+version) || len(m.Extensions) != 0 {
			t.Errorf("its machine is %+v", m)
		}
	}
	w.until("ended", func() bool {
		state, err := w.p.EndTrial(t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
	w.wantUnchanged(before, 2)
}

// TestAzureTrialOfAnotherSize: the trial has the size of its spec, and else the size of the pool. The preflight counts the cores of that size.
func TestAzureTrialOfAnotherSize(t *testing.T) {
	w, spec := newTrial(t)
	for size, want := range map[string]string{"": "Standard_D2s_v5", "Standard_D8s_v5": "Standard_D8s_v5"} {
		spec.Name, spec.MachineType = "it-"+size, size
		found, err := w.p.PreflightTrial(t.Context(), spec)
		w.must(err)
		if len(found) > 0 {
			t.Errorf("a trial of the size %q is refused: %v", size, found)
		}
		have, err := w.p.EnsureTrial(t.Context(), spec)
		w.must(err)
		w.until("running", func() bool {
			have, err = w.p.Trial(t.Context(), spec)
			w.must(err)
			return have.State == cloud.Complete
		})
		set := w.document(strings.Split(resourceOf(have.Instances[0].ID), "/virtualMachines/")[0])
		if sku := set["sku"].(map[string]any); sku["name"] != want {
			t.Errorf("a trial of the size %q has %v", size, sku)
		}
	}
}
