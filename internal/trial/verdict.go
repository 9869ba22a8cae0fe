package trial

import "fmt"

// Verdict on a version.
type Verdict struct {
	// Result is never Skipped. The version may be used if it is Passed, and must not be if it is Failed.
	Result Result `json:"result"`
	// Message is that of the check that decided.
	Message string `json:"message"`
	// Checks, each with what it found, in their order. Those that were not come to are pending.
	Checks []Check `json:"checks"`
}

// severity orders what several checks come to: a failure decides, then what is still open, then what stays open.
var severity = map[Result]int{Skipped: 0, Passed: 0, Inconclusive: 1, Pending: 2, Failed: 3}

// Judge the trial. The first checks are gates, without which there is nothing to check; of the others the first failure in
// their order decides.
func Judge(f Facts) Verdict {
	f.Limits = f.Limits.Defaulted()
	v := Verdict{Result: Passed, Message: "every check has passed"}
	open := true
	for _, check := range checks {
		c := Check{check.name, Pending, "is not come to"}
		if open {
			c.Result, c.Message = check.look(f)
			v.weigh(c)
		}
		open = open && v.Result != Failed && (!check.gate || c.Result == Passed)
		v.Checks = append(v.Checks, c)
	}
	if v.Result == Pending && f.Unread >= mostUnread {
		v.Result, v.Message = Inconclusive, fmt.Sprintf("the last %d looks at the trial failed", f.Unread)
	}
	return v
}

// weigh has a check decide if it weighs more than those before it.
func (v *Verdict) weigh(c Check) {
	if severity[c.Result] > severity[v.Result] {
		v.Result, v.Message = c.Result, fmt.Sprintf("%s: %s", c.Name, c.Message)
	}
}
