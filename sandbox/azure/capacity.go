package azure

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// instancesOf lists the instances of a scale set by number.
func (st *state) instancesOf(set *scaleSet) []*instance {
	prefix := fold(set.ID) + "/virtualmachines/"
	var out []*instance
	for key, i := range st.Instances {
		if strings.HasPrefix(key, prefix) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *instance) int { return int(a.Number - b.Number) })
	return out
}

// machines creates, deletes and upgrades instances in the fleet.
type machines struct {
	*backend
	models models
	rolled *automaticUpgrades
}

func (s machines) work() map[string]job {
	return map[string]job{
		"scaleset.apply":  {s.apply, failApply},
		"scaleset.delete": {s.deleteSet, failRemoval},
		"instance.delete": {s.deleteInstances, failDelete},
	}
}

// failApply records that a scale set could not follow its model. An ordered failure with effect belongs to the new
// instances, such as a guest that does not report in time.
func failApply(st *state, op operation, p *problem) {
	written(st, op, p)
	set := st.ScaleSets[fold(op.Target)]
	if set == nil || !op.Effect {
		return
	}
	for _, i := range st.instancesOf(set) {
		if i.State != stateDeleting && !i.Created.Before(op.Began) {
			i.end(p)
		}
	}
}

// Waves bound how many machines are made at once.
const (
	wave      = 8
	lightWave = 256
)

// apply makes a scale set follow its model: the number of instances and, unless upgrades are manual, the image.
func (s machines) apply(ctx context.Context, op operation) (func(*state), error) {
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	for {
		create, remove, err := s.planCapacity(op)
		if err != nil {
			return nil, err
		}
		if len(create)+len(remove) == 0 {
			break
		}
		if err := s.createAll(ctx, op, create); err != nil {
			return nil, err
		}
		if err := s.terminateAll(ctx, remove); err != nil {
			return nil, err
		}
	}
	if err := s.rollOut(ctx, op); err != nil {
		return nil, err
	}
	return func(st *state) {
		if set := st.ScaleSets[fold(op.Target)]; set != nil && set.State != stateDeleting {
			set.end(nil)
		}
	}, nil
}

// planCapacity records and returns the instances to create and to remove.
func (s machines) planCapacity(op operation) (create, remove []string, err error) {
	err = s.store.Write(func(st *state) error {
		set := st.ScaleSets[fold(op.Target)]
		if set == nil || set.State == stateDeleting {
			return nil
		}
		var live []*instance
		for _, i := range st.instancesOf(set) {
			if i.State != stateDeleting {
				live = append(live, i)
			} else if !st.inOperation(i.key()) {
				remove = append(remove, i.ID) // a former server's work
			}
		}
		if missing := int(set.capacity()) - len(live); missing > 0 {
			img, p := s.models.resolve(st, set.profile())
			if p != nil {
				return p
			}
			for range missing {
				live = append(live, s.newInstance(st, set, img))
			}
		}
		remove = append(remove, s.shrink(set, live)...)
		for _, i := range live {
			if i.State == stateCreating {
				create = append(create, i.ID)
			}
		}
		return nil
	})
	return create, remove, err
}

// inOperation reports whether an operation on the instance runs, alone or with others.
func (st *state) inOperation(key string) bool {
	for _, op := range st.Operations {
		if op.Status == statusInProgress && (fold(op.Target) == key || slices.ContainsFunc(op.Targets, func(id string) bool { return fold(id) == key })) {
			return true
		}
	}
	return false
}

// shrink chooses the instances for a scale-in, newest first, without protected instances. If too few instances can
// go, the capacity stays higher.
func (s machines) shrink(set *scaleSet, live []*instance) []string {
	surplus := len(live) - int(set.capacity())
	var gone []string
	for _, i := range slices.Backward(live) {
		if len(gone) >= surplus {
			break
		}
		if !i.protected() {
			i.State = stateDeleting
			gone = append(gone, i.ID)
		}
	}
	if surplus > len(gone) {
		set.setCapacity(int64(len(live) - len(gone)))
	}
	return gone
}

func (s *scaleSet) setCapacity(n int64) {
	body := copyObject(s.Body)
	put(body, n, "sku", "capacity")
	s.Body = body
	s.Revision++
}

