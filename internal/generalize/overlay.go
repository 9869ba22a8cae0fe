package generalize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Exemption lets something stay that a profile would not, for a reason that whoever reads the manifest
// can judge. It names a rule, which then is not applied, or paths, whose findings then do not count.
type Exemption struct {
	Rule string `json:"rule,omitempty"`
	// Paths are absolute, with the wildcards of a rule. They exempt from the search for secrets only; what a
	// rule is to leave alone is said by a rule with the action keep.
	Paths  []string `json:"paths,omitempty"`
	Reason string   `json:"reason"`
}

// Agent is a hook for an agent that gives its machine an identity of its own.
type Agent struct {
	Name string `json:"name"`
	// Units are stopped on a live host before anything is removed.
	Units []string `json:"units,omitempty"`
	Rules []Rule   `json:"rules"`
}

// overlay is what a user adds to a profile.
type overlay struct {
	// Extends is the profile it is for; empty is for any.
	Extends v1alpha1.Profile `json:"extends,omitempty"`
	// Version is the user's own, and becomes part of the profile's.
	Version string      `json:"version"`
	Rules   []Rule      `json:"rules,omitempty"`
	Agents  []Agent     `json:"agents,omitempty"`
	Stop    []Stop      `json:"stop,omitempty"`
	Exempt  []Exemption `json:"exempt,omitempty"`
}

// maxOverlay is how many bytes of a user's file are read; a ConfigMap holds no more.
const maxOverlay = 1 << 20

// LoadWith reads a profile that comes with Kamino and adds what a user's file says, or the files *.yaml in
// a directory (such as a mounted ConfigMap) in the order of their names. Files that rules install are read
// from the same directory.
func LoadWith(name v1alpha1.Profile, from string) (*Profile, error) {
	p, err := Load(name)
	if err != nil || from == "" {
		return p, err
	}
	dir, names, err := overlayFiles(from)
	if err != nil {
		return nil, err
	}
	version := strings.SplitN(p.Version, "-", 2)[0]
	var whole bytes.Buffer
	for _, file := range names {
		add, err := readOverlay(filepath.Join(dir, file), &whole)
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
		return fs.ReadFile(os.DirFS(dir), file)
	})
	if err == nil {
		err = p.checkExempt()
	}
	if err != nil {
		return nil, fmt.Errorf("profile %s with %s: %w", name, from, err)
	}
	digest, err := p.digest()
	if err != nil {
		return nil, err
	}
	p.Version = version + "-" + digest[:8]
	p.RulesDigest = "sha256:" + hash(whole.Bytes())
	return p, nil
}

// overlayFiles lists what is read. A ConfigMap's mount holds links, and its own data under names that
// begin with two dots.
func overlayFiles(from string) (dir string, names []string, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		return filepath.Dir(from), []string{filepath.Base(from)}, nil
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(entry.Name(), "..") {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return "", nil, fmt.Errorf("%s holds no *.yaml", from)
	}
	return from, names, nil
}

// readOverlay reads a file, and copies what it read to whole.
func readOverlay(name string, whole io.Writer) (*overlay, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.TeeReader(io.LimitReader(f, maxOverlay+1), whole))
	if err != nil {
		return nil, err
	}
	if len(content) > maxOverlay {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxOverlay)
	}
	var read overlay
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(content), &read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !versionText(read.Version) {
		return nil, fmt.Errorf("%s: version must be given, of letters, digits and dots", name)
	}
	return &read, nil
}

// versionText keeps what becomes part of a tag to what a tag takes.
func versionText(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// into adds an overlay to a profile.
func (o *overlay) into(p *Profile) error {
	var stop []Stop
	p.Rules = append(p.Rules, o.Rules...)
	for _, agent := range o.Agents {
		if agent.Name == "" || len(agent.Rules) == 0 {
			return errors.New("an agent needs a name and rules")
		}
		for _, r := range agent.Rules {
			r.Agent = agent.Name
			p.Rules = append(p.Rules, r)
		}
		if len(agent.Units) > 0 {
			stop = append(stop, Stop{Units: agent.Units, Reason: "It writes the identity that the hook of " + agent.Name + " removes."})
		}
	}
	// Right after the timers, and before all that the agents log to.
	at := min(1, len(p.Stop))
	p.Stop = slices.Insert(p.Stop, at, append(stop, o.Stop...)...)
	p.Exempt = append(p.Exempt, o.Exempt...)
	return nil
}

// checkExempt holds exemptions to rules that there are and may be broken, and to their reasons. What
// refuses a control plane, and what gives each clone a machine ID, is not up to anybody.
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
			continue
		}
		i := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.ID == e.Rule })
		if i < 0 {
			return fmt.Errorf("there is no rule %q to exempt from", e.Rule)
		}
		if r := &p.Rules[i]; r.Last || r.Action == Refuse && !r.Allowable {
			return fmt.Errorf("nothing is exempt from rule %s: %s", r.ID, r.Reason)
		}
	}
	return nil
}

// exempted says why a rule is not applied; empty if it is.
func (p *Profile) exempted(rule string) string {
	for _, e := range p.Exempt {
		if e.Rule == rule {
			return "exempt: " + e.Reason
		}
	}
	return ""
}
