package azure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// moment is when Azure was asked for a snapshot, and when it answered, by Azure's own clock.
type moment struct{ asked, answered time.Time }

// slack is how far clocks and the whole seconds of a Date are apart.
const slack = 2 * time.Second

// shoot makes a snapshot of a disk in use, and a disk of it. Both names are new in each session: the moment is known once.
func (s *session) shoot(ctx context.Context, name, disk string) (copied string, at moment, err error) {
	name += fmt.Sprintf("-%d", s.Now().Unix())
	began := s.Now()
	out, err := s.call(ctx, http.MethodPut, s.snapshot(name), "", s.copyBody(disk, object{"incremental": true}))
	took := s.Now().Sub(began)
	if err != nil {
		return "", at, err
	}
	if at.answered, err = http.ParseTime(out.header.Get("Date")); err != nil {
		return "", at, err
	}
	at.asked = at.answered.Add(-took)
	if err := s.finish(ctx, "a snapshot of a disk in use", out, nil); err != nil {
		return "", at, err
	}
	s.Measure("until a snapshot of a disk in use is made", s.Now().Sub(began))
	return s.disk(name), at, s.do(ctx, "a disk of a snapshot", http.MethodPut, s.disk(name), s.copyBody(s.snapshot(name), nil))
}

// judge compares the times in a copy with the moment of its snapshot.
func (m moment) judge(read line) string {
	flushed, written := read.time("flushed"), read.time("written")
	switch {
	case flushed.IsZero():
		return "no time in the copy"
	case flushed.Before(m.asked.Add(-slack)):
		return "older than the request"
	case flushed.After(m.answered.Add(slack)) || written.After(m.answered.Add(slack)):
		return "newer than the answer"
	}
	return atMoment
}

// readCopy attaches a copy to the second machine of the pool, which reads it.
func (s *session) readCopy(ctx context.Context, disk string) (seen map[string]string, read line, err error) {
	all, err := s.settle(ctx)
	if err != nil {
		return nil, read, err
	}
	reader := s.vm(poolName, all[1].number)
	before, err := s.said(ctx, reader, "copy")
	if err != nil {
		return nil, read, err
	}
	out, err := s.attach(ctx, reader, disk, lunRead)
	if code(err) != "" {
		return map[string]string{"attach-copy": "refused: " + code(err)}, read, nil
	}
	if err != nil {
		return nil, read, err
	}
	seen = map[string]string{"attach-copy": "attached", "attach-listed": "not listed"}
	vm, err := s.get(ctx, reader)
	if err != nil {
		return nil, read, err
	}
	if slices.ContainsFunc((machine{vm, ""}).data(), func(id string) bool { return strings.EqualFold(id, disk) }) {
		seen["attach-listed"] = "listed before the end"
		if text(vm, "properties", "provisioningState") == "Succeeded" {
			seen["attach-listed"] = "listed at the end"
		}
	}
	if err := s.finish(ctx, "attach a copy", out, nil); err != nil {
		return nil, read, err
	}
	seen["attach-managed"] = "no VM"
	if _, err := s.Watch(ctx, realcloud.Settled, func() (bool, error) {
		found, err := s.get(ctx, disk)
		if strings.EqualFold(text(found, "managedBy"), reader) {
			seen["attach-managed"] = "the VM"
		}
		return seen["attach-managed"] == "the VM", err
	}); err != nil {
		return nil, read, err
	}
	if read, err = s.says(ctx, reader, "copy", before); err != nil {
		return nil, read, err
	}
	seen["lun-scsi"] = read.values["where"]
	return seen, read, s.detach(ctx, reader, disk)
}

// tryCopy copies the disk of the first machine while it runs, and has the second read the copy.
func (s *session) tryCopy(ctx context.Context) (map[string]string, error) {
	all, err := s.settle(ctx)
	if err != nil {
		return nil, err
	}
	disk, at, err := s.shoot(ctx, "cached", all[0].osDisk())
	if err != nil {
		return nil, err
	}
	seen, read, err := s.readCopy(ctx, disk)
	if err != nil {
		return nil, err
	}
	seen["moment-cached"] = at.judge(read)
	return seen, nil
}

