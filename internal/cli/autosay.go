package cli

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/wording"
)

// printAutoEvents writes a line for each event of a run, with the name of the event's pool.
func (s *session) printAutoEvents() func(runner.AutoEvent) {
	views := map[cloud.PoolID]*print.Lines{}
	return func(n runner.AutoEvent) {
		line := func(format string, args ...any) {
			s.note("%s  %s", s.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
		}
		switch {
		case n.Begun != "":
			line("%s: %s", n.Pool.Name, n.Begun)
		case n.Seen != nil:
			if views[n.Pool.ID] == nil {
				views[n.Pool.ID] = print.NewLines(print.NewPoolWriter(s.Err, n.Pool.Name))
			}
			views[n.Pool.ID].Show(print.Progress{Prototype: n.Seen}, s.Now())
		case n.Driving != nil:
			line("%s", whoDrives(*n.Driving))
		case n.Away != nil:
			s.note("%s; retrying", explain(n.Away))
		case n.NoLease != nil:
			s.note("cannot acquire the Lease: %s", explain(n.NoLease))
		}
	}
}

// autoReport returns the results of the pools with their exit codes.
func autoReport(run *runner.Auto) print.AutoReport {
	report := print.AutoReport{Pools: []print.AutoResult{}, Troubles: run.Troubles()}
	for _, r := range run.Results() {
		report.Pools = append(report.Pools, autoResult(r))
	}
	return report
}

func autoResult(r runner.AutoResult) print.AutoResult {
	result := print.AutoResult{Pool: r.Pool.Name, Policy: r.Policy, Result: print.AutoNothing, Status: r.Status}
	if d := r.Status.Decision; d != nil {
		result.Reason, result.Message = d.Reason, d.Message
	}
	switch {
	case r.Capture != nil:
		return captured(result, r)
	case r.Queued:
		result.Result = print.AutoWaiting
	case r.Refused:
		result.Result, result.Code = print.AutoRefused, refusedCode(r.Err)
		if r.Err == nil && permissionReason(result.Reason) {
			result.Code = ExitNotAllowed
		}
	}
	return result
}

// captured adds the capture of this run to the result.
func captured(result print.AutoResult, r runner.AutoResult) print.AutoResult {
	p := r.Capture
	result.Prototype, result.Version, result.Donor = p.Name, p.Spec.Version, p.Spec.Donor.NodeName
	result.Took = wording.Duration(print.WholeTime(p))
	result.Reason, result.Message = "", ""
	switch failure := p.Status.Failure; {
	case r.Gone:
		result.Result, result.Code = print.AutoFailed, ExitFailed
		result.Reason, result.Message = "Cancelled", fmt.Sprintf("prototype %s was deleted during the capture; the node was %s", p.Name, print.LetGoFirst(p))
	case runner.Succeeded(p):
		result.Result = print.AutoCaptured
	case !p.Status.Terminal():
		result.Result, result.Message = print.AutoWaiting, fmt.Sprintf("prototype %s is in phase %s", p.Name, print.Phase(p))
	default:
		result.Result, result.Code = print.AutoFailed, ExitFailed
		if failure != nil {
			result.Reason, result.Message = failure.Reason, failure.Message
		}
		if !runner.Touched(p) {
			result.Result, result.Code = print.AutoRefused, ExitRefused
			if permissionReason(result.Reason) {
				result.Code = ExitNotAllowed
			}
		}
	}
	return result
}