// newInstance records an instance and its disk.
func (s machines) newInstance(st *state, set *scaleSet, img image) *instance {
	number := set.NextInstance
	set.NextInstance++
	id := set.id().child("virtualMachines", strconv.FormatInt(number, 10))
	body := object{"location": s.config.Location, "tags": copyObject(tagsOf(set.Body)), "sku": object{
		"name": text(set.Body, "sku", "name"), "tier": text(set.Body, "sku", "tier")}, "properties": object{}}
	i := &instance{resource: newResource(id, body), Number: number, Model: set.Model, VMID: newUUID(),
		Image: copyObject(img.reference), Exact: img.exact, Generation: img.generation}
	if zones := list(set.Body, "zones"); len(zones) > 0 {
		i.Zone, _ = zones[int(number)%len(zones)].(string)
	}
	s.newDisk(st, set, i)
	st.Instances[i.key()] = i
	return i
}

// newDisk notes the OS disk of an instance. Compute writes the resource group of such disks in capitals.
func (s machines) newDisk(st *state, set *scaleSet, i *instance) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	name := set.id().name()
	id := resourceID{subscription: set.id().subscription, group: strings.ToUpper(set.id().group), namespace: computeNamespace,
		types: []string{"disks"}, names: []string{fmt.Sprintf("%s_%s_%d_OsDisk_1_%s", name, name, i.Number, hex.EncodeToString(random[:]))}}
	i.Disk = id.String()
	profile := set.Profiles[i.Model]
	if child(profile, "storageProfile", "osDisk", "diffDiskSettings") != nil {
		return // ephemeral: on the host, without a resource
	}
	size, given := number(profile, "storageProfile", "osDisk", "diskSizeGB")
	if !given {
		size = 30
	}
	properties := object{"osType": text(profile, "storageProfile", "osDisk", "osType"), "hyperVGeneration": i.Generation,
		"diskSizeGB": size, "diskSizeBytes": size << 30, "creationData": s.creationData(i),
		"encryption":            object{"type": "EncryptionAtRestWithPlatformKey"},
		"supportedCapabilities": object{"architecture": architectureOf(text(set.Body, "sku", "name"))}}
	if set := text(profile, "storageProfile", "osDisk", "managedDisk", "diskEncryptionSet", "id"); set != "" {
		properties["encryption"] = object{"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": set}
	}
	if security := text(profile, "securityProfile", "securityType"); security != "" {
		properties["securityProfile"] = object{"securityType": security}
	}
	sku := text(profile, "storageProfile", "osDisk", "managedDisk", "storageAccountType")
	body := object{"location": s.config.Location, "sku": object{"name": sku, "tier": strings.Split(sku, "_")[0]}, "properties": properties}
	if set.Light {
		body["sandboxLight"] = true
	}
	d := &disk{resource: newResource(id, body), Owner: i.ID}
	d.State = stateSucceeded
	st.Disks[d.key()] = d
}

