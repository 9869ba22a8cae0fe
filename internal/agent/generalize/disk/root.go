package disk

import (
	"fmt"
	"os"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Exit codes for failures before any change.
const (
	misuse  = 2
	refused = 3
)

// InvalidInputError is the error of invalid or refused input, before any change.
type InvalidInputError struct {
	err  error
	code int
}

func (u *InvalidInputError) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *InvalidInputError) Unwrap() error { return u.err }

// ExitCode is 2 for invalid input, and 3 for a refusal.
func (u *InvalidInputError) ExitCode() int { return u.code }

func misusef(format string, args ...any) error {
	return &InvalidInputError{fmt.Errorf(format, args...), misuse}
}
func refusef(format string, args ...any) error {
	return &InvalidInputError{fmt.Errorf(format, args...), refused}
}

// Root is the root directory of a machine.
type Root struct {
	Path string
	// Running is true for a running machine's root. The root of this process's machine is always treated as running.
	Running bool
}

// Own reports whether the directory is the root of this process's machine, by any name.
func (r Root) Own() (bool, error) {
	root, err := os.Stat(r.Path)
	if err != nil {
		return false, err
	}
	own, err := os.Stat("/")
	return err == nil && os.SameFile(root, own), err
}

// Spare refuses a missing root, and the root of this process's machine.
func (r Root) Spare() error {
	own, err := r.Own()
	switch {
	case err != nil:
		return misusef("--root: %w", err)
	case own:
		return refusef("%s is the root of the running machine: pass --confirm-root to remove the identity of the machine; nothing was changed", r.Path)
	}
	return nil
}

// Open opens the root. A running machine includes its mounts; any other root is a plain directory.
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

// Rules name the profile and the user's own rules.
type Rules struct {
	// Profile is the profile's name; empty: detect the profile.
	Profile v1alpha1.Profile
	// File has the user's own rules, or is a directory with *.yaml files; empty for none.
	File string
	// Digest is the required digest of the user's own rules; empty accepts any rules.
	Digest string
}

// Load reads the profile with the user's rules.
func (r Rules) Load() (*rules.Profile, error) {
	p, err := rules.LoadWith(r.Profile, r.File)
	switch {
	case err != nil:
		return nil, misusef("%w", err)
	case r.Digest != "" && p.RulesDigest != r.Digest:
		return nil, refusef("the rules in %s are not the rules of the order: the digest is %s, want %s; nothing was changed", r.File, p.RulesDigest, r.Digest)
	}
	return p, nil
}

// LoadFor reads the profile for the disk in the root. A named profile must match the disk.
func (r Rules) LoadFor(root Root) (*rules.Profile, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	t, err := root.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return r.LoadForTree(t)
}

// Check refuses an unknown profile.
func (r Rules) Check() error {
	if r.Profile != "" && !slices.Contains(v1alpha1.Profiles(), r.Profile) {
		return misusef("unknown profile %q: there are %v", r.Profile, v1alpha1.Profiles())
	}
	return nil
}

// LoadForTree is LoadFor for an open tree.
func (r Rules) LoadForTree(t *tree.Tree) (*rules.Profile, error) {
	if err := generalize.RefuseMounts(t); err != nil {
		return nil, err
	}
	var err error
	if r.Profile != "" {
		err = generalize.Agree(t, r.Profile)
	} else {
		r.Profile, _, err = generalize.Detect(t)
	}
	if err != nil {
		return nil, err
	}
	p, err := r.Load()
	if err != nil {
		return nil, err
	}
	return generalize.OnDisk(t, p), nil
}
