package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// ReturningPath is where a live run leaves what its donor needs to go on where it was. The first boot puts it back on
// the machine that it is from, and removes it on any other.
const ReturningPath = "/var/lib/kamino/returning"

// Returning is what is kept for a donor that comes back: how far the handlers of its VM extensions are. Without that
// each would take the donor for a new machine and run its settings once more, the recipe's bootstrap among them. It is
// numbers and nothing else, for all of it is in the image as well.
type Returning struct {
	// Machine is the MachineKey of the donor.
	Machine string `json:"machine"`
	// Sequences are the files that hold a handler's sequence number.
	Sequences []string `json:"sequences"`
}

// MachineKey tells a machine from its clones by what the firmware calls it, which no disk carries: the SHA-256 of its
// product UUID in hex. It is empty where there is none, and in a container, which sees its host's.
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
	// noUUID is what firmware without a UUID of its own gives out (SMBIOS, system UUID).
	noUUID = regexp.MustCompile(`^([0-]+|[f-]+)$`)
)

// handlerSequences are the files in which the handlers of VM extensions keep the number of the last settings that they ran:
// mrseq, or one for each of the extensions that share a handler.
var handlerSequences = []string{"var/lib/waagent/*/mrseq", "var/lib/waagent/*/*.mrseq"}

// plainSequence and sequenceNumber are all that is taken: nothing else that a file of that name holds can get through.
var (
	plainSequence  = regexp.MustCompile(`^var/lib/waagent/[A-Za-z0-9._-]+/([A-Za-z0-9_-]+\.)?mrseq$`)
	sequenceNumber = regexp.MustCompile(`^[0-9]{1,18}$`)
)

// keepForDonor leaves what the donor needs to go on where it was, before anything is removed: a run that fails gives
// the donor back, too. Where nothing is to be kept, nothing of an earlier run stays.
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
	kept := &Returning{Machine: r.Returning}
	text := "machine " + r.Returning + "\n"
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
	if len(kept.Sequences) == 0 {
		_, err := t.Remove(p, nil)
		return err
	}
	m.Returning = kept
	return t.Replace(p, []byte(text), 0o600)
}

// named compares a handler's name with a pattern, in any case, as its publisher may write it.
func named(handler string) func(pattern string) bool {
	return func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(handler))
		return err == nil && ok
	}
}

// enrolsAgain are the handlers of agents that lose their enrolment here: they have to run once more on the donor as
// well, because it is they who enrol the agent.
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

// whyNotReturned says what is wrong with what was kept; empty if nothing is.
func (r *Runner) whyNotReturned(t *tree.Tree, m *Manifest) string {
	content, err := t.Read(tree.Rel(ReturningPath))
	switch {
	case m.Returning == nil && errors.Is(err, fs.ErrNotExist):
		return ""
	case m.Returning == nil:
		return fmt.Sprintf("%s is there, and nothing is kept for a donor", ReturningPath)
	case err != nil:
		return fmt.Sprintf("what was kept for the donor: %v", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		number, p, found := strings.Cut(line, " ")
		if i == 0 && line == "machine "+m.Returning.Machine || found && sequenceNumber.MatchString(number) && slices.Contains(m.Returning.Sequences, p) {
			continue
		}
		return fmt.Sprintf("%s holds more than a donor needs", ReturningPath)
	}
	return ""
}
