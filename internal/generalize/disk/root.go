package disk

import (
	"fmt"
	"os"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// Exit codes of the classes of what ends before anything is done.
const (
	misuse  = 2
	refused = 3
)

// Unfit says why nothing was done: what was asked for makes no sense, or is refused.
type Unfit struct {
	err  error
	code int
}

func (u *Unfit) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *Unfit) Unwrap() error { return u.err }

// ExitCode is 2 for what makes no sense, and 3 for what is refused.
func (u *Unfit) ExitCode() int { return u.code }

func misusef(format string, args ...any) error { return &Unfit{fmt.Errorf(format, args...), misuse} }
func refusef(format string, args ...any) error { return &Unfit{fmt.Errorf(format, args...), refused} }

// Root is the directory that holds a machine's root.
type Root struct {
	Path string
	// Running: the machine works in it. Without it, that is so only for the machine that this process runs on.
	Running bool
}

// Own tells whether it is the root of the machine that this process runs on, by whatever name.
func (r Root) Own() (bool, error) {
	root, err := os.Stat(r.Path)
	if err != nil {
		return false, err
	}
	own, err := os.Stat("/")
	return err == nil && os.SameFile(root, own), err
}

// Spare refuses a root that is not there, and that of the machine that this process runs on.
func (r Root) Spare() error {
	own, err := r.Own()
	switch {
	case err != nil:
		return misusef("--root: %w", err)
	case own:
		return refusef("%s is the root of the machine that this runs on: give --confirm-root if it is to lose its identity; nothing was changed", r.Path)
	}
	return nil
}

// Open opens the root: that of a machine that works with what is mounted in it, any other as the directory that it is.
func (r Root) Open() (*tree.Tree, error) {
	own, err := r.Own()
	switch {
	case err != nil:
		return nil, misusef("--root: %w", err)
	case own || r.Running:
		return tree.OpenRunning(r.Path)
	}
	return tree.Open(r.Path)
}

// Rules say which profile's rules apply, and which ones of a person's own.
type Rules struct {
	// Profile by name; the one that the disk is for if it is empty.
	Profile v1alpha1.Profile
	// File with rules of one's own, or a directory of *.yaml; empty for none.
	File string
	// Digest refuses other rules of one's own than those with it; empty takes any.
	Digest string
}

// Load reads the rules of the profile.
func (r Rules) Load() (*generalize.Profile, error) {
	p, err := generalize.LoadWith(r.Profile, r.File)
	switch {
	case err != nil:
		return nil, misusef("%w", err)
	case r.Digest != "" && p.RulesDigest != r.Digest:
		return nil, refusef("the rules in %s are not those of the order: their digest is %s, and the order was for %s; nothing was changed", r.File, p.RulesDigest, r.Digest)
	}
	return p, nil
}

// LoadFor reads the rules of the profile that the disk in the root is for; one that is named must agree with the disk.
func (r Rules) LoadFor(root Root) (*generalize.Profile, error) {
	if r.Profile != "" && !slices.Contains(v1alpha1.Profiles(), r.Profile) {
		return nil, misusef("unknown profile %q: there are %v", r.Profile, v1alpha1.Profiles())
	}
	t, err := root.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if err := generalize.RefuseMounts(t); err != nil {
		return nil, err
	}
	if r.Profile != "" {
		err = generalize.Agree(t, r.Profile)
	} else {
		r.Profile, _, err = generalize.Detect(t)
	}
	if err != nil {
		return nil, err
	}
	return r.Load()
}