// architectureOf reads it from a size: a "p" after the number means Arm.
func architectureOf(size string) string {
	parts := strings.Split(size, "_")
	if len(parts) > 1 && strings.Contains(strings.TrimLeft(parts[1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"), "p") {
		return "Arm64"
	}
	return "x64"
}

// createAll creates machines in waves, and records each wave in a single change.
func (s machines) createAll(ctx context.Context, op operation, ids []string) error {
	for chunk := range slices.Chunk(ids, s.waveOf(op.Target)) {
		results := make([]error, len(chunk))
		each(chunk, func(n int, id string) { results[n] = s.create(ctx, op, id) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := s.store.Write(func(st *state) error {
			for n, id := range chunk {
				if i := st.Instances[fold(id)]; i != nil && i.State == stateCreating {
					i.Launched = results[n] == nil
					i.end(asProblem(results[n]))
				}
			}
			return nil
		})
		if err := errors.Join(append(results, err)...); err != nil {
			return err
		}
	}
	return nil
}

func (s machines) waveOf(set string) int {
	n := wave
	s.store.Read(func(st *state) {
		if found := st.ScaleSets[fold(set)]; found != nil && found.Light {
			n = lightWave
		}
	})
	return n
}

// each calls f for all elements in parallel, and waits.
func each(ids []string, f func(int, string)) {
	var all sync.WaitGroup
	for n, id := range ids {
		all.Go(func() { f(n, id) })
	}
	all.Wait()
}

// create creates a machine: the disk from the image, then the power.
func (s machines) create(ctx context.Context, op operation, id string) error {
	var source string
	var due time.Time
	s.store.Read(func(st *state) {
		if i := st.Instances[fold(id)]; i != nil {
			due = i.Created.Add(s.config.Clock.Real(s.config.Latencies.Create))
			source = contentOf(i)
		}
	})
	if due.IsZero() {
		return nil
	}
	if !op.Flags["instant"] {
		if err := s.until(due); err != nil {
			return err
		}
	}
	spec, known := s.spec(id)
	if !known || s.config.Fleet.Power(id) != fleet.Off {
		return nil // deleted meanwhile, or launched by an earlier server that could not record the launch
	}
	if !spec.Light {
		if err := s.config.Fleet.CopyDisk(ctx, spec.Disk, diskOf(source)); err != nil {
			return err
		}
	}
	return s.config.Fleet.Launch(ctx, spec)
}

// contentOf is the content for the disk of an instance.
func contentOf(i *instance) string {
	if id := text(i.Image, "id"); id != "" {
		parsed, _ := parseID(id)
		if parsed.is("galleries/images") {
			return parsed.child("versions", i.Exact).String()
		}
		if strings.EqualFold(parsed.name(), "latest") {
			return parsed.parent().child("versions", i.Exact).String()
		}
		return id
	}
	return strings.Join([]string{text(i.Image, "publisher"), text(i.Image, "offer"), text(i.Image, "sku"), text(i.Image, "version")}, ":")
}

// terminateAll deletes instances with their machines and disks.
func (s machines) terminateAll(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, lightWave) {
		results := make([]error, len(chunk))
		began := time.Now()
		each(chunk, func(n int, id string) { results[n] = s.terminate(ctx, began, id) })
		if err := errors.Join(results...); err != nil {
			return err
		}
		err := s.store.Write(func(st *state) error {
			for _, id := range chunk {
				st.forgetInstance(id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s machines) terminate(ctx context.Context, began time.Time, id string) error {
	if err := s.until(began.Add(s.config.Clock.Real(s.config.Latencies.Terminate))); err != nil {
		return err
	}
	content, light := "", false
	s.store.Read(func(st *state) {
		if i := st.Instances[fold(id)]; i != nil {
			content = i.Disk
		}
	})
	if spec, known := s.spec(id); known {
		light = spec.Light
	}
	if err := s.config.Fleet.Terminate(ctx, id); err != nil || light || content == "" {
		return err
	}
	return s.config.Fleet.DeleteDisk(ctx, diskOf(content))
}

func (st *state) forgetInstance(id string) {
	if i := st.Instances[fold(id)]; i != nil {
		st.freeDisks(i)
		delete(st.Disks, fold(i.Disk))
		delete(st.Instances, fold(id))
		delete(st.Alone, fold(id))
	}
}

func (s machines) deleteSet(ctx context.Context, op operation) (func(*state), error) {
	var ids []string
	s.store.Read(func(st *state) {
		if set := st.ScaleSets[fold(op.Target)]; set != nil {
			for _, i := range st.instancesOf(set) {
				ids = append(ids, i.ID)
			}
		}
	})
	if err := s.terminateAll(ctx, ids); err != nil {
		return nil, err
	}
	return func(st *state) { st.remove(op.Target) }, s.wait(op, 1)
}

// failDelete restores the instances of a failed deletion.
func failDelete(st *state, op operation, p *problem) {
	for _, id := range op.Targets {
		i := st.Instances[fold(id)]
		if i == nil {
			continue
		}
		i.end(p)
		if set := st.setOf(i); set != nil {
			set.setCapacity(set.capacity() + 1)
		}
	}
}

func (s machines) deleteInstances(ctx context.Context, op operation) (func(*state), error) {
	return nil, s.terminateAll(ctx, op.Targets)
}
