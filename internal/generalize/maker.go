package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
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

	pattern *regexp.Regexp
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
	for _, p := range s.Paths {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	s.pattern, err = regexp.Compile(s.Pattern)
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
	for i := range p.Rules {
		for _, name := range p.Rules[i].makers() {
			if !names[name] {
				problems = append(problems, fmt.Errorf("rule %s: by names an unknown maker %q", p.Rules[i].ID, name))
			}
		}
	}
	return errors.Join(problems...)
}

// makers are the names of makers in By. The other entries are paths.
func (r *Rule) makers() []string {
	return slices.DeleteFunc(slices.Clone(r.By), func(by string) bool { return strings.HasPrefix(by, "/") })
}

// programs are the paths in By.
func (r *Rule) programs() []string {
	return slices.DeleteFunc(slices.Clone(r.By), func(by string) bool { return !strings.HasPrefix(by, "/") })
}

// noMaker returns why nothing creates a rule's files again, with the remedy; empty if something does. The disk is not
// changed yet, so files that the profile will install are seen as present.
func (p *Profile) noMaker(t *tree.Tree, r *Rule) (string, error) {
	disk := files{tree: t, installs: p.installs()}
	for _, program := range r.programs() {
		if content, found, err := disk.read(tree.Rel(program)); err != nil || !found || len(content) == 0 {
			return program + " is not on the disk. Install it", err
		}
	}
	for _, name := range r.makers() {
		i := slices.IndexFunc(p.Makers, func(m Maker) bool { return m.Name == name })
		why, err := p.Makers[i].whyNot(disk)
		if err != nil || why != "" {
			return why + ". " + p.Makers[i].Remedy, err
		}
	}
	return "", nil
}

// whyNot returns why a maker will not do its work; empty if it will.
func (m *Maker) whyNot(disk files) (string, error) {
	for i := range m.DisabledBy {
		where, err := m.DisabledBy[i].match(disk)
		if err != nil || where != "" {
			return "/" + where + " disables " + m.Missing, err
		}
	}
	present, err := m.present(disk)
	if err != nil || !present {
		return m.Missing + " is not on the disk", err
	}
	if len(m.Units) == 0 {
		return "", nil
	}
	for _, unit := range m.Units {
		enabled, err := disk.enabled(unit)
		if err != nil || enabled {
			return "", err
		}
	}
	return m.Missing + " does not start: " + strings.Join(m.Units, " or ") + " is not enabled", nil
}

func (m *Maker) present(disk files) (bool, error) {
	for _, pattern := range m.Paths {
		found, err := disk.find(pattern)
		if err != nil || len(found) > 0 {
			return true, err
		}
	}
	for i := range m.Evidence {
		where, err := m.Evidence[i].match(disk)
		if err != nil || where != "" {
			return true, err
		}
	}
	return len(m.Paths)+len(m.Evidence) == 0, nil
}

// match returns the file with the setting; empty if there is none.
func (s *Setting) match(disk files) (where string, err error) {
	for _, pattern := range s.Paths {
		found, err := disk.find(pattern)
		if err != nil {
			return "", err
		}
		for _, p := range found {
			content, is, err := disk.read(p)
			switch {
			case err != nil:
				return "", err
			case !is:
			case s.Key == "":
				if s.pattern.Match(content) {
					return p, nil
				}
			default:
				if value, set := lookUp(content, s.Key); set {
					where = ""
					if s.matches(value) {
						where = p
					}
				}
			}
		}
	}
	return where, nil
}

func (s *Setting) matches(value any) bool {
	list, isList := value.([]any)
	if len(s.Without) == 0 {
		return slices.Contains(s.Values, strings.ToLower(fmt.Sprint(value)))
	}
	return isList && !slices.ContainsFunc(list, func(entry any) bool {
		if pair, is := entry.([]any); is && len(pair) > 0 {
			entry = pair[0]
		}
		return slices.Contains(s.Without, strings.ReplaceAll(fmt.Sprint(entry), "-", "_"))
	})
}

// lookUp returns the value at a path of keys. Programs ignore a file that is not YAML, so lookUp does too.
func lookUp(content []byte, key string) (any, bool) {
	var at any
	if err := yaml.Unmarshal(content, &at); err != nil {
		return nil, false
	}
	for part := range strings.SplitSeq(key, ".") {
		keys, is := at.(map[string]any)
		if !is {
			return nil, false
		}
		if at, is = keys[part]; !is {
			return nil, false
		}
	}
	return at, true
}

// files are the files of a disk, with those that the profile will install.
type files struct {
	tree     *tree.Tree
	installs map[string]*Rule
}

func (p *Profile) installs() map[string]*Rule {
	installs := map[string]*Rule{}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Action == Install {
			installs[tree.Rel(r.Paths[0])] = r
		}
	}
	return installs
}

// find returns the paths for a pattern, sorted.
func (f files) find(pattern string) ([]string, error) {
	matches, err := f.tree.Glob(tree.Rel(pattern))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range matches {
		found = append(found, m.Path)
	}
	for installed := range f.installs {
		if is, err := path.Match(tree.Rel(pattern), installed); err == nil && is {
			found = append(found, installed)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// read returns a file's content, and false for anything other than a file. A link to /dev/null is an empty file.
func (f files) read(p string) ([]byte, bool, error) {
	if r := f.installs[p]; r != nil && r.File != "" {
		return r.content, true, nil
	}
	if target, err := f.tree.Readlink(p); err == nil && target == "/dev/null" {
		return nil, true, nil
	}
	_, info, err := f.tree.Resolve(p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > tree.MaxFile) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	content, err := f.tree.Read(p)
	return content, err == nil, err
}

// unitDirs are systemd's directories of units, from the highest to the lowest precedence. Source: systemd.unit(5).
var unitDirs = []string{"etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// enabled reports whether systemd starts a unit: the unit is not masked, and a target wants it or it needs no target.
func (f files) enabled(unit string) (bool, error) {
	for _, dir := range unitDirs {
		content, found, err := f.read(path.Join(dir, unit))
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if len(content) == 0 || !installSection.Match(content) {
			return len(content) > 0, nil
		}
		return f.wanted(unit)
	}
	return false, nil
}

// wanted reports whether a target wants or requires a unit.
func (f files) wanted(unit string) (bool, error) {
	for _, dir := range unitDirs {
		for _, by := range []string{"*.wants", "*.requires"} {
			links, err := f.find(path.Join("/", dir, by, literal(unit)))
			if err != nil || len(links) > 0 {
				return true, err
			}
		}
	}
	return false, nil
}

var installSection = regexp.MustCompile(`(?m)^\[Install\]`)
