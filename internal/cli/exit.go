package cli

import "github.com/kamino-dev/kamino/internal/cli/exit"

// Exit codes, one for each class of ending.
const (
	ExitDone        = exit.Done
	ExitUnexpected  = exit.Unexpected
	ExitUsage       = exit.Usage
	ExitRefused     = exit.Refused
	ExitFailed      = exit.Failed
	ExitNotAllowed  = exit.NotAllowed
	ExitUnreachable = exit.Unreachable
	ExitNeedsPerson = exit.NeedsPerson
	ExitNothingToDo = exit.NothingToDo
	ExitInterrupted = exit.Interrupted
)

// failure is an error with an exit code.
type failure = exit.Failure

// Short names of package exit.
var (
	usagef, refusedf, refusal = exit.Usagef, exit.Refusedf, exit.Refusal
	exitCode, refusedCode     = exit.Code, exit.RefusedCode
	explain, permissionReason = exit.Explain, exit.IsPermission
)
