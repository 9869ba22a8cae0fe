package quiesce

import (
	"fmt"
	"strings"
	"time"
)

// RefusedError is the error of a run that has changed nothing, because this node is not copied while it runs.
type RefusedError struct{ why string }

// Error is a sentence with a remedy.
func (r *RefusedError) Error() string { return r.why + "; nothing was changed" }

// ExitCode is 3, as of every refusal.
func (r *RefusedError) ExitCode() int { return 3 }

func refusef(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// BusyError is the error of a run that has changed nothing, because the node did not become quiet in time.
type BusyError struct {
	// For are the sentences that say what the node was busy with at the end.
	For []string
	// Waited is how long the run waited.
	Waited time.Duration
}

// Error names all that the run waited for.
func (b *BusyError) Error() string {
	return fmt.Sprintf("DonorBusy: after %v the node is still busy: %s; nothing was changed, and a later run can succeed", b.Waited, strings.Join(b.For, "; "))
}

// ExitCode is 3, as of every refusal.
func (b *BusyError) ExitCode() int { return 3 }
