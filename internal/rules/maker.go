package rules

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Maker is a program that creates removed files again on a clone. The run is refused if a rule needs a maker that the
// disk does not have, or that a setting switches off.
type Maker struct {
	// Name is the name in Rule.By: lower case, digits and "-".
	Name string `json:"name"`
	// Paths and Evidence show that the maker is on the disk. One match suffices; empty: not checked.
	Paths    []string  `json:"paths,omitempty"`
	Evidence []Setting `json:"evidence,omitempty"`
	// Units are systemd units, of which one must be enabled; empty: not checked.
	Units []string `json:"units,omitempty"`
	// DisabledBy are the settings that switch the maker off.
	DisabledBy []Setting `json:"disabledBy,omitempty"`
	// Or are other makers of the same files. One that works suffices.
	Or []string `json:"or,omitempty"`
	// Missing names what is missing, and Remedy is the user's next step.
	Missing string `json:"missing"`
	Remedy  string `json:"remedy"`
}

// Setting is a value in configuration files. Either Pattern or Key is set.
type Setting struct {
	// Paths are the files, with the wildcards of a rule, from the lowest to the highest precedence.
	Paths []string `json:"paths"`
	// Pattern matches the content of one of the files. A link to /dev/null has no content.
	Pattern string `json:"pattern,omitempty"`
	// Key is a path of YAML keys, joined by dots. The last file with the key has the valid value.
	Key string `json:"key,omitempty"`
	// Values are the values of Key that match, in lower case.
	Values []string `json:"values,omitempty"`
	// Without matches if the list at Key has none of these entries.
	Without []string `json:"without,omitempty"`
	// Unless are paths. If one exists, the setting has no effect.
	Unless []string `json:"unless,omitempty"`

	// Matcher is Pattern, compiled.
	Matcher *regexp.Regexp `json:"-"`
}

// check returns the faults of a maker's text, and compiles its patterns.
func (m *Maker) check() error {
	if !ruleID.MatchString(m.Name) || m.Missing == "" || m.Remedy == "" {
		return fmt.Errorf("maker %q: a name of lower-case words, missing and remedy must be given", m.Name)
	}
	for _, p := range m.Paths {
		if err := checkPath(p); err != nil {
			return fmt.Errorf("maker %s: %w", m.Name, err)
		}
	}
	for _, settings := range [][]Setting{m.Evidence, m.DisabledBy} {
		for i := range settings {
			if err := settings[i].prepare(); err != nil {
				return fmt.Errorf("maker %s: %w", m.Name, err)
			}
		}
	}
	return nil
}

func (s *Setting) prepare() (err error) {
	if len(s.Paths) == 0 || (s.Pattern == "") == (s.Key == "") || (s.Key == "") != (len(s.Values)+len(s.Without) == 0) {
		return errors.New("a setting needs paths, and a pattern, or a key with values")
	}
	for _, p := range slices.Concat(s.Paths, s.Unless) {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	s.Matcher, err = regexp.Compile(s.Pattern)
	return err
}

// prepareMakers checks the makers, and that each name in Rule.By has a maker.
func (p *Profile) prepareMakers() error {
	var problems []error
	names := map[string]bool{}
	for i := range p.Makers {
		m := &p.Makers[i]
		if names[m.Name] {
			problems = append(problems, fmt.Errorf("the maker %s is listed twice", m.Name))
		}
		names[m.Name] = true
		problems = append(problems, m.check())
	}
	for i := range p.Makers {
		for _, name := range p.Makers[i].Or {
			if !names[name] {
				problems = append(problems, fmt.Errorf("maker %s: or names an unknown maker %q", p.Makers[i].Name, name))
			}
		}
	}
	for i := range p.Rules {
		for _, name := range p.Rules[i].MakerNames() {
			if !names[name] {
				problems = append(problems, fmt.Errorf("rule %s: by names an unknown maker %q", p.Rules[i].ID, name))
			}
		}
	}
	return errors.Join(problems...)
}

// MakerNames are the names of makers in By. The other entries are paths.
func (r *Rule) MakerNames() []string {
	return slices.DeleteFunc(slices.Clone(r.By), func(by string) bool { return strings.HasPrefix(by, "/") })
}

// Programs are the paths in By.
func (r *Rule) Programs() []string {
	return slices.DeleteFunc(slices.Clone(r.By), func(by string) bool { return !strings.HasPrefix(by, "/") })
}
