package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// tryConsole waits for the first line of each machine.
func (s *session) tryConsole(ctx context.Context) (map[string]string, error) {
	all, err := s.mustMachines(ctx, poolName, 2)
	if err != nil {
		return nil, err
	}
	began := s.Now()
	for _, m := range all {
		if _, err := s.says(ctx, s.vm(poolName, m.number), "boot", 0); err != nil {
			return nil, err
		}
	}
	s.Measure("until a console has the end of the boot", s.Now().Sub(began))
	return map[string]string{"console": "a log"}, nil
}

// etag is that of the pool; empty if Azure returns none.
func (s *session) etag(ctx context.Context) (string, error) {
	out, err := s.call(ctx, http.MethodGet, s.set(poolName), "", nil)
	if err != nil {
		return "", err
	}
	if e := text(out.object, "etag"); e != "" {
		return e, nil
	}
	return out.header.Get("ETag"), nil
}

// patch changes the pool, and waits.
func (s *session) patch(ctx context.Context, what, set string, properties object) error {
	return s.do(ctx, what, http.MethodPatch, s.set(set), object{"properties": properties})
}

// tryETags writes with another ETag, and changes the upgrade policy while all machines have the model.
func (s *session) tryETags(ctx context.Context) (map[string]string, error) {
	before, err := s.etag(ctx)
	if err != nil {
		return nil, err
	}
	if before == "" {
		return map[string]string{"etag-stale": "no ETag", "etag-policy": "no ETag"}, nil
	}
	out, err := s.call(ctx, http.MethodPatch, s.set(poolName), `If-Match: "another"`, object{"tags": s.Tags()})
	seen := map[string]string{}
	switch {
	case status(err) == http.StatusPreconditionFailed:
		seen["etag-stale"] = "412 for another ETag"
	case status(err) != 0:
		seen["etag-stale"] = fmt.Sprintf("%d for another ETag", status(err))
	case err != nil:
		return nil, err
	default:
		seen["etag-stale"] = "accepted with another ETag"
		if err := s.finish(ctx, "change tags", out, nil); err != nil {
			return nil, err
		}
	}
	policy := func(mode string) error {
		return s.patch(ctx, "change the upgrade policy", poolName, object{"upgradePolicy": object{"mode": mode}})
	}
	if before, err = s.etag(ctx); err != nil {
		return nil, err
	}
	if err := policy("Automatic"); err != nil {
		return nil, err
	}
	after, err := s.etag(ctx)
	if err != nil {
		return nil, err
	}
	seen["etag-policy"] = map[bool]string{true: "another ETag", false: "the same ETag"}[after != before]
	return seen, policy("Manual")
}

// tryProtection writes the protection of an instance alone.
func (s *session) tryProtection(ctx context.Context) (map[string]string, error) {
	all, err := s.mustMachines(ctx, poolName, 2)
	if err != nil {
		return nil, err
	}
	path := s.vm(poolName, all[0].number)
	before, err := s.get(ctx, path)
	if err != nil {
		return nil, err
	}
	protect := func(is bool) error {
		return s.do(ctx, "protect an instance", http.MethodPut, path,
			object{"location": s.region, "properties": object{"protectionPolicy": object{"protectFromScaleIn": is}}})
	}
	if err := protect(true); err != nil {
		return nil, err
	}
	after, err := s.get(ctx, path)
	if err != nil {
		return nil, err
	}
	if is, _ := at(after, "properties", "protectionPolicy", "protectFromScaleIn").(bool); !is {
		return map[string]string{"protection": "no protection"}, protect(false)
	}
	changed := differing(before, after, "etag", "protectionPolicy", "provisioningState", "instanceView", "timeCreated") // the simulation rounds its times
	if len(changed) > 0 {
		return map[string]string{"protection": "changed: " + strings.Join(changed, ", ")}, protect(false)
	}
	return map[string]string{"protection": "all fields kept"}, protect(false)
}

