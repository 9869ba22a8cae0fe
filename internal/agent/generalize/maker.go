package generalize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// noMaker returns why nothing creates a rule's files again, with the remedy; empty if something does. The disk is not
// changed yet, so files that the profile will install are seen as present.
func noMaker(p *rules.Profile, t *tree.Tree, r *rules.Rule) (string, error) {
	disk := files{tree: t, installs: installs(p)}
	for _, program := range r.Programs() {
		if content, found, err := disk.read(tree.Rel(program)); err != nil || !found || len(content) == 0 {
			return program + " is not on the disk. Install it", err
		}
	}
	for _, name := range r.MakerNames() {
		m := makerOf(p, name)
		why, err := whyNot(m, disk)
		for _, other := range m.Or {
			if err == nil && why != "" {
				if also, failed := whyNot(makerOf(p, other), disk); failed != nil || also == "" {
					why, err = also, failed
				}
			}
		}
		if err != nil || why != "" {
			return why + ". " + m.Remedy, err
		}
	}
	return "", nil
}

func makerOf(p *rules.Profile, name string) *rules.Maker {
	return &p.Makers[slices.IndexFunc(p.Makers, func(m rules.Maker) bool { return m.Name == name })]
}

// whyNot returns why a maker will not do its work; empty if it will.
func whyNot(m *rules.Maker, disk files) (string, error) {
	for i := range m.DisabledBy {
		where, err := place(&m.DisabledBy[i], disk)
		if err != nil || where != "" {
			return "/" + where + " disables " + m.Missing, err
		}
	}
	present, err := isPresent(m, disk)
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

func isPresent(m *rules.Maker, disk files) (bool, error) {
	for _, pattern := range m.Paths {
		found, err := disk.find(pattern)
		if err != nil || len(found) > 0 {
			return true, err
		}
	}
	for i := range m.Evidence {
		where, err := place(&m.Evidence[i], disk)
		if err != nil || where != "" {
			return true, err
		}
	}
	return len(m.Paths)+len(m.Evidence) == 0, nil
}

// place returns the file with the setting; empty if there is none.
func place(s *rules.Setting, disk files) (where string, err error) {
	for _, pattern := range s.Unless {
		if found, err := disk.find(pattern); err != nil || len(found) > 0 {
			return "", err
		}
	}
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
				if s.Matcher.Match(content) {
					return p, nil
				}
			default:
				if value, set := lookUp(content, s.Key); set {
					where = ""
					if matches(s, value) {
						where = p
					}
				}
			}
		}
	}
	return where, nil
}

func matches(s *rules.Setting, value any) bool {
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
	installs map[string]*rules.Rule
}

func installs(p *rules.Profile) map[string]*rules.Rule {
	found := map[string]*rules.Rule{}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Action == rules.Install {
			found[tree.Rel(r.Paths[0])] = r
		}
	}
	return found
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
		return r.Installed.Content, true, nil
	}
	if target, err := f.tree.Readlink(p); err == nil && target == "/dev/null" {
		return nil, true, nil
	}
	if path.Ext(p) == ".efi" {
		return f.commandLine(p)
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

// commandLine reads the parameters of the kernel in a unified kernel image, and false for anything else.
func (f files) commandLine(p string) (content []byte, found bool, err error) {
	image, err := f.tree.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer image.Close()
	for _, section := range scan.Sections(image, ".cmdline") {
		line, err := io.ReadAll(io.LimitReader(section, tree.MaxFile))
		if err != nil {
			return nil, false, err
		}
		content, found = append(append(content, bytes.TrimRight(line, "\x00\n")...), '\n'), true
	}
	return content, found, nil
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
