package conformance

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// newCopyEnv starts a cloud with a pool whose nodes join by customData.
func newCopyEnv(t *testing.T, change ...func(*simulator.PoolSpec)) *cloudEnv {
	t.Helper()
	return newCloudEnv(t, options{pool: func(p *simulator.PoolSpec) {
		p.Profile = "bootstrap"
		for _, f := range change {
			f(p)
		}
	}})
}

// rawCopy copies the disk of the first instance in use, and returns the spec of a copy on an instance.
func (w *cloudEnv) rawCopy(on cloud.InstanceID) cloud.CopySpec {
	w.t.Helper()
	spec := cloud.CopySpec{Name: "it", Instance: on, Tags: ofCopy()}
	w.until("copied", func() bool {
		have, err := w.p.EnsureSnapshot(w.t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.a, InUse: true, Tags: ofCopy()})
		w.must(err)
		spec.SnapshotID = have.ID
		return have.State == cloud.Complete
	})
	return spec
}

// attached attaches a copy.
func (w *cloudEnv) attached(p cloud.Provider, spec cloud.CopySpec) (have cloud.DiskCopy) {
	w.t.Helper()
	w.until("attached", func() bool {
		var err error
		have, err = p.EnsureAttached(w.t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete && have.IsAttached
	})
	return have
}

func (w *cloudEnv) endedCopy(p cloud.Provider, spec cloud.CopySpec) {
	w.t.Helper()
	w.until("ended", func() bool {
		state, err := p.EndCopy(w.t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
}

// resourceOf returns the path of an instance.
func resourceOf(id cloud.InstanceID) string { return strings.TrimPrefix(string(id), "azure://") }

// machineOf returns the machine of an instance.
func (w *cloudEnv) machineOf(id cloud.InstanceID) fleet.Machine {
	w.t.Helper()
	for _, spec := range w.cloud.Specs() {
		if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), id) {
			return w.fleet.Machine(spec.ID)
		}
	}
	w.t.Fatalf("there is no machine %s", id)
	return fleet.Machine{}
}

// TestAzureCopyIsPrivate: no one can export the snapshot of a disk in use, or the disk made from it. The disk is in the zone of its
// workshop, encrypted as the donor's, tagged for sweeps, and without the host's cache. The guest finds it by its LUN.
func TestAzureCopyIsPrivate(t *testing.T) {
	w := newCopyEnv(t, func(p *simulator.PoolSpec) { p.Zones = []string{"1", "2"} })
	key := "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/diskEncryptionSets/keys"
	os := osDiskOf(w.document(resourceOf(w.a)))
	w.change(http.MethodPatch, os, map[string]any{"properties": map[string]any{
		"encryption": map[string]any{"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": key}}})
	spec := w.rawCopy(w.b)
	have := w.attached(w.p, spec)
	vm := w.document(resourceOf(w.b))
	for what, id := range map[string]string{"snapshot": spec.SnapshotID, "disk": have.ID} {
		d := w.document(id)
		p := d["properties"].(map[string]any)
		if p["networkAccessPolicy"] != "DenyAll" || p["publicNetworkAccess"] != "Disabled" || p["encryption"].(map[string]any)["diskEncryptionSetId"] != key {
			t.Errorf("the %s is %v", what, p)
		}
		for name, value := range ofCopy() {
			if d["tags"].(map[string]any)[name] != value {
				t.Errorf("the tags of the %s are %v", what, d["tags"])
			}
		}
		if zones, _ := d["zones"].([]any); what == "disk" && (len(zones) != 1 || zones[0] != vm["zones"].([]any)[0]) {
			t.Errorf("the disk is in zone %v, and its instance in %v", zones, vm["zones"])
		}
	}
	data := vm["properties"].(map[string]any)["storageProfile"].(map[string]any)["dataDisks"].([]any)
	if len(data) != 1 || data[0].(map[string]any)["caching"] != "None" || data[0].(map[string]any)["deleteOption"] != "Detach" {
		t.Errorf("it is attached as %v", data)
	}
	if further := w.machineOf(w.b).Further; have.Device.Serial != "lun-0" || len(further) != 1 || further[0].Serial != have.Device.Serial ||
		have.Device.Names[0] != "/dev/disk/azure/scsi1/lun0" {
		t.Errorf("its guest finds it by %+v, and has %+v", have.Device, further)
	}
}

// osDiskOf returns the ID of the OS disk of an instance.
func osDiskOf(vm map[string]any) string {
	storage := vm["properties"].(map[string]any)["storageProfile"].(map[string]any)
	return storage["osDisk"].(map[string]any)["managedDisk"].(map[string]any)["id"].(string)
}

// TestAzureCopyIsOfTheMomentOfItsSnapshot: what the donor writes afterwards is in no copy.
func TestAzureCopyIsOfTheMomentOfItsSnapshot(t *testing.T) {
	w := newCopyEnv(t)
	root := fleet.DiskID(strings.ToLower(osDiskOf(w.document(resourceOf(w.a)))))
	w.fleet.WriteFile(root, "nonce", "now")
	have, err := w.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.a, InUse: true, Tags: ofCopy()})
	w.must(err)
	w.fleet.WriteFile(root, "nonce", "later")
	if !have.Taken {
		t.Errorf("the snapshot is %+v", have)
	}
	disk := w.attached(w.p, w.rawCopy(w.b))
	if got := w.fleet.File(fleet.DiskID(strings.ToLower(disk.ID)), "nonce"); got != "now" {
		t.Errorf("the copy has %q", got)
	}
	if m := w.machineOf(w.a); m.Power != fleet.On || m.Boots != 1 {
		t.Errorf("the donor is %+v", m)
	}
}