// ensureVersion makes the version from the stopped machine's disk.
func (s *session) ensureVersion(ctx context.Context) error {
	if err := s.ensure(ctx, "a definition", s.definition("image"), func() object { return s.definitionBody("image", "TrustedLaunch") }); err != nil {
		return err
	}
	return s.ensure(ctx, "a version", s.version("image"), func() object { return s.versionBody(s.snapshot("stopped")) })
}

// trySupported makes a version from the snapshot where it does not fit.
func (s *session) trySupported(ctx context.Context) (map[string]string, error) {
	const name = "supported"
	if err := s.ensure(ctx, "a definition", s.definition(name), func() object { return s.definitionBody(name, "TrustedLaunchSupported") }); err != nil {
		return nil, err
	}
	err := s.do(ctx, "a version that does not fit", http.MethodPut, s.version(name), s.versionBody(s.snapshot("stopped")))
	switch {
	case err == nil:
		return map[string]string{"trusted-supported": "accepted"}, nil
	case code(err) != "":
		return map[string]string{"trusted-supported": "refused"}, nil
	}
	return nil, err
}

// tryTrial makes a scale set beside the pool from the version.
func (s *session) tryTrial(ctx context.Context) (map[string]string, error) {
	if err := s.ensureVersion(ctx); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	made := func() (string, error) {
		out, err := s.call(ctx, http.MethodPut, s.set(trialName), "If-None-Match: *", s.trialBody())
		if err == nil {
			err = s.finish(ctx, "a scale set of one from a version", out, nil)
		}
		switch {
		case err == nil:
			return "made", nil
		case status(err) != 0:
			return fmt.Sprint(status(err)), nil
		}
		return "", err
	}
	if err := s.removeTrial(ctx); err != nil {
		return nil, err
	}
	first, err := made()
	if err != nil {
		return nil, err
	}
	seen["trial-plain"] = "accepted"
	if first != "made" {
		seen["trial-plain"] = "refused: " + first
	}
	again, err := made()
	if err != nil {
		return nil, err
	}
	seen["trial-created"] = first + ", then " + again
	if first != "made" {
		return seen, nil
	}
	all, err := s.mustMachines(ctx, trialName, 1)
	if err != nil {
		return nil, err
	}
	reference := machine{all[0].object, ""}.object
	seen["exact-version"] = "another version"
	if image, _ := at(reference, "properties", "storageProfile", "imageReference").(object); strings.EqualFold(text(image, "id"), s.version("image")) {
		seen["exact-version"] = "the version"
	}
	boot, err := s.says(ctx, s.vm(trialName, all[0].number), "boot", 0)
	if err != nil {
		return nil, err
	}
	seen["trusted-version"] = "booted"
	pool, err := s.mustMachines(ctx, poolName, 2)
	if err != nil {
		return nil, err
	}
	donor, err := s.says(ctx, s.vm(poolName, pool[0].number), "boot", 0)
	seen["uuid-clone"] = map[bool]string{true: "the same", false: "another"}[boot.values["uuid"] == donor.values["uuid"]]
	return seen, err
}

// removeTrial ends the trial of an interrupted run.
func (s *session) removeTrial(ctx context.Context) error {
	found, err := s.find(ctx, s.set(trialName))
	if err != nil || found == nil {
		return err
	}
	out, err := s.call(ctx, http.MethodDelete, s.set(trialName)+"?forceDeletion=true", "", nil)
	if err := s.finish(ctx, "a forced deletion", out, err); err != nil && !isMissing(err) {
		return err
	}
	return s.Until(ctx, "the end of a scale set", realcloud.LookFor, func() (bool, error) {
		found, err := s.find(ctx, s.set(trialName))
		return found == nil, err
	})
}

