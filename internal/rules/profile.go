package rules

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

//go:embed profile
var embedded embed.FS

// Profile is a complete set of rules for one kind of cluster.
type Profile struct {
	Name v1alpha1.Profile `json:"name"`
	// Version is the profile's own number and the first eight hex digits of the rules' SHA-256, so that every change
	// shows. It is in proofs and image tags.
	Version string `json:"version"`
	// Summary names the profile's clusters in one line.
	Summary string `json:"summary"`
	// NotLive is why the profile must not be applied to a running donor that returns; empty if it may.
	NotLive string `json:"notLive,omitempty"`
	// Catalogue is the version of the built-in rules for agents. A new agent, or a new path of an agent, raises it.
	Catalogue string `json:"catalogue,omitempty"`
	// Rules are in the order of execution.
	Rules []Rule `json:"rules"`
	// Makers create removed files again.
	Makers []Maker `json:"makers,omitempty"`
	// Stop lists the units to stop on a live host, in order.
	Stop []Stop `json:"stop"`
	// Exempt are the exemptions of the user's own profile.
	Exempt []Exemption `json:"exempt,omitempty"`
	// RulesDigest is v1alpha1.RulesDigest of the user's own files; empty without files.
	RulesDigest string `json:"rulesDigest,omitempty"`
}

// page is a file of a profile.
type page struct {
	Profile
	// Include names files whose rules and stops come first.
	Include []string `json:"include,omitempty"`
}

// Load reads a built-in profile.
func Load(name v1alpha1.Profile) (*Profile, error) {
	if !slices.Contains(v1alpha1.Profiles(), name) {
		return nil, fmt.Errorf("unknown profile %q: there are %v", name, v1alpha1.Profiles())
	}
	files, err := fs.Sub(embedded, "profile")
	if err != nil {
		return nil, err
	}
	return LoadFrom(files, string(name))
}

// LoadFrom reads the profile name.yaml with its includes. It is strict: unknown fields, duplicate IDs, relative or
// upward paths, and fields that do not match the action are errors.
func LoadFrom(files fs.FS, name string) (*Profile, error) {
	whole, err := readPage(files, name)
	if err != nil {
		return nil, err
	}
	if string(whole.Name) != name || whole.Version == "" || whole.Summary == "" {
		return nil, fmt.Errorf("profile %s: name, version and summary must be given", name)
	}
	p := whole.Profile
	own := p.Rules
	p.Rules = nil
	for _, included := range whole.Include {
		part, err := readPage(files, included)
		if err != nil {
			return nil, err
		}
		if part.Name != "" || part.Version != "" || len(part.Include) > 0 {
			return nil, fmt.Errorf("%s.yaml is included by a profile and must hold rules and stops only", included)
		}
		p.Rules = append(p.Rules, part.Rules...)
		p.Stop = append(p.Stop, part.Stop...)
		p.Makers = append(p.Makers, part.Makers...)
		if part.Catalogue != "" {
			p.Catalogue = part.Catalogue
		}
	}
	p.Rules = append(p.Rules, own...)
	if err := p.prepare(func(file string) ([]byte, error) { return fs.ReadFile(files, path.Join("files", file)) }); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	digest, err := p.digest()
	if err != nil {
		return nil, err
	}
	p.Version += "-" + digest[:8]
	return &p, nil
}

// digest returns the SHA-256 of everything that determines a run.
func (p *Profile) digest() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	for i := range p.Rules {
		text = append(append(text, 0), p.Rules[i].Installed.Content...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func readPage(files fs.FS, name string) (page, error) {
	content, err := fs.ReadFile(files, name+".yaml")
	if err != nil {
		return page{}, err
	}
	var read page
	if err := yaml.UnmarshalStrict(content, &read); err != nil {
		return page{}, fmt.Errorf("%s.yaml: %w", name, err)
	}
	return read, nil
}

// prepare checks the profile and sorts the rules into the order of execution.
func (p *Profile) prepare(file func(string) ([]byte, error)) error {
	var problems []error
	seen := map[string]bool{}
	for i := range p.Rules {
		r := &p.Rules[i]
		if err := r.check(); err != nil {
			problems = append(problems, err)
			continue
		}
		if seen[r.ID] {
			problems = append(problems, fmt.Errorf("rule %s is listed twice", r.ID))
		}
		seen[r.ID] = true
		if err := r.prepare(file); err != nil {
			problems = append(problems, err)
		}
	}
	if err := p.prepareMakers(); err != nil {
		problems = append(problems, err)
	}
	for _, s := range p.Stop {
		for _, unit := range s.Units {
			if _, err := path.Match(unit, ""); err != nil || path.Ext(unit) == "" {
				problems = append(problems, fmt.Errorf("stop: %q is not the name of a unit", unit))
			}
		}
	}
	slices.SortStableFunc(p.Rules, func(a, b Rule) int { return a.turn() - b.turn() })
	return errors.Join(problems...)
}

// turn returns the position of the rule in the order of execution.
func (r *Rule) turn() int {
	if r.Last {
		return len(order) + order[r.Action]
	}
	return order[r.Action]
}
