package realcloud

import (
	"context"
	"fmt"
	"time"
)

// Outcomes of a check.
const (
	AsAssumed = "as assumed"
	Differs   = "differs"
	// Unclear: an error, or nothing in the time of the check.
	Unclear = "unclear"
)

// Check is an assumption that was tried.
type Check struct {
	Name string `json:"name"`
	// Sentence is the row of docs/reference/aws.md.
	Sentence string `json:"sentence"`
	Expected string `json:"expected"`
	// Seen has no IDs and no times, so that two clouds can be compared.
	Seen    string  `json:"seen"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
}

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
	"a disabled image can be tagged, deregistered, and disabled again":                                              unwritten,
	"a disabled image is left out of every list without `IncludeDisabled`, also by its ID":                          unwritten,
	"a warm pool that becomes smaller ends instances that wait in it, and no instance that is leaving it":           unwritten,
	"an instance that EC2 ended has a `StateReason`, and one value blames the image": "EC2 ends an instance only after a fault of its image, " +
		"and no call makes such an image",
}

// unwritten is why an assumption that the kit could check has no check.
const unwritten = "has no check yet: disable an image, or shrink a warm pool, by hand"

// narrow is why the kit cannot check who may do what.
const narrow = "needs a second credential with fewer rights, and the program makes no users or roles"

// Measure is a time that was measured.
type Measure struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// tryAll makes the base and runs the checks that the report does not have yet. save stores the report after each check.
func (s *session) tryAll(ctx context.Context, save func() error) error {
	if err := s.base(ctx); err != nil {
		return err
	}
	if err := s.keepTokens(ctx); err != nil {
		return err
	}
	for n, c := range checks {
		if s.report.has(c.name) {
			continue
		}
		began := s.now()
		seen, err := c.run(s, ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isRefusal(err) {
			return err // of the guard: an end or a limit, not an answer of the cloud
		}
		result := judge(c, seen, err)
		result.Seconds = round(s.now().Sub(began))
		s.report.Checks = append(s.report.Checks, result)
		fmt.Fprintf(s.out, "%2d/%d %-20s %-10s %s\n", n+1, len(checks), c.name, result.Outcome, result.Seen)
		if err := save(); err != nil {
			return err
		}
	}
	s.report.finish(s.now(), s.wire)
	return save()
}

// judge compares what a check saw with what was expected.
func judge(c check, seen string, err error) Check {
	out := Check{Name: c.name, Sentence: c.sentence, Expected: c.expected, Seen: seen, Outcome: Differs}
	switch {
	case err != nil:
		out.Seen, out.Outcome = anonymous(err.Error()), Unclear
	case seen == c.expected:
		out.Outcome = AsAssumed
	}
	return out
}

// quiet is how long a check waits for what should not happen.
const quiet = 3 * time.Minute
