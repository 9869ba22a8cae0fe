package offline

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Reason is why a copy is of no use.
type Reason string

// Reasons to discard a copy.
const (
	// StaleCopy: the copy does not hold the donor's last flush.
	StaleCopy Reason = v1alpha1.StaleCopy
	// OtherDisk: the copy is of another machine.
	OtherDisk Reason = "OtherDisk"
	// PackagesIncomplete: a package is half installed. A later copy may be complete.
	PackagesIncomplete Reason = v1alpha1.PackagesIncomplete
	// ImagesDamaged: damaged images cannot be removed from their store.
	ImagesDamaged Reason = v1alpha1.ImagesDamaged
	// Unsupported: the file systems of the copy are not arranged in a way that Kamino cleans.
	Unsupported Reason = "Unsupported"
	// Refused: a rule refuses the donor's disk, as it would refuse a donor in service.
	Refused Reason = "Refused"
	// NotClean: the cleaned device failed a check.
	NotClean Reason = "NotClean"
)

// DiscardError is the error if the copy must not be used. Its journal was replayed, and later steps may have changed it too. The
// donor is not affected.
type DiscardError struct {
	Reason Reason
	// Whys are the reasons in words, each with a remedy.
	Whys []string
}

func discardf(reason Reason, format string, args ...any) error {
	return &DiscardError{reason, []string{fmt.Sprintf(format, args...)}}
}

func (e *DiscardError) Error() string { return e.Verdict() + ": " + strings.Join(e.Whys, "; ") }

// Verdict is what follows from the reasons.
func (e *DiscardError) Verdict() string { return "the copy is discarded" }

// Lines are the reasons, one in a line.
func (e *DiscardError) Lines() []string { return e.Whys }

// ExitCode is the exit code of a disk that must not be copied.
func (e *DiscardError) ExitCode() int { return 4 }

// ReasonName is the reason in a report.
func (e *DiscardError) ReasonName() string { return string(e.Reason) }
