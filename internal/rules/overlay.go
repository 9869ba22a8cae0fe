package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Exemption lets a path stay against the profile, with a reason for reviewers of the manifest. It names a rule, which
// is then not applied, or paths, whose findings are then allowed.
type Exemption struct {
	Rule string `json:"rule,omitempty"`
	// Paths are absolute, with the wildcards of a rule. They exempt from the search for secrets only; use a rule with
	// the action keep to protect paths from rules.
	Paths []string `json:"paths,omitempty"`
	// Refusal limits the exemption to the rule's refusal. The rule still changes its matches.
	Refusal bool   `json:"refusal,omitempty"`
	Reason  string `json:"reason"`
}

// Agent is a hook for an agent with an identity per machine.
type Agent struct {
	Name string `json:"name"`
	// Units are stopped on a live host before any removal.
	Units []string `json:"units,omitempty"`
	Rules []Rule   `json:"rules"`
}

// overlay is a user's addition to a profile.
type overlay struct {
	// Extends is the extended profile; empty for any.
	Extends v1alpha1.Profile `json:"extends,omitempty"`
	// Version is the user's version, and becomes part of the profile's version.
	Version string      `json:"version"`
	Rules   []Rule      `json:"rules,omitempty"`
	Agents  []Agent     `json:"agents,omitempty"`
	Makers  []Maker     `json:"makers,omitempty"`
	Stop    []Stop      `json:"stop,omitempty"`
	Exempt  []Exemption `json:"exempt,omitempty"`
}

// maxOverlay is the number of bytes read of a user's file. A ConfigMap is not larger.
const maxOverlay = 1 << 20

// LoadWith reads a built-in profile and adds a user's file, or the *.yaml files of a directory such as a mounted
// ConfigMap. The files are sorted by name. Files for installation are read from the same directory.
func LoadWith(name v1alpha1.Profile, from string) (*Profile, error) {
	if from == "" {
		return Load(name)
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	dir, files := from, map[string][]byte{}
	var names []string
	if info.IsDir() {
		files, err = readDir(from)
		names = overlaysOf(files)
	} else {
		dir, names = filepath.Dir(from), []string{filepath.Base(from)}
		files[names[0]], err = readLimited(from)
	}
	if err != nil {
		return nil, err
	}
	p, err := join(name, names, files, func(file string) ([]byte, error) { return fs.ReadFile(os.DirFS(dir), file) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return p, nil
}

// LoadFiles is LoadWith for files in memory by name, for example from a ConfigMap.
func LoadFiles(name v1alpha1.Profile, files map[string][]byte) (*Profile, error) {
	return join(name, overlaysOf(files), files, func(file string) ([]byte, error) {
		content, found := files[file]
		if !found {
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
		return content, nil
	})
}

// overlaysOf returns the names of files with rules, sorted.
func overlaysOf(files map[string][]byte) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		return strings.HasPrefix(name, ".") || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml"
	})
}

// join adds the named files to a profile. aside reads files for installation.
func join(name v1alpha1.Profile, names []string, files map[string][]byte, aside func(string) ([]byte, error)) (*Profile, error) {
	p, err := Load(name)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("there is no *.yaml")
	}
	version := strings.SplitN(p.Version, "-", 2)[0]
	for _, file := range names {
		add, err := readOverlay(file, files[file])
		if err != nil {
			return nil, err
		}
		if add.Extends != "" && add.Extends != name {
			return nil, fmt.Errorf("%s extends profile %s, and the profile is %s", file, add.Extends, name)
		}
		if err := add.into(p); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		version += "+" + add.Version
	}
	embeddedFiles, err := fs.Sub(embedded, "profile/files")
	if err != nil {
		return nil, err
	}
	err = p.prepare(func(file string) ([]byte, error) {
		if content, err := fs.ReadFile(embeddedFiles, file); err == nil {
			return content, nil
		}
		return aside(file)
	})
	if err == nil {
		err = p.checkExempt()
	}
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	digest, err := p.digest()
	if err != nil {
		return nil, err
	}
	p.Version, p.RulesDigest = version+"-"+digest[:8], v1alpha1.RulesDigest(files)
	return p, nil
}

// readDir reads the files of a directory. The mount of a ConfigMap has links, and hidden data directories with two
// dots.
func readDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(entry.Name(), ".") || !info.Mode().IsRegular() {
			continue
		}
		if files[entry.Name()], err = readLimited(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxOverlay+1))
	if err == nil && len(content) > maxOverlay {
		err = fmt.Errorf("%s has more than %d bytes", name, maxOverlay)
	}
	return content, err
}

func readOverlay(name string, content []byte) (*overlay, error) {
	var read overlay
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(content), &read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !versionText(read.Version) {
		return nil, fmt.Errorf("%s: version must be given, of letters, digits and dots", name)
	}
	return &read, nil
}

// versionText reports whether a version can be part of a tag.
func versionText(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// into adds an overlay to a profile.
func (o *overlay) into(p *Profile) error {
	var stop []Stop
	for _, r := range o.Rules {
		r.Own = true
		p.Rules = append(p.Rules, r)
	}
	p.Makers = append(p.Makers, o.Makers...)
	for _, agent := range o.Agents {
		if agent.Name == "" || len(agent.Rules) == 0 {
			return errors.New("an agent needs a name and rules")
		}
		for _, r := range agent.Rules {
			r.Agent, r.Own = agent.Name, true
			p.Rules = append(p.Rules, r)
		}
		if len(agent.Units) > 0 {
			stop = append(stop, Stop{Units: agent.Units, Reason: "It writes the identity that the hook of " + agent.Name + " removes."})
		}
	}
	// After the timers, and before the services that the agents log to.
	at := min(1, len(p.Stop))
	p.Stop = slices.Insert(p.Stop, at, append(stop, o.Stop...)...)
	p.Exempt = append(p.Exempt, o.Exempt...)
	return nil
}

// checkExempt checks that exemptions have a reason and name existing rules that may be waived. The refusal of control
// planes and the new machine ID cannot be waived.
func (p *Profile) checkExempt() error {
	for _, e := range p.Exempt {
		if strings.TrimSpace(e.Reason) == "" {
			return fmt.Errorf("the exemption of %q needs a reason", e.Rule+strings.Join(e.Paths, ", "))
		}
		if (e.Rule == "") == (len(e.Paths) == 0) {
			return errors.New("an exemption names a rule or paths, not both")
		}
		for _, pattern := range e.Paths {
			if err := checkPath(pattern); err != nil {
				return fmt.Errorf("exemption: %w", err)
			}
		}
		if e.Rule == "" {
			if e.Refusal {
				return errors.New("an exemption from a refusal names a rule")
			}
			continue
		}
		i := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.ID == e.Rule })
		if i < 0 {
			return fmt.Errorf("there is no rule %q to exempt from", e.Rule)
		}
		if r := &p.Rules[i]; e.Refusal && (!r.Allowable || !r.Action.Is(Regenerate, Edit)) {
			return fmt.Errorf("rule %s has no refusal to exempt from", r.ID)
		} else if r.Last || r.Action == Refuse && !r.Allowable {
			return fmt.Errorf("nothing is exempt from rule %s: %s", r.ID, r.Reason)
		}
	}
	return nil
}

// Exempted returns why a rule is not applied; empty if it is.
func (p *Profile) Exempted(rule string) string {
	for _, e := range p.Exempt {
		if e.Rule == rule && !e.Refusal {
			return "exempt: " + e.Reason
		}
	}
	return ""
}
