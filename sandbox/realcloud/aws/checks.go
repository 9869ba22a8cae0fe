package aws

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// check tries an assumption. run returns what it saw.
type check struct {
	name, sentence, expected string
	run                      func(*session, context.Context) (string, error)
}

// checks are the assumptions that can be tried, in an order in which each needs few changes of the group.
var checks = []check{
	{"missing-context", "IAM names the context keys that a policy with conditions lacks",
		"the key is named", (*session).missingContext},
	{"unusable-key", "a volume whose encryption key cannot be used vanishes after the answer of `CreateVolume`",
		"an answer, then no volume", (*session).unusableKey},
	{"old-console", "instances that are not on Nitro refuse `GetConsoleOutput` with `Latest`",
		"UnsupportedOperation", (*session).oldConsole},
	{"other-subnet", "a launch accepts the template's network interfaces with another subnet",
		"an instance in the other subnet", (*session).otherSubnet},
	{"uefi-variables", "`RegisterImage` accepts the UEFI variables of a running instance unchanged",
		"an image that becomes available", (*session).uefiVariables},
	{"root-in-group", "a group does not replace an instance during the replacement of its root volume",
		"the same instances", (*session).rootInGroup},
	{"root-image", "the instance has the new image afterwards",
		"the new image", (*session).rootImage},
	{"disabled-listed", "a disabled image is left out of every list without `IncludeDisabled`, also by its ID",
		"in no list", (*session).disabledListed},
	{"disabled-changed", "a disabled image can be tagged, deregistered, and disabled again",
		"tagged, disabled again, deregistered", (*session).disabledChanged},
	{"warm-smaller", "a warm pool that becomes smaller ends instances that wait in it, and no instance that is leaving it",
		"1 of two came into service", (*session).warmSmaller},
	{"new-version", "a group uses a new version of its template at once, or returns an error",
		"the next instance has the new version", (*session).newVersion},
	{"standby-protection", "an instance in standby keeps its scale-in protection",
		"protected", (*session).standbyProtection},
	{"standby-maximum", "`ExitStandby` returns `ValidationError` if the group is at the maximum size",
		"ValidationError", (*session).standbyMaximum},
	{"standby-hook", "no lifecycle hook runs when an instance leaves standby",
		"in service without a wait", (*session).standbyHook},
	{"standby-termination", "the termination of an instance in standby does not lower the desired capacity",
		"the same desired capacity", (*session).standbyTermination},
	{"standby-zones", "AWS rebalances zones after `EnterStandby`, and launches an instance before the termination",
		"a launch in the empty zone, then a termination", (*session).standbyZones},
	{"volume-token", "`CreateVolume` remembers a client token for the time of a capture",
		"the same volume", (*session).volumeToken},
	{"instance-token", "`RunInstances` remembers a client token for the time of a trial",
		"the same instance", (*session).instanceToken},
	{"terminated-shown", "EC2 shows a terminated instance for about an hour",
		"shown as terminated a while later", (*session).terminatedShown},
}

// unchecked are the assumptions that cannot be tried, with the reason.
var unchecked = map[string]string{
	"`AttachVolume` refuses a volume with product codes with `OperationNotPermitted`":                               "needs a subscription of the AWS Marketplace",
	"a volume from a snapshot, and a snapshot of this volume, keep the billing of RHEL, SUSE and Marketplace disks": "needs an instance with a paid image",
	"AWS derives the billing of RHEL, SUSE and Marketplace disks from the snapshot":                                 "needs an instance with a paid image",
	"IAM knows a size only in requests that set it":                                                                 narrow,
	"`CreateVolume` compares the tags of the snapshot with conditions":                                              narrow,
	"a dry run checks the permission before anything else":                                                          narrow,
	"the replacement of a root volume asks for the action on instance, task, volume and image":                      narrow,
	"an instance that EC2 ended has a `StateReason`, and one value blames the image": "EC2 ends an instance only after a fault of its image, " +
		"and no call makes such an image",
}

// narrow is why the kit cannot check who may do what.
const narrow = "needs a second credential with fewer rights, and the program makes no users or roles"

// Try implements realcloud.Session.
func (s *session) Try(ctx context.Context, name string) (string, error) {
	for _, c := range checks {
		if c.name == name {
			return c.run(s, ctx)
		}
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
