package disk

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/scan"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// Search looks for what must not be in a clone: keys, tokens, and the identities of the donor. It does not trust the run that
// generalized the disk.
type Search struct {
	// Target is a directory that holds a machine's root, a raw image, or a block device.
	Target string
	// Rules say what may stay. Without a profile they are the manifest's, or those that a tree is for.
	Rules
	// Manifest of the run that generalized the disk; the one in the tree if it is empty.
	Manifest string
	// Identities is a list of the donor's, as sha256sum writes it; empty for none but the manifest's.
	Identities string
	// Mounted is the root of the same disk where the target is an image: keys that came with packages and container images
	// are known again by it.
	Mounted string
	// All has searched what packages and container images brought, too. It is for trees.
	All bool
	// FreeOnly reports keys and tokens only where blocks are not known to be in use. It is for images.
	FreeOnly bool
	// Allow names rules that were allowed to be broken.
	Allow []string

	// isTree: the target is a directory. Run finds out.
	isTree bool
}

// Found is what a search has found, and by what.
type Found struct {
	Target string `json:"target"`
	// Profile whose rules said what may stay; empty if none was known.
	Profile        v1alpha1.Profile `json:"profile,omitempty"`
	ProfileVersion string           `json:"profileVersion,omitempty"`
	// Identities of the donor that were looked for.
	Identities int  `json:"identities"`
	Clean      bool `json:"clean"`
	*scan.Report
}

// Run searches.
func (s Search) Run(ctx context.Context) (*Found, error) {
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
	} else {
		found.Report, err = scan.Image(ctx, s.Target, o)
	}
	if err != nil {
		return nil, err
	}
	found.Clean = found.Count == 0
	return found, nil
}

// check finds out what the target is, and tells what is not for it. A pipe would be waited for, and some devices never end.
func (s *Search) check() error {
	info, err := os.Stat(s.Target)
	if err != nil {
		return misusef("%w", err)
	}
	mode := info.Mode()
	s.isTree = mode.IsDir()
	switch {
	case !s.isTree && !mode.IsRegular() && (mode&fs.ModeDevice == 0 || mode&fs.ModeCharDevice != 0):
		return misusef("%s is neither a directory nor an image nor a block device: a pipe or the like cannot be searched, so write it to a file first", generalize.Printable(s.Target))
	case s.isTree && s.FreeOnly:
		return misusef("--free-only is for images")
	case s.isTree && s.Mounted != "":
		return misusef("--tree is for images")
	case !s.isTree && s.All:
		return misusef("--all is for trees: of an image everything is read")
	}
	return nil
}

// lookIntoStores has container stores looked into where they are known to be: of any profile, if none is known.
func (s *Search) lookIntoStores(found *Found) error {
	rules := Rules{Profile: found.Profile, File: s.File}
	if rules.Profile == "" {
		rules.Profile = v1alpha1.Profiles()[0]
	}
	profile, err := rules.Load()
	if err != nil {
		return err
	}
	t, err := tree.Open(s.Target)
	if err != nil {
		return err
	}
	defer t.Close()
	return generalize.LookIntoStores(t, profile, found.Report)
}

// knowBrought adds the keys that came with packages and container images to those that may stay. What the manifest says of a
// key counts first.
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

// options joins what was asked for with what the manifest and the tree itself tell.
func (s *Search) options(m *generalize.Manifest) (scan.Options, *Found, error) {
	o, found := scan.Options{FreeOnly: s.FreeOnly, All: s.All}, &Found{Target: s.Target}
	rules := Rules{Profile: s.Profile, File: s.File}
	if m != nil {
		o.Identities, o.Known = m.Identities(), m.Known()
		if rules.Profile == "" {
			rules.Profile = m.Profile
		}
	}
	if rules.Profile == "" && s.isTree {
		t, err := tree.Open(s.Target)
		if err != nil {
			return o, nil, err
		}
		defer t.Close()
		// Without a profile nothing may stay, so that a doubt is on the safe side.
		rules.Profile, _, _ = generalize.Detect(t)
	}
	if rules.Profile != "" {
		loaded, err := rules.Load()
		if err != nil {
			return o, nil, err
		}
		o.Owner, o.Base = loaded.Owner(s.Allow...), loaded.Base()
		found.Profile, found.ProfileVersion = loaded.Name, loaded.Version
	}
	if s.Identities != "" {
		values, err := readList(s.Identities)
		if err != nil {
			return o, nil, err
		}
		o.Identities = append(o.Identities, values...)
	}
	found.Identities = len(o.Identities)
	return o, found, nil
}

func readList(name string) ([]scan.Value, error) {
	list, err := os.Open(name)
	if err != nil {
		return nil, misusef("%w", err)
	}
	defer list.Close()
	values, err := scan.ReadList(list)
	if err != nil {
		return nil, misusef("%s: %w", name, err)
	}
	return values, nil
}
