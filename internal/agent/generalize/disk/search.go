package disk

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Search searches a disk for data that must not be in a clone: keys, tokens, and the donor's identities. The search
// does not trust the run that generalized the disk.
type Search struct {
	// Target is a machine's root directory, a raw image or a block device.
	Target string
	// Rules define the data that may stay. Without a profile the manifest's profile applies, else the detected profile.
	Rules
	// Manifest is the file with the run's manifest; empty: the manifest in the tree.
	Manifest string
	// Identities is a file with the donor's hashes in the format of sha256sum, and values; empty: only the manifest's
	// hashes.
	Identities string
	// Compare is another machine of the pool: its root directory, or the report of a search with Hashes. For trees only.
	Compare string
	// Hashes lists files of unknown origin with their hashes. For trees only.
	Hashes bool
	// Mounted is the root directory of the same disk if the target is an image. Keys in packages and container images
	// are recognized by it.
	Mounted string
	// All also searches the files of packages and container images. For trees only.
	All bool
	// FreeOnly reports keys and tokens only outside of blocks in use. For images only.
	FreeOnly bool

	// isTree is true if the target is a directory. Run sets the field.
	isTree bool
}

// SearchResult is the result of a search, with its inputs.
type SearchResult struct {
	Target string `json:"target"`
	// Profile is the profile that defined the exceptions; empty if unknown.
	Profile        v1alpha1.Profile `json:"profile,omitempty"`
	ProfileVersion string           `json:"profileVersion,omitempty"`
	// Values is true if the donor's values in plain text were searched, too.
	Values bool `json:"values,omitempty"`
	// Identities is the number of searched donor identities.
	Identities int `json:"identities"`
	// Run is the result of the generalize run, by its manifest; nil without a manifest.
	Run *RunResult `json:"run,omitempty"`
	// Clean is true without findings, unless the run has no proof.
	Clean bool `json:"clean"`
	// Compared is the result of the comparison with another machine; nil without a comparison.
	Compared *Comparison `json:"compared,omitempty"`
	*scan.Report
}

// Verdict names what is wrong with a disk that is not clean.
func (f *SearchResult) Verdict() string {
	if f.Count == 0 {
		return "the run has no proof"
	}
	return generalize.Counted(f.Count, "finding")
}

// RunResult is the result of a generalize run.
type RunResult struct {
	// Rules and Met are the numbers of rules, and of met rules.
	Rules int `json:"rules"`
	Met   int `json:"met"`
	// Failed is why the run has no proof; empty if it has one.
	Failed string `json:"failed,omitempty"`
}

// runResult returns the result in a manifest.
func (s *Search) runResult(m *generalize.Manifest) *RunResult {
	result := &RunResult{}
	if m != nil {
		result.Rules, result.Met = m.Rules, m.Met
		if err := m.Failed(); err != nil {
			result.Failed = err.Error()
		}
	}
	switch unfinished := s.unfinished(); {
	case unfinished:
		result.Failed = "a run changed the disk and did not come to its end. Run kamino-node generalize again on a copy from before the run"
	case m == nil:
		return nil
	}
	return result
}

// unfinished reports whether the target is a tree with an unfinished run.
func (s *Search) unfinished() bool {
	if !s.isTree {
		return false
	}
	t, err := tree.Open(s.Target)
	if err != nil {
		return false
	}
	defer t.Close()
	return generalize.Unfinished(t)
}

// Run searches the target.
func (s Search) Run(ctx context.Context) (*SearchResult, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	manifest, err := s.readManifest()
	if err != nil {
		return nil, misusef("%w", err)
	}
	o, found, err := s.options(manifest)
	if err != nil {
		return nil, err
	}
	if s.Mounted != "" {
		if err := s.knowBrought(ctx, &o); err != nil {
			return nil, err
		}
	}
	if s.isTree {
		if found.Report, err = scan.Tree(ctx, s.Target, o); err == nil {
			err = s.lookIntoStores(found)
		}
		if err == nil && s.Compare != "" {
			found.Compared, err = s.compare(ctx, o, found.Hashes)
		}
	} else {
		found.Report, err = scan.Image(ctx, s.Target, o)
	}
	if err != nil {
		return nil, err
	}
	found.Run = s.runResult(manifest)
	found.Clean = found.Count == 0 && (found.Run == nil || found.Run.Failed == "")
	return found, nil
}