// TestAzureReadsBeforeTheMomentOfACopy: while the donor's disk stands, there is one request.
func TestAzureReadsBeforeTheMomentOfACopy(t *testing.T) {
	w := newCopyEnv(t)
	_, err := w.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.a, InUse: true, Tags: ofCopy(),
		BeforeCopy: func(context.Context) error { w.cloud.Log.Reset(); return nil }})
	w.must(err)
	if sent := w.cloud.Requests(); len(sent) != 1 || sent[0].Method != http.MethodPut || sent[0].Noun != "snapshot" {
		t.Errorf("while the disk stands, Kamino sends:\n%s", lastOf(sent))
	}
}

// TestAzureCopyIsMadeOnce: processes that follow a kill make no second disk and no second attachment, and find what is left.
func TestAzureCopyIsMadeOnce(t *testing.T) {
	w := newCopyEnv(t)
	spec := w.rawCopy(w.b)
	fresh := func() cloud.Provider { return w.connect(w.environment(w.secret)) }
	var have cloud.DiskCopy
	w.until("attached by many", func() bool {
		var err error
		have, err = fresh().EnsureAttached(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete && have.IsAttached
	})
	if further := w.machineOf(w.b).Further; len(further) != 1 {
		t.Errorf("the guest has the disks %+v", further)
	}
	if all, err := fresh().Copies(t.Context(), w.pool); err != nil || len(all) != 1 || !w.p.SameInstance(all[0].Instance, w.b) {
		t.Fatalf("the copies are %+v, %v", all, err)
	}
	w.endedCopy(fresh(), spec)
	if w.fleet.HasDisk(fleet.DiskID(strings.ToLower(have.ID))) || len(w.machineOf(w.b).Further) > 0 {
		t.Error("the disk is left")
	}
}

// onVMs makes the instances standalone VMs, as of Cluster API. The family is that of the pool.
func (w *cloudEnv) onVMs() {
	w.t.Helper()
	disks, err := provider.NewDisks(w.t.Context(), w.partialConfig())
	w.must(err)
	recipes, err := provider.NewRecipes(w.t.Context(), w.partialConfig())
	w.must(err)
	w.p, w.a, w.b = cloud.New(cloud.DisksOf(disks), cloud.RecipesOf(recipes)), w.vm("donor"), w.vm("workshop")
	for _, id := range []cloud.InstanceID{w.a, w.b} {
		w.until("running", func() bool {
			seen, err := w.p.Instance(w.t.Context(), id)
			w.must(err)
			return seen.Power == cloud.PowerRunning
		})
	}
}

// TestAzureCopyAnswersLost: the answer to each write is lost, after its effect or instead of it. The course is the same, also on
// standalone VMs.
func TestAzureCopyAnswersLost(t *testing.T) {
	for _, phase := range []fault.Phase{fault.Before, fault.After} {
		for _, call := range []struct{ noun, operation string }{{"snapshot", "put"}, {"disk", "put"}, {"instance", "attachDetach"},
			{"disk", "delete"}, {"vm", "attachDetach"}} {
			t.Run(string(phase)+" "+call.noun+" "+call.operation, func(t *testing.T) {
				t.Parallel()
				w := newCopyEnv(t)
				if call.noun == "vm" {
					w.onVMs()
				}
				count := 3 // the SDK tries three times
				if phase == fault.After && call.operation == "attachDetach" {
					count = 1 // the second try conflicts with the first
				}
				w.fault(fault.Fault{Resource: call.noun, Operation: call.operation, Phase: phase, Drop: true, Count: count})
				spec := cloud.CopySpec{Name: "it", Instance: w.b, Tags: ofCopy()}
				seen := func(err error) bool {
					if err != nil && !cloud.Is(err, cloud.Unavailable) {
						t.Fatal(err)
					}
					return err == nil
				}
				w.until("copied", func() bool {
					have, err := w.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.a, InUse: true, Tags: ofCopy()})
					spec.SnapshotID = have.ID
					return seen(err) && have.State == cloud.Complete
				})
				w.until("attached", func() bool {
					have, err := w.p.EnsureAttached(t.Context(), spec)
					return seen(err) && have.State == cloud.Complete && have.IsAttached
				})
				if call.operation == "attachDetach" { // of the detachment too
					w.fault(fault.Fault{Resource: call.noun, Operation: call.operation, Phase: phase, Drop: true, Count: count})
				}
				w.until("ended", func() bool {
					state, err := w.p.EndCopy(t.Context(), spec)
					return seen(err) && state == cloud.Absent
				})
				if all, err := w.p.Copies(t.Context(), w.pool); err != nil || len(all) > 0 || len(w.machineOf(w.b).Further) > 0 {
					t.Errorf("left are %+v, %v", all, err)
				}
				if left := w.cloud.Faults(); len(left) > 0 {
					t.Errorf("too few answers were lost: %+v", left)
				}
				if m := w.machineOf(w.b); m.Boots != 1 || m.Power != fleet.On {
					t.Errorf("the instance is %+v", m)
				}
			})
		}
	}
}

