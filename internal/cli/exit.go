package cli

import (
	"github.com/kamino-dev/kamino/internal/cli/exit"
	words "github.com/kamino-dev/kamino/internal/cli/explain"
)

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

// Short names of packages exit and explain.
var (
	usagef, refusedf, refusal = exit.Usagef, exit.Refusedf, words.Refusal
	exitCode, refusedCode     = words.Code, words.RefusedCode
	explain, permissionReason = words.Sentence, words.IsPermission
)