// differing names the fields of a resource, and of its properties, that differ.
func differing(a, b object, except ...string) (names []string) {
	skip := map[string]bool{}
	for _, name := range except {
		skip[name] = true
	}
	fields := func(o object) map[string]string {
		out := map[string]string{}
		properties, _ := o["properties"].(object)
		for prefix, of := range map[string]object{"": o, "properties.": properties} {
			for k, v := range of {
				if !skip[k] && k != "properties" {
					text, _ := json.Marshal(v) // of an answer in JSON
					out[prefix+k] = string(text)
				}
			}
		}
		return out
	}
	before, after := fields(a), fields(b)
	for name := range maps.Keys(before) {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return names
}

// tryExtensions gives the model an extension, and takes it away before any machine has it.
func (s *session) tryExtensions(ctx context.Context) (map[string]string, error) {
	set := func(all ...object) error {
		return s.patch(ctx, "change the extensions of the model", poolName, object{"virtualMachineProfile": object{"extensionProfile": object{"extensions": all}}})
	}
	if err := set(object{"name": "health", "properties": object{"publisher": "Microsoft.ManagedServices", "type": healthType, "typeHandlerVersion": "1.0",
		"settings": object{"protocol": "tcp", "port": 22}}}); err != nil {
		return nil, err
	}
	if err := set([]object{}...); err != nil {
		return nil, err
	}
	model, err := s.get(ctx, s.set(poolName))
	if err != nil {
		return nil, err
	}
	if n := len(list(model, "properties", "virtualMachineProfile", "extensionProfile", "extensions")); n > 0 {
		return map[string]string{"extension-removed": fmt.Sprintf("%d extensions", n)}, nil
	}
	return map[string]string{"extension-removed": "no extension"}, nil
}

// tryPower has a guest switch itself off, copies its disk, and starts it again.
func (s *session) tryPower(ctx context.Context) (map[string]string, error) {
	all, err := s.settle(ctx)
	if err != nil {
		return nil, err
	}
	donor, path, seen := all[0], s.vm(poolName, all[0].number), map[string]string{}
	boots, err := s.said(ctx, path, "boot")
	if err != nil {
		return nil, err
	}
	before, err := s.says(ctx, path, "boot", boots-1)
	if err != nil {
		return nil, err
	}
	if seen["guest-off"], err = s.switchOff(ctx, donor); err != nil {
		return nil, err
	}
	if err := s.do(ctx, "power off a stopped machine", http.MethodPost, path+"/powerOff", nil); err != nil {
		return nil, err
	}
	if err := s.Wait(ctx, realcloud.Settled); err != nil {
		return nil, err
	}
	if seen["stays-stopped"], err = s.power(ctx, path); err != nil {
		return nil, err
	}
	if seen["snapshot-standard"], err = s.usable(ctx, "stopped", donor.osDisk()); err != nil {
		return nil, err
	}
	if err := s.detach(ctx, path, s.disk("signal")); err != nil {
		return nil, err
	}
	if err := s.do(ctx, "start", http.MethodPost, path+"/start", nil); err != nil {
		return nil, err
	}
	after, err := s.says(ctx, path, "boot", boots)
	if err != nil {
		return nil, err
	}
	started, err := s.get(ctx, path)
	if err != nil {
		return nil, err
	}
	seen["start-keeps"] = "the same disk and address"
	if !strings.EqualFold(machine{started, ""}.osDisk(), donor.osDisk()) {
		seen["start-keeps"] = "another disk"
	} else if after.values["address"] != before.values["address"] {
		seen["start-keeps"] = "another address"
	}
	seen["uuid-kept"] = map[bool]string{true: "the same", false: "another"}[after.values["uuid"] == before.values["uuid"]]
	return seen, nil
}

// power is the power state of a machine.
func (s *session) power(ctx context.Context, vm string) (string, error) {
	view, err := s.get(ctx, vm+"/instanceView")
	return power(view), err
}

// switchOff attaches the disk that makes a guest switch itself off, and looks how Azure shows that.
func (s *session) switchOff(ctx context.Context, m machine) (string, error) {
	path := s.vm(poolName, m.number)
	for _, step := range []struct {
		path, source string
		more         object
	}{{s.snapshot("signal"), m.osDisk(), object{"incremental": true}}, {s.disk("signal"), s.snapshot("signal"), nil}} {
		if err := s.ensure(ctx, "copy a disk", step.path, func() object { return s.copyBody(step.source, step.more) }); err != nil {
			return "", err
		}
	}
	out, err := s.attach(ctx, path, s.disk("signal"), lunOff)
	if err := s.finish(ctx, "attach a disk", out, err); err != nil {
		return "", err
	}
	began, state := s.Now(), ""
	isOff, err := s.Watch(ctx, realcloud.LookFor, func() (bool, error) {
		state, err = s.power(ctx, path)
		return state == "stopped" || state == "deallocated", err
	})
	if err != nil {
		return "", err
	}
	took := s.Now().Sub(began)
	s.Measure("until a guest's own power-off is shown", took)
	switch {
	case !isOff:
		return "still " + state, nil
	case took > time.Minute:
		return state + " later than in a minute", nil
	}
	return state + " in a minute", nil
}

// usable makes an incremental snapshot of a disk and, at once, a disk of it.
func (s *session) usable(ctx context.Context, name, disk string) (string, error) {
	if err := s.ensure(ctx, "an incremental snapshot", s.snapshot(name), func() object { return s.copyBody(disk, object{"incremental": true}) }); err != nil {
		return "", err
	}
	err := s.ensure(ctx, "a disk of a snapshot", s.disk(name), func() object { return s.copyBody(s.snapshot(name), nil) })
	if code(err) != "" {
		return "refused: " + code(err), nil
	}
	return "a disk of it", err
}

// tryRecipe changes the model as a promotion does, and lets the pool grow by it.
func (s *session) tryRecipe(ctx context.Context) (map[string]string, error) {
	all, err := s.settle(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.ensureVersion(ctx); err != nil {
		return nil, err
	}
	seen := map[string]string{"image-patch": "accepted"}
	err = s.patch(ctx, "change the image of the model", poolName, object{"virtualMachineProfile": object{"storageProfile": object{"imageReference": object{
		"id": s.version("image"), "publisher": nil, "offer": nil, "sku": nil, "version": nil}}}})
	switch {
	case code(err) != "":
		seen["image-patch"] = "refused: " + code(err)
	case err != nil:
		return nil, err
	}
	if err := s.Wait(ctx, realcloud.Quiet); err != nil {
		return nil, err
	}
	now, err := s.mustMachines(ctx, poolName, 2)
	if err != nil {
		return nil, err
	}
	seen["image-instances"] = "no instance changed"
	for n, m := range all {
		if now[n].number != m.number || now[n].osDisk() != m.osDisk() || text(now[n].object, "properties", "vmId") != text(m.object, "properties", "vmId") {
			seen["image-instances"] = "an instance changed"
		}
	}
	if seen["data-kept"], err = s.grow(ctx, s.putWithoutData); err != nil {
		return nil, err
	}
	seen["data-kept"] = map[string]string{"yes": "the old value", "no": "no value"}[seen["data-kept"]]
	const empty = "I2Nsb3VkLWNvbmZpZwp7fQo=" // #cloud-config {}
	data, err := s.grow(ctx, func(ctx context.Context) error {
		return s.patch(ctx, "empty the customData", poolName, object{"virtualMachineProfile": object{"osProfile": object{"customData": empty}}})
	})
	switch {
	case code(err) != "":
		seen["data-patch"] = "refused: " + code(err)
	case err != nil:
		return nil, err
	default:
		seen["data-patch"] = map[string]string{"yes": "accepted, with the old value", "no": "accepted, without the old value"}[data]
	}
	return seen, nil
}

// putWithoutData writes the whole model as Azure shows it: without customData.
func (s *session) putWithoutData(ctx context.Context) error {
	model, err := s.get(ctx, s.set(poolName))
	if err != nil {
		return err
	}
	for _, shown := range []string{"id", "name", "type", "etag"} {
		delete(model, shown)
	}
	properties, _ := model["properties"].(object)
	for _, shown := range []string{"provisioningState", "uniqueId", "timeCreated"} {
		delete(properties, shown)
	}
	return s.do(ctx, "write the whole model", http.MethodPut, s.set(poolName), model)
}

// grow changes the model of the pool, and lets the third machine be made of it. It returns whether that has the customData.
func (s *session) grow(ctx context.Context, change func(context.Context) error) (string, error) {
	size := func(n int) error {
		return s.do(ctx, fmt.Sprintf("a pool of %d", n), http.MethodPatch, s.set(poolName), object{"sku": object{"name": smallSize, "tier": "Standard", "capacity": n}})
	}
	if err := size(2); err != nil {
		return "", err
	}
	if err := change(ctx); err != nil {
		return "", err
	}
	if err := size(maxPool); err != nil {
		return "", err
	}
	all, err := s.mustMachines(ctx, poolName, maxPool)
	if err != nil {
		return "", err
	}
	said, err := s.says(ctx, s.vm(poolName, all[len(all)-1].number), "boot", 0)
	return said.values["data"], err
}
