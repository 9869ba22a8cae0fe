package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// ReturningPath is the file with data for a returning donor. The first boot restores the data on the donor, and removes
// the file on any other machine.
const ReturningPath = "/var/lib/kamino/returning"

// ReturningDonor has the state of VM extension handlers for a returning donor. Without the state each handler would run its
// settings again, including the bootstrap. The file contains only numbers and known paths, because the image has the file, too.
type ReturningDonor struct {
	// Machine is the MachineKey of the donor.
	Machine string `json:"machine"`
	// Sequences are the files with a handler's sequence number.
	Sequences []string `json:"sequences"`
	// Quiet are the paths that the donor loses again.
	Quiet []string `json:"quiet,omitempty"`
}

// MachineKey identifies a machine by its firmware, which no disk contains: the SHA-256 of the product UUID in hex. It
// is empty without a UUID, and in a container, which sees the UUID of its host.
func MachineKey(t *tree.Tree) string {
	if _, err := t.Lstat("run/systemd/container"); err == nil {
		return ""
	}
	content, err := t.Read("sys/class/dmi/id/product_uuid")
	id := strings.ToLower(strings.TrimSpace(string(content)))
	if err != nil || !productUUID.MatchString(id) || noUUID.MatchString(id) {
		return ""
	}
	return hash([]byte(id))
}

var (
	productUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	// noUUID matches the values of firmware without a UUID (SMBIOS, system UUID).
	noUUID = regexp.MustCompile(`^([0-]+|[f-]+)$`)
)

// handlerSequences are the files with the number of a handler's last settings: mrseq, or one file for each of several
// extensions with a shared handler.
var handlerSequences = []string{"var/lib/waagent/*/mrseq", "var/lib/waagent/*/*.mrseq"}

// plainSequence and sequenceNumber limit the kept data, so that no other content of such a file gets through.
var (
	plainSequence  = regexp.MustCompile(`^var/lib/waagent/[A-Za-z0-9._-]+/([A-Za-z0-9_-]+\.)?mrseq$`)
	sequenceNumber = regexp.MustCompile(`^[0-9]{1,18}$`)
)

// keepForDonor writes the data for a returning donor before any removal, because a failed run also returns the donor.
// If there is nothing to keep, data of an earlier run is removed.
func (r *Runner) keepForDonor(t *tree.Tree, m *Manifest) error {
	p := tree.Rel(ReturningPath)
	if r.DryRun {
		return nil
	}
	if r.Returning == "" {
		_, err := t.Remove(p, nil)
		return err
	}
	again, err := r.enrolsAgain(t)
	if err != nil {
		return err
	}
	kept := &ReturningDonor{Machine: r.Returning, Quiet: m.Quiet}
	text := "machine " + r.Returning + "\n"
	for _, p := range m.Quiet {
		text += "quiet " + p + "\n"
	}
	for _, pattern := range handlerSequences {
		found, err := t.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range found {
			handler := path.Base(path.Dir(file.Path))
			if file.Via != "" || !file.Info.Mode().IsRegular() || !plainSequence.MatchString(file.Path) || slices.ContainsFunc(again, named(handler)) {
				continue
			}
			content, err := t.Read(file.Path)
			if number := strings.TrimSpace(string(content)); err == nil && sequenceNumber.MatchString(number) {
				kept.Sequences = append(kept.Sequences, "/"+file.Path)
				text += number + " /" + file.Path + "\n"
			}
		}
	}
	if len(kept.Sequences)+len(kept.Quiet) == 0 {
		_, err := t.Remove(p, nil)
		return err
	}
	m.Returning = kept
	return t.Replace(p, []byte(text), 0o600)
}

// named matches a handler's name with a pattern, ignoring case.
func named(handler string) func(pattern string) bool {
	return func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(handler))
		return err == nil && ok
	}
}

// enrolsAgain returns the handlers of agents that lose their enrolment. These handlers must run again on the donor to
// enrol the agent.
func (r *Runner) enrolsAgain(t *tree.Tree) (handlers []string, _ error) {
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if len(rule.Handlers) == 0 || r.waived(rule) {
			continue
		}
		found, err := findAll(t, rule)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			handlers = append(handlers, rule.Handlers...)
		}
	}
	return handlers, nil
}

// whyNotReturned returns the fault of the kept data; empty if correct.
func (r *Runner) whyNotReturned(t *tree.Tree, m *Manifest) string {
	content, err := t.Read(tree.Rel(ReturningPath))
	switch {
	case m.Returning == nil && errors.Is(err, fs.ErrNotExist):
		return ""
	case m.Returning == nil:
		return fmt.Sprintf("%s is there, and nothing is kept for a donor", ReturningPath)
	case err != nil:
		return fmt.Sprintf("the kept files of the donor: %v", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		number, p, found := strings.Cut(line, " ")
		if i == 0 && line == "machine "+m.Returning.Machine || number == "quiet" && slices.Contains(m.Returning.Quiet, p) || found && sequenceNumber.MatchString(number) && slices.Contains(m.Returning.Sequences, p) {
			continue
		}
		return fmt.Sprintf("%s holds more than a donor needs", ReturningPath)
	}
	return ""
}
