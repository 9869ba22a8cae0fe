package azure

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// check tries an assumption, alone or with others: an act returns what it saw for each of them.
type check struct {
	name, sentence, expected string
	act                      act
}

// act answers several checks, by name.
type act struct {
	name string
	run  func(*session, context.Context) (map[string]string, error)
}

var (
	consoles   = act{"consoles", (*session).tryConsole}
	etags      = act{"etags", (*session).tryETags}
	protection = act{"protection", (*session).tryProtection}
	extensions = act{"extensions", (*session).tryExtensions}
	copies     = act{"copies", (*session).tryCopy}
	powers     = act{"powers", (*session).tryPower}
	supported  = act{"supported", (*session).trySupported}
	trials     = act{"trials", (*session).tryTrial}
	uncached   = act{"uncached", (*session).tryUncached}
	premium    = act{"premium", (*session).tryPremium}
	noConsole  = act{"no-console", (*session).tryNoConsole}
	forced     = act{"forced", (*session).tryForced}
	recipes    = act{"recipes", (*session).tryRecipe}
)

const atMoment = "what was flushed before the request, and nothing after the answer"

// checks are the assumptions that can be tried, in an order in which each finds the machines as it needs them.
var checks = []check{
	{"console", "a scale set may have boot diagnostics with managed storage, and the log is readable within minutes of the boot", "a log", consoles},
	{"etag-stale", "`If-Match` on a scale set works where Azure returns an ETag", "412 for another ETag", etags},
	{"etag-policy", "a change of the upgrade policy changes the ETag", "another ETag", etags},
	{"protection", "a write of the instance with the scale-in protection alone keeps the other fields", "all fields kept", protection},
	{"extension-removed", "Azure removes an extension that a patch of the list omits; Azure sometimes does not, so Kamino checks", "no extension", extensions},
	{"moment-cached", "a snapshot of a disk in use holds what the guest has flushed through the host's cache, and no write after the answer of the PUT",
		atMoment, copies},
	{"attach-copy", "the subscription has `attachDetachDataDisks`, and the copy of an OS disk can be attached as a data disk, also with Trusted Launch",
		"attached", copies},
	{"attach-listed", "the disk is in the VM's list from the begin of the operation", "listed before the end", copies},
	{"attach-managed", "`managedBy` of the disk follows", "the VM", copies},
	{"lun-scsi", "guests show LUNs as azure-vm-utils reads them: SCSI controllers `f8b3781b` to `f8b3781d`", "scsi", copies},
	{"guest-off", "a guest that powers off by SysRq appears as \"VM stopped\" within seconds", "stopped in a minute", powers},
	{"stays-stopped", "after `powerOff` it stays stopped without deallocation", "stopped", powers},
	{"snapshot-standard", "an incremental snapshot of a stopped machine can be used at once: Standard SSD", "a disk of it", powers},
	{"start-keeps", "`start` keeps disk and address", "the same disk and address", powers},
	{"uuid-kept", "`product_uuid` survives stop and start", "the same", powers},
	{"trusted-supported", "a version of such a snapshot is refused in a definition with `TrustedLaunchSupported`", "refused", supported},
	{"trial-created", "`If-None-Match: *` creates the scale set, once", "made, then 412", trials},
	{"trial-plain", "Azure accepts empty `customData`, no extensions and no balancer", "accepted", trials},
	{"exact-version", "with `excludeFromLatest`, a scale set of the region can still name the exact version", "the version", trials},
	{"trusted-version", "a definition with `TrustedLaunch` and a snapshot of such a disk make a bootable version", "booted", trials},
	{"uuid-clone", "`product_uuid` differs on a clone", "another", trials},
	{"moment-uncached", "a snapshot of a disk in use holds what the guest has flushed without a host cache, and no write after the answer of the PUT",
		atMoment, uncached},
	{"snapshot-premium", "an incremental snapshot of a stopped machine can be used at once: Premium SSD", "a disk of it", premium},
	{"console-disabled", "the code for disabled boot diagnostics is 409", "409", noConsole},
	{"forced-copy", "a forced deletion of the scale set detaches the copy, and keeps it", "kept, unattached", forced},
	{"forced-disks", "a forced deletion of the scale set removes the disks of its instances", "no disk", forced},
	{"image-patch", "Azure accepts a merge patch of `imageReference` with null for publisher, offer, sku and version, and a new `id`", "accepted", recipes},
	{"image-instances", "with Manual upgrade policy, such a patch changes no running instance", "no instance changed", recipes},
	{"data-kept", "a PUT without customData keeps the old value", "the old value", recipes},
	{"data-patch", "Azure accepts a patch of `osProfile.customData` to an empty cloud-config", "accepted, without the old value", recipes},
}

// unchecked are the assumptions that cannot be tried, with the reason.
var unchecked = map[string]string{
	"under the Manual policy, a rolling upgrade shows the scale set as `Updating`, and `rollingUpgrades/latest` has `RollingForward`": "needs a health " +
		"probe that answers, and more machines than a run has",
	"ten models are those of instances and the latest one, and an upgrade to the latest model is allowed at the limit": "needs ten machines; a run has four",
	"a handler with its sequence number (`mrseq`) does not run settings again, also after a reinstallation": "needs an extension with effects in the " +
		"machine, which would come from outside the network of the run",
	"snapshots work with the same disk encryption set":                       "needs a key vault, which stays for days after its deletion",
	"a node of a static-profile image of AKS Engine joins without bootstrap": "needs a cluster of AKS Engine",
	"the instance registers, and the cloud provider finds it by its prefix":  "needs a cluster; see `--cluster`",
	"`ProvisioningState/failed/CODE` appears in the view of the instance, or of the scale set": "Azure fails an instance only after a fault of its image, " +
		"and no call makes such an image",
	"guests show LUNs as azure-vm-utils reads them: NVMe namespaces from 2 on": "the smallest machines have no NVMe controllers",
}

// Try implements realcloud.Session.
func (s *session) Try(ctx context.Context, name string) (string, error) {
	for _, c := range checks {
		if c.name != name {
			continue
		}
		if s.seen[c.act.name] == nil {
			seen, err := c.act.run(s, ctx)
			if err != nil {
				return "", err
			}
			s.seen[c.act.name] = seen
		}
		return s.seen[c.act.name][name], nil
	}
	return "", fmt.Errorf("there is no check %s", name)
}

// assumptions are those of the checks.
func assumptions() (all []realcloud.Assumption) {
	for _, c := range checks {
		all = append(all, realcloud.Assumption{Name: c.name, Sentence: c.sentence, Expected: c.expected})
	}
	return all
}