// check finds the kind of the target, and rejects unsuitable options. Reading a pipe or some devices would never end.
func (s *Search) check() error {
	info, err := os.Stat(s.Target)
	if err != nil {
		return misusef("%w", err)
	}
	mode := info.Mode()
	s.isTree = mode.IsDir()
	switch {
	case !s.isTree && !mode.IsRegular() && (mode&fs.ModeDevice == 0 || mode&fs.ModeCharDevice != 0):
		return misusef("%s is neither a directory nor an image nor a block device: write the data to a file first", generalize.Printable(s.Target))
	case s.isTree && s.FreeOnly:
		return misusef("--free-only is for images")
	case s.isTree && s.Mounted != "":
		return misusef("--tree is for images")
	case !s.isTree && (s.Hashes || s.Compare != ""):
		return misusef("--hashes and --compare are for trees")
	case !s.isTree && s.All:
		return misusef("--all is for trees: of an image everything is read")
	}
	return nil
}

// lookIntoStores checks container stores at their known paths; without a profile, at the paths of the first profile.
func (s *Search) lookIntoStores(found *SearchResult) error {
	chosen := Rules{Profile: found.Profile, File: s.File}
	if chosen.Profile == "" {
		chosen.Profile = v1alpha1.Profiles()[0]
	}
	profile, err := chosen.Load()
	if err != nil {
		return err
	}
	t, err := tree.Open(s.Target)
	if err != nil {
		return err
	}
	defer t.Close()
	return generalize.LookIntoStores(t, generalize.OnDisk(t, profile), found.Report)
}

// knowBrought adds the keys of packages and container images to the allowed keys. The manifest has precedence.
func (s *Search) knowBrought(ctx context.Context, o *scan.Options) error {
	brought, err := scan.Brought(ctx, s.Mounted, *o)
	if err != nil {
		return fmt.Errorf("--tree: %w", err)
	}
	maps.Copy(brought, o.Known)
	o.Known = brought
	return nil
}

func (s *Search) readManifest() (*generalize.Manifest, error) {
	if s.Manifest != "" {
		content, err := os.ReadFile(s.Manifest)
		if err != nil {
			return nil, err
		}
		return generalize.ParseManifest(content)
	}
	if !s.isTree {
		return nil, nil
	}
	t, err := tree.Open(s.Target)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return generalize.ReadManifest(t)
}

// options combines the input with the manifest and the tree.
func (s *Search) options(m *generalize.Manifest) (scan.Options, *SearchResult, error) {
	o, found := scan.Options{FreeOnly: s.FreeOnly, All: s.All, Hashes: s.Hashes || s.Compare != ""}, &SearchResult{Target: s.Target}
	chosen := Rules{Profile: s.Profile, File: s.File}
	if m != nil {
		o.Identities, o.Known = m.Identities(), m.Known()
		if chosen.Profile == "" {
			chosen.Profile = m.Profile
		}
	}
	onDisk := func(p *rules.Profile) *rules.Profile { return p }
	if s.isTree {
		t, err := tree.Open(s.Target)
		if err != nil {
			return o, nil, err
		}
		defer t.Close()
		if chosen.Profile == "" {
			// Without a profile nothing may stay, which is the safe default.
			chosen.Profile, _, _ = generalize.Detect(t)
		}
		onDisk = func(p *rules.Profile) *rules.Profile { return generalize.OnDisk(t, p) }
	}
	if chosen.Profile != "" {
		loaded, err := chosen.Load()
		if err != nil {
			return o, nil, err
		}
		loaded = onDisk(loaded)
		o.Owner, o.Base = generalize.Owner(loaded), generalize.Base(loaded)
		found.Profile, found.ProfileVersion = loaded.Name, loaded.Version
	} else if s.File != "" {
		return o, nil, misusef("--profile-file: the system has no profile that %s adds to: pass --profile", s.File)
	} else {
		o.Base = generalize.Base(&rules.Profile{})
	}
	if s.Identities != "" {
		values, literals, err := readList(s.Identities)
		if err != nil {
			return o, nil, err
		}
		o.Identities, o.Literals = append(o.Identities, values...), literals
	}
	found.Identities, found.Values = len(o.Identities)+len(o.Literals), len(o.Literals) > 0
	return o, found, nil
}

func readList(name string) ([]scan.Value, []scan.Literal, error) {
	list, err := os.Open(name)
	if err != nil {
		return nil, nil, misusef("%w", err)
	}
	defer list.Close()
	values, literals, err := scan.ReadList(list)
	if err != nil {
		return nil, nil, misusef("%s: %w", name, err)
	}
	return values, literals, nil
}