// TestAzureCopyFails: what Azure refuses, and what it does after its answer, has a kind and a remedy.
func TestAzureCopyFails(t *testing.T) {
	for name, test := range map[string]struct {
		fault fault.Fault
		kind  cloud.Kind
		says  string
	}{
		"too many disks": {fault.Fault{Resource: "instance", Operation: "attachDetach", Status: http.StatusConflict, Code: "OperationNotAllowed",
			Message: "The maximum number of data disks allowed to be attached to a VM of this size is 4."}, cloud.QuotaExceeded, "settings.donor.workshopType"},
		"a disk that is in use": {fault.Fault{Resource: "instance", Operation: "attachDetach", Status: http.StatusConflict, Code: "ConflictingUserInput",
			Message: "Cannot attach the disk"}, cloud.Conflict, "Cannot attach the disk"},
		"an attachment that fails later": {fault.Fault{Resource: "instance", Operation: "attachDetach", Long: true, Code: "InternalExecutionError",
			Message: "Azure's own words"}, cloud.Unavailable, "Azure's own words"},
		"no right to the disk": {fault.Fault{Deny: "Microsoft.Compute/disks/write"}, cloud.Denied, "Microsoft.Compute/disks/write"},
		"no right to attach": {fault.Fault{Deny: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/attachDetachDataDisks/action"}, cloud.Denied,
			"attachDetachDataDisks/action"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCopyEnv(t)
			spec := w.rawCopy(w.b)
			f := test.fault
			if f.Deny == "" {
				f.Count = 1
			}
			w.fault(f)
			var err error
			w.until("failed", func() bool {
				_, err = w.p.EnsureAttached(t.Context(), spec)
				return err != nil
			})
			if !cloud.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %s with %q", err, test.kind, test.says)
			}
			if f.Deny == "" { // the next try succeeds
				w.attached(w.p, spec)
			}
		})
	}
	t.Run("a disk that Azure cannot make", func(t *testing.T) {
		w := newCopyEnv(t)
		spec := w.rawCopy(w.b)
		w.fault(fault.Fault{Resource: "disk", Operation: "put", Long: true, Code: "KeyVaultAccessForbidden", Message: "no key", Count: 1})
		var have cloud.DiskCopy
		w.until("failed", func() bool {
			var err error
			have, err = w.p.EnsureAttached(t.Context(), spec)
			w.must(err)
			return have.State == cloud.Failed
		})
		if !strings.Contains(have.Error, "no key") {
			t.Errorf("%+v", have)
		}
		w.endedCopy(w.p, spec)
	})
	t.Run("a disk that is deleted", func(t *testing.T) {
		w := newCopyEnv(t)
		spec := w.rawCopy(w.b)
		have := w.attached(w.p, spec)
		w.until("detached", func() bool {
			now, err := w.p.EnsureDetached(t.Context(), spec)
			w.must(err)
			return now.State == cloud.Complete && !now.IsAttached
		})
		w.change(http.MethodDelete, have.ID, nil)
		w.until("gone", func() bool {
			now, err := w.p.EnsureAttached(t.Context(), spec)
			w.must(err)
			return now.State == cloud.Failed
		})
		w.endedCopy(w.p, spec)
	})
	t.Run("a disk of another client", func(t *testing.T) {
		w := newCopyEnv(t)
		spec := w.rawCopy(w.b)
		w.change(http.MethodPut, "/subscriptions/"+subscription+"/resourceGroups/"+group+"/providers/Microsoft.Compute/disks/copy_it", map[string]any{
			"location": location, "properties": map[string]any{"creationData": map[string]any{"createOption": "Copy", "sourceResourceId": spec.SnapshotID}}})
		_, err := w.p.EnsureAttached(t.Context(), spec)
		w.wantError(err, cloud.Conflict, "kamino-copy-name")
	})
}

