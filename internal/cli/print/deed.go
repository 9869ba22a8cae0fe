package print

import (
	"fmt"
	"io"
	"strings"
)

// Deed is what a verb has done to a pool's history, or would do.
type Deed struct {
	// Verb as it is called: rollback, quarantine, release, retire.
	Verb string `json:"verb"`
	Pool string `json:"pool"`
	// Version that it is about; for a rollback the one that the pool leaves.
	Version string `json:"version"`
	// To is the version that a rollback goes to.
	To string `json:"to,omitempty"`
	// Quarantined is the reason that stands on Version afterwards.
	Quarantined string `json:"quarantined,omitempty"`
	DryRun      bool   `json:"dryRun"`
	// Changed is false if all was so already, or for a dry run.
	Changed bool `json:"changed"`
	// Nodes that were built from Version; nil if nobody could count them.
	Nodes []string `json:"nodes"`
	// Rebuilt nodes run To now; NotRebuilt ones don't, each with the reason. Waiting says what kept the others.
	Rebuilt    []string          `json:"rebuilt,omitempty"`
	NotRebuilt map[string]string `json:"notRebuilt,omitempty"`
	Waiting    string            `json:"waiting,omitempty"`
	// Lines say all that in sentences.
	Lines []string `json:"-"`
}

// WriteDeed writes it; a dry run says so first.
func WriteDeed(w io.Writer, format Format, d Deed) error {
	if format == JSON || format == YAML {
		return Value(w, format, d)
	}
	lines := d.Lines
	if d.DryRun {
		lines = append([]string{"Dry run: nothing is changed."}, lines...)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
