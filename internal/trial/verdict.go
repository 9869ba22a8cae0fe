package trial

import (
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Verdict is the decision about a version.
type Verdict struct {
	// Result is never Skipped. The version may be used after Passed, and must not be used after Failed.
	Result Result `json:"result"`
	// Message is the message of the deciding check.
	Message string `json:"message"`
	// Checks are all checks in order. Checks not reached are Pending.
	Checks []Check `json:"checks"`
	// RebootDue is true if the instance must be restarted now.
	RebootDue bool `json:"-"`
}

// severity orders the results of several checks: a failure decides, then pending, then inconclusive.
var severity = map[Result]int{Skipped: 0, Passed: 0, Inconclusive: 1, Pending: 2, Failed: 3}

// Judge evaluates the checks of a trial. The first checks are gates for the others. Among the others the first failure
// decides.
func Judge(f Facts) Verdict {
	f.Limits = f.Limits.Defaulted()
	if f.Reboot.Booted { // the first boot has passed the soak
		f.Limits.Soak = f.Limits.Settle
	}
	v := Verdict{Result: Passed, Message: "every check has passed"}
	if sentence, ends := f.credential(); !ends {
		v.Message += sentence
	}
	open := true
	for _, check := range checksOf(f) {
		c := Check{check.name, Pending, v1alpha1.TrialWaiting}
		if open && f.isTurnOf(check.name, v.Result) {
			c.Result, c.Message = check.look(f)
			v.weigh(c)
			v.RebootDue = check.name == Rebooted && f.Reboot.isDue()
			open = v.Result != Failed && (!check.gate || c.Result == Passed)
		}
		v.Checks = append(v.Checks, c)
	}
	if v.Result == Pending && f.FailedReads >= mostUnread {
		v.Result, v.Message = Inconclusive, fmt.Sprintf("the last %d observations of the trial failed", f.FailedReads)
	}
	return v
}

// isTurnOf reports whether a check is evaluated, after checks with the result so far. Between two boots, only the instance, its Node and the
// second boot are checked.
func (f Facts) isTurnOf(check CheckName, before Result) bool {
	if check == Rebooted {
		return before == Passed
	}
	return check == Provisioned || check == Registered || !f.Reboot.isUnderWay()
}

// weigh lets a check decide if its result is more severe than the results before.
func (v *Verdict) weigh(c Check) {
	if severity[c.Result] > severity[v.Result] {
		v.Result, v.Message = c.Result, fmt.Sprintf("%s: %s", c.Name, c.Message)
	}
}

// rebooted is the last check. It begins when every other check has passed.
func rebooted(f Facts) (Result, string) {
	switch b := f.Reboot; {
	case b.Skipped != "":
		return Skipped, "the node did not boot a second time: " + b.Skipped
	case b.isDue():
		return Pending, "every other check has passed, and the cloud restarts the instance"
	case !b.Back.IsZero():
		return Passed, fmt.Sprintf("node %s was Ready again %s after the restart of its instance", f.Node, span(b.Back.Sub(b.Accepted)))
	case f.since(b.Accepted) <= f.Limits.Reboot:
		return Pending, fmt.Sprintf("the instance restarts, and node %s is awaited", f.Node)
	case f.Ready && !b.Booted:
		return Inconclusive, fmt.Sprintf("the cloud accepted a restart of the instance, and node %s still reports the same boot %s later; "+
			"to go without a second boot, set settings.trial.reboot to false", f.Node, span(f.Limits.Reboot))
	default:
		return Failed, fmt.Sprintf("node %s is not Ready %s after the restart of its instance: the disk boots once, and not again",
			f.Node, span(f.Limits.Reboot))
	}
}