// TestAzureCopyElsewhere: a copy in another zone than its workshop is not attached.
func TestAzureCopyElsewhere(t *testing.T) {
	w := newCopyEnv(t, func(p *simulator.PoolSpec) { p.Zones = []string{"1", "2"} })
	spec := w.rawCopy(w.b)
	w.attached(w.p, spec)
	w.until("detached", func() bool {
		have, err := w.p.EnsureDetached(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete && !have.IsAttached
	})
	spec.Instance = w.a
	_, err := w.p.EnsureAttached(t.Context(), spec)
	w.wantError(err, cloud.Invalid, "not in the same zone")
}

// TestAzureWorkshopOfAnotherSize: the workshop has the size of its spec, and else the size of the pool. It boots with its own disks only,
// with the pool's image and customData.
func TestAzureWorkshopOfAnotherSize(t *testing.T) {
	w := newCopyEnv(t)
	for size, want := range map[string]string{"": "Standard_D2s_v5", "Standard_D8s_v5": "Standard_D8s_v5"} {
		spec := cloud.WorkshopSpec{Pool: w.pool, Name: "it-" + size, InstanceType: size, CustomData: []byte("#cloud-config\n"), Tags: ofCopy()}
		have, err := w.p.EnsureWorkshop(t.Context(), spec)
		w.must(err)
		w.until("running", func() bool {
			have, err = w.p.Workshop(t.Context(), spec)
			w.must(err)
			return have.State == cloud.Complete
		})
		set := w.document(strings.Split(resourceOf(have.Instances[0].ID), "/virtualMachines/")[0])
		if sku := set["sku"].(map[string]any); sku["name"] != want {
			t.Errorf("a workshop of the size %q has %v", size, sku)
		}
		storage := w.document(resourceOf(have.Instances[0].ID))["properties"].(map[string]any)["storageProfile"].(map[string]any)
		if len(storage["dataDisks"].([]any)) > 0 || storage["imageReference"].(map[string]any)["publisher"] != "Canonical" {
			t.Errorf("it has %v", storage)
		}
		for _, spec := range w.cloud.Specs() {
			if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), have.Instances[0].ID) && (string(spec.CustomData) != "#cloud-config\n" || !strings.HasPrefix(spec.ComputerName, "kw")) {
				t.Errorf("its machine is %+v", spec)
			}
		}
		w.until("ended", func() bool {
			state, err := w.p.EndWorkshop(t.Context(), spec)
			w.must(err)
			return state == cloud.Absent
		})
	}
}