// theTrial is the machine of the trial, which an interrupted run may have removed.
func (s *session) theTrial(ctx context.Context) (machine, error) {
	found, err := s.find(ctx, s.set(trialName))
	if err != nil {
		return machine{}, err
	}
	if found == nil || text(found, "properties", "provisioningState") != "Succeeded" {
		if _, err := s.tryTrial(ctx); err != nil {
			return machine{}, err
		}
	}
	all, err := s.mustMachines(ctx, trialName, 1)
	if err != nil {
		return machine{}, err
	}
	return all[0], nil
}

// tryUncached copies the disk of the trial's machine while it runs: its disk has no host cache.
func (s *session) tryUncached(ctx context.Context) (map[string]string, error) {
	trial, err := s.theTrial(ctx)
	if err != nil {
		return nil, err
	}
	if view, _ := at(trial.object, "properties", "instanceView").(object); power(view) != "running" {
		if err := s.do(ctx, "start", http.MethodPost, s.vm(trialName, trial.number)+"/start", nil); err != nil {
			return nil, err
		}
	}
	disk, at, err := s.shoot(ctx, "uncached", trial.osDisk())
	if err != nil {
		return nil, err
	}
	_, read, err := s.readCopy(ctx, disk)
	return map[string]string{"moment-uncached": at.judge(read)}, err
}

// tryPremium copies the disk of the trial's machine after its end.
func (s *session) tryPremium(ctx context.Context) (map[string]string, error) {
	trial, err := s.theTrial(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.do(ctx, "power off a running machine", http.MethodPost, s.vm(trialName, trial.number)+"/powerOff", nil); err != nil {
		return nil, err
	}
	seen, err := s.usable(ctx, "premium", trial.osDisk())
	return map[string]string{"snapshot-premium": seen}, err
}

// tryNoConsole takes the console away, and asks for it.
func (s *session) tryNoConsole(ctx context.Context) (map[string]string, error) {
	trial, err := s.theTrial(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.patch(ctx, "disable boot diagnostics", trialName,
		object{"virtualMachineProfile": object{"diagnosticsProfile": object{"bootDiagnostics": object{"enabled": false}}}}); err != nil {
		return nil, err
	}
	if err := s.do(ctx, "upgrade an instance", http.MethodPost, s.set(trialName)+"/manualupgrade", object{"instanceIds": []string{trial.number}}); err != nil {
		return nil, err
	}
	_, err = s.call(ctx, http.MethodPost, s.vm(trialName, trial.number)+"/retrieveBootDiagnosticsData", "", nil)
	if err != nil && status(err) == 0 {
		return nil, err
	}
	if err == nil {
		return map[string]string{"console-disabled": "an answer"}, nil
	}
	return map[string]string{"console-disabled": fmt.Sprint(status(err))}, nil
}

// tryForced deletes the trial by force while a copy is attached to its machine.
func (s *session) tryForced(ctx context.Context) (map[string]string, error) {
	trial, err := s.theTrial(ctx)
	if err != nil {
		return nil, err
	}
	copied := s.disk("premium")
	if _, err := s.usable(ctx, "premium", trial.osDisk()); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(trial.data(), func(id string) bool { return strings.EqualFold(id, copied) }) {
		out, err := s.attach(ctx, s.vm(trialName, trial.number), copied, lunRead)
		if err := s.finish(ctx, "attach a copy", out, err); err != nil {
			return nil, err
		}
	}
	if err := s.removeTrial(ctx); err != nil {
		return nil, err
	}
	seen := map[string]string{"forced-copy": "gone", "forced-disks": "no disk"}
	_, err = s.Watch(ctx, realcloud.Quiet, func() (bool, error) {
		left, err := s.find(ctx, trial.osDisk())
		if err != nil {
			return false, err
		}
		kept, err := s.find(ctx, copied)
		if err != nil {
			return false, err
		}
		if kept != nil {
			seen["forced-copy"] = "kept, " + strings.ToLower(text(kept, "properties", "diskState"))
		}
		seen["forced-disks"] = map[bool]string{true: "no disk", false: "a disk"}[left == nil]
		return seen["forced-copy"] == "kept, unattached" && left == nil, nil
	})
	return seen, err
}
