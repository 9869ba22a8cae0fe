package azure

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestReadSeparateTrial: the first read gets the scale set. Later reads need only the list of instances with views,
// unless the list is empty.
func TestReadSeparateTrial(t *testing.T) {
	at := attempt(t, trialOf()).ownScaleSet()
	list := at.id() + "/virtualMachines"
	vm := func(state, power string) any {
		return object(t, `{"instanceId": "0", "properties": {"provisioningState": "`+state+`",
			"storageProfile": {"imageReference": {"id": "`+testDefinition+`/versions/`+testVersion+`"}},
			"instanceView": {"statuses": [{"code": "PowerState/`+power+`"}]}}}`)
	}
	const set, none = `{"tags": {"kamino-trying": "` + theTrial + `"}, "properties": {"provisioningState": "Creating"}}`, ""
	a := newARM(t)
	power := a.provider()
	for _, look := range []struct {
		name, set string
		vms       []any
		state     cloud.State
		sets, all int
	}{
		{"before it is there", none, nil, cloud.Absent, 1, 1},
		{"without an instance", set, nil, cloud.Pending, 1, 2},
		{"still without", set, nil, cloud.Pending, 1, 2},
		{"being made", set, []any{vm("Creating", "starting")}, cloud.Pending, 0, 1},
		{"running", set, []any{vm("Succeeded", "running")}, cloud.Complete, 0, 1},
		{"failed", set, []any{vm("Failed", "running")}, cloud.Failed, 0, 1},
		{"being deleted", set, []any{vm("Deleting", "stopped")}, cloud.Deleting, 0, 1},
		{"deleted", none, nil, cloud.Absent, 0, 1},
		{"deleted before", none, nil, cloud.Absent, 1, 1},
	} {
		delete(a.documents, fold(at.id()))
		delete(a.lists, fold(list))
		if look.set != none {
			a.has(at.id(), look.set)
			a.lists[fold(list)] = look.vms
		}
		a.calls = nil
		have, err := power.Trial(t.Context(), trialOf())
		if err != nil || have.State != look.state || len(have.Instances) != len(look.vms) {
			t.Errorf("%s: it is %+v, %v", look.name, have, err)
		}
		if sets := a.gets(at.id()); sets != look.sets || len(a.calls) != look.all {
			t.Errorf("%s: %d reads of the scale set among %d requests, want %d among %d", look.name, sets, len(a.calls), look.sets, look.all)
		}
		for _, c := range a.calls {
			if strings.EqualFold(c.Path, list) && !slices.Contains(c.Query["$expand"], "instanceView") {
				t.Errorf("%s: the list is asked for as %v", look.name, c.Query)
			}
		}
	}
}

// TestSeparateTrialUsesCopyOfCustomData: Azure never returns customData. Without a copy, a pool that keeps its bootstrap is refused with the
// remedy. With a copy, the trial's instance gets the copy.
func TestSeparateTrialUsesCopyOfCustomData(t *testing.T) {
	const script = "#cloud-config\nruncmd: [kubeadm join]\n"
	for name, c := range map[string]struct {
		copied  string
		emptied bool
		refused string
	}{
		"no copy":             {refused: "`--custom-data FILE`"},
		"a copy":              {copied: script},
		"a copy too long":     {copied: strings.Repeat("#", maxCustomData+1), refused: "Azure's limit is 65535"},
		"nothing in the pool": {emptied: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := trialOf()
			spec.RemoveBootstrap, spec.CustomData = false, []byte(c.copied)
			a := newARM(t)
			a.pool(`{"properties": {"virtualMachineProfile": {"extensionProfile": null}}}`)
			if c.emptied {
				a.pool(`{"tags": {"kamino-bootstrap-removed": "1"}, "properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference": {"id": "` + testDefinition + `/versions/1.0.0", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`)
			}
			a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
			a.lists[fold(apartScope)] = []any{}
			runner := a.provider()
			found, err := runner.PreflightTrial(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			_, err = runner.EnsureTrial(t.Context(), spec)
			if c.refused != "" {
				if len(found) != 1 || found[0].Reason != cloud.PoolNotCopyable || !strings.Contains(found[0].What()+found[0].Remedy, c.refused) {
					t.Errorf("preflight finds %+v", found)
				}
				_ = mustKind(t, err, cloud.Refused)
				return
			}
			if err != nil || len(found) != 0 {
				t.Fatalf("preflight finds %+v, and the begin fails with %v", found, err)
			}
			want := c.copied
			if c.emptied {
				want = emptyCloudConfig
			}
			profile := a.last("PUT", attempt(t, spec).ownScaleSet().name).Body["properties"].(map[string]any)["virtualMachineProfile"].(map[string]any)
			if got := profile["osProfile"].(map[string]any)["customData"]; got != base64.StdEncoding.EncodeToString([]byte(want)) {
				t.Errorf("customData is %v", got)
			}
		})
	}
}

// TestBeginSeparateTrial: an accepted request is Pending and is not read again.
func TestBeginSeparateTrial(t *testing.T) {
	at := attempt(t, trialOf()).ownScaleSet()
	a := newARM(t)
	a.pool("")
	a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	have, err := a.provider().EnsureTrial(t.Context(), trialOf())
	if err != nil || have.State != cloud.Pending {
		t.Errorf("it is %+v, %v", have, err)
	}
	if made := a.made(); len(made) != 1 || a.gets(at.id()) != 1 || a.gets(at.id()+"/virtualMachines") != 0 {
		t.Errorf("sent %v, and read the scale set %d times", made, a.gets(at.id()))
	}
}