// TestAzureDonorThatStays: without the right to stop and start a donor, a capture by copy is no worse. Each right that only a capture by
// copy needs has its sentence.
func TestAzureDonorThatStays(t *testing.T) {
	const set = "Microsoft.Compute/virtualMachineScaleSets/"
	for action, refused := range map[string][2]bool{ // in place, by copy
		set + "virtualMachines/powerOff/action":              {true, false},
		set + "virtualMachines/start/action":                 {true, false},
		"Microsoft.Compute/disks/write":                      {false, true},
		"Microsoft.Compute/disks/delete":                     {false, true},
		set + "virtualMachines/attachDetachDataDisks/action": {false, true},
		set + "delete": {false, true},
	} {
		w := newCopyEnv(t)
		w.fault(fault.Fault{Deny: action})
		for copies, want := range map[bool]bool{false: refused[0], true: refused[1]} {
			found, err := w.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.a, Version: version, Copies: copies})
			w.must(err)
			if copies {
				of, err := w.p.PreflightWorkshop(t.Context(), cloud.WorkshopSpec{Pool: w.pool, Name: "it", CustomData: []byte("#cloud-config\n"), Tags: ofCopy()})
				w.must(err)
				found = append(found, of...)
			}
			if want != (len(found) == 1) || want && (found[0].Reason != cloud.PermissionMissing || !strings.Contains(found[0].Message, action)) {
				t.Errorf("without %s, copies %t: %+v", action, copies, found)
			}
		}
	}
}

// TestAzureWorkshopNeedsCustomData: the refusal has both remedies.
func TestAzureWorkshopNeedsCustomData(t *testing.T) {
	w := newCopyEnv(t)
	found, err := w.p.PreflightWorkshop(t.Context(), cloud.WorkshopSpec{Pool: w.pool, Name: "it", Tags: ofCopy()})
	w.must(err)
	if len(found) != 1 || found[0].Reason != cloud.PoolNotCopyable || !strings.Contains(found[0].Remedy, "--custom-data FILE") ||
		!strings.Contains(found[0].Remedy, "settings.donor.method: InPlace") {
		t.Errorf("%+v", found)
	}
	if len(w.scaleSets()) != 1 {
		t.Errorf("there are the scale sets %v", w.scaleSets())
	}
}

// TestAzureWorkshopEndsWithItsCopy: a workshop that is ended with a copy attached leaves the copy free. Without the end of the operation,
// the copy is not free yet.
func TestAzureWorkshopEndsWithItsCopy(t *testing.T) {
	w := newCopyEnv(t)
	spec := cloud.WorkshopSpec{Pool: w.pool, Name: "it", CustomData: []byte("#cloud-config\n"), Tags: ofCopy()}
	have, err := w.p.EnsureWorkshop(t.Context(), spec)
	w.must(err)
	w.until("running", func() bool {
		have, err = w.p.Workshop(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete
	})
	copied := w.rawCopy(have.Instances[0].ID)
	disk := w.attached(w.p, copied)
	w.until("ended", func() bool {
		state, err := w.p.EndWorkshop(t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
	now, err := w.p.Copy(t.Context(), copied)
	if err != nil || now.State != cloud.Complete || now.IsAttached || now.ID != disk.ID || !w.fleet.HasDisk(fleet.DiskID(strings.ToLower(disk.ID))) {
		t.Errorf("%+v, %v", now, err)
	}
	if sets := w.scaleSets(); len(sets) != 1 {
		t.Errorf("there are the scale sets %v", sets)
	}
}
