package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Action is the action of a rule on its matches.
type Action string

// The actions, in the order of execution.
const (
	// Refuse stops the run before any change if a path exists.
	Refuse Action = "refuse"
	// Keep lets the matches stay, with a reason. No other rule touches them.
	Keep Action = "keep"
	// Install writes a file or link of the profile. It runs first: if the replacement of an identity cannot be written,
	// nothing may be removed.
	Install Action = "install"
	// Record appends one line for this generation to a file.
	Record Action = "record"
	// Edit changes lines of a file.
	Edit Action = "edit"
	// Forget removes the data about containers from the stores at the paths, and the containers' own files. Images
	// stay.
	Forget Action = "forget"
	// Delete removes the matches.
	Delete Action = "delete"
	// Regenerate is Delete for files that a maker on the disk creates again at boot. Without the maker the run is refused.
	Regenerate Action = "regenerate"
	// Truncate empties a file, and creates a missing file.
	Truncate Action = "truncate"
)

// order is the position of an action. Delete and Regenerate share a position, and keep the profile's order.
var order = map[Action]int{Refuse: 0, Keep: 1, Install: 2, Record: 3, Edit: 4, Forget: 5, Delete: 6, Regenerate: 6, Truncate: 7}

// Editors are the names of Edit's changes, and whether a change takes a pattern.
var Editors = map[string]bool{"drop-lines": true, "own-name": false, "nofail": false, "boot-id": false}

// The checks of Refuse.
const (
	CheckDisks   = "disks"
	CheckEntries = "entries"
	CheckKeys    = "keys"
	CheckModules = "modules"
	CheckDrivers = "drivers"
	CheckFIPS    = "fips"
)

// checks are the checks of Refuse.
var checks = []string{CheckDisks, CheckEntries, CheckKeys, CheckModules, CheckDrivers, CheckFIPS}

// Store is a kind of container store.
type Store string

// The kinds of stores.
const (
	// Containerd is the database of all namespaces: io.containerd.metadata.v1.bolt/meta.db.
	Containerd Store = "containerd"
	// Snapshots is the database of one of containerd's snapshotters: metadata.db next to its snapshots.
	Snapshots Store = "containerd-snapshots"
	// Docker is the layer store of one of Docker's drivers: image/DRIVER/layerdb.
	Docker Store = "docker"
	// Storage is the store of CRI-O and Podman: DRIVER-layers/layers.json.
	Storage Store = "containers-storage"
)

// Stores are all kinds.
var Stores = []Store{Containerd, Snapshots, Docker, Storage}

// Rule is one condition for copying a disk.
type Rule struct {
	// ID names the rule in manifests, messages and --allow: lower case, digits and "-".
	ID     string `json:"id"`
	Action Action `json:"action"`
	// Agent groups the rules of a third-party agent.
	Agent string `json:"agent,omitempty"`
	// Paths are absolute paths of the machine, with the wildcards of path.Match and "**" for any number of directories.
	Paths []string `json:"paths"`
	// Except are paths that stay despite Paths. Wildcards are allowed, except "**".
	Except []string `json:"except,omitempty"`
	// Only "files" excludes directories.
	Only string `json:"only,omitempty"`
	// Unless is the condition under which Delete does nothing.
	Unless *Condition `json:"unless,omitempty"`
	// Editor and Pattern define the change of Edit. A pattern limits Refuse and Regenerate to files with a matching
	// content.
	Editor  string `json:"editor,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	// Check limits Refuse to files that fail a check. "disks" is for a boot parameter that names a disk which a clone may lack,
	// and "entries" for an entry of a boot menu without its kernel or initramfs. "keys" is for an encrypted disk that only the
	// donor's hardware unlocks. Of the kernel that a clone boots, "modules" is for lost modules, "drivers" for an initramfs without
	// the driver of a machine, and "fips" for a failing integrity test.
	Check string `json:"check,omitempty"`
	// Handlers are names, with wildcards, of VM extension handlers that enrol the agent. The handlers run again on a
	// returning donor if the rule finds something.
	Handlers []string `json:"handlers,omitempty"`
	// Store is the kind of container store for Forget.
	Store Store `json:"store,omitempty"`
	// Names makes Delete remove the files named in the matches, not the matches. The only value "swap" means swap files
	// named by fstab and units, with these units.
	Names string `json:"names,omitempty"`
	// File is the name of Install's content, and Mode its permissions in octal. Link is the target of a link instead.
	File string `json:"file,omitempty"`
	Mode string `json:"mode,omitempty"`
	Link string `json:"link,omitempty"`
	// By are the makers that create Regenerate's files again: names of makers, which are checked before any change, and
	// paths of programs, which must also exist afterwards.
	By []string `json:"by,omitempty"`
	// NeededBy are settings that need the matches of Delete. The run is refused if one does.
	NeededBy []Need `json:"neededBy,omitempty"`
	// Present limits Truncate to existing files.
	Present bool `json:"present,omitempty"`
	// OnlyOS and ExceptOS limit the rule by the ID of os-release.
	OnlyOS   []string `json:"onlyOS,omitempty"`
	ExceptOS []string `json:"exceptOS,omitempty"`
	// Allowable is true if the rule can be waived by name. The matches of Refuse and Delete then stay. Regenerate and Edit
	// only skip their refusal, and still change the matches.
	Allowable bool `json:"allowable,omitempty"`
	// Identity records the SHA-256 of removed files in the manifest, for comparing clones with the donor. Only for
	// values that cannot be guessed from their hash.
	Identity bool `json:"identity,omitempty"`
	// Last makes the rule run after all others.
	Last bool `json:"last,omitempty"`
	// Reason is the harm without the rule, and Source the evidence.
	Reason string `json:"reason"`
	Source string `json:"source"`

	// Drivers are for the check "drivers": of the disks of each machine that a clone may get, as far as known.
	Drivers []string `json:"-"`
	// Matcher is Pattern, compiled; nil without a pattern.
	Matcher *regexp.Regexp `json:"-"`
	// Installed is the file of Install.
	Installed struct {
		Content []byte
		Perm    fs.FileMode
	} `json:"-"`
	// Own is true for a rule of the user.
	Own bool `json:"-"`
}

// Condition is met if a line in one of the files matches.
type Condition struct {
	Paths   []string `json:"paths"`
	Pattern string   `json:"pattern"`
	Reason  string   `json:"reason"`

	// Matcher is Pattern, compiled.
	Matcher *regexp.Regexp `json:"-"`
}

// Need is a use of files by the configuration of a machine.
type Need struct {
	// Paths are the files with the configuration. Without a pattern, they need the matches that they name.
	Paths []string `json:"paths"`
	// Pattern matches the content of a file that needs File, or all matches if File is empty.
	Pattern string `json:"pattern,omitempty"`
	File    string `json:"file,omitempty"`
	// Name matches, in the content of a match, what the match names, as its first group. A file with this name needs the match.
	Name string `json:"name,omitempty"`

	// Matcher is Pattern, compiled, and Namer is Name.
	Matcher *regexp.Regexp `json:"-"`
	Namer   *regexp.Regexp `json:"-"`
}

// Stop is a group of systemd units to stop on a live host before any change.
type Stop struct {
	// Units are unit names with the wildcards of path.Match.
	Units  []string `json:"units"`
	Reason string   `json:"reason"`
}

// AppliesTo reports whether the rule is for an operating system, by the ID of os-release.
func (r *Rule) AppliesTo(os string) bool {
	if len(r.OnlyOS) > 0 && !slices.Contains(r.OnlyOS, os) {
		return false
	}
	return !slices.Contains(r.ExceptOS, os)
}

// Excepts reports whether the rule excludes a path, relative to the root, by the name that its pattern matches.
func (r *Rule) Excepts(p string) bool {
	return slices.ContainsFunc(r.Except, func(pattern string) bool {
		ok, err := path.Match(pattern, "/"+p)
		return err == nil && ok
	})
}

// Matches reports whether a pattern of the rule matches a path, relative to the root.
func (r *Rule) Matches(p string) bool {
	return slices.ContainsFunc(r.Paths, func(pattern string) bool {
		is, err := path.Match(pattern, "/"+p)
		return err == nil && is
	})
}

var ruleID = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// check returns the faults of a rule's text.
func (r *Rule) check() error {
	if !ruleID.MatchString(r.ID) {
		return fmt.Errorf("the id %q must be lower-case words joined by %q", r.ID, "-")
	}
	if _, known := order[r.Action]; !known {
		return fmt.Errorf("rule %s: unknown action %q", r.ID, r.Action)
	}
	if r.Reason == "" || r.Source == "" {
		return fmt.Errorf("rule %s: reason and source must be given", r.ID)
	}
	if len(r.Paths) == 0 {
		return fmt.Errorf("rule %s: no paths", r.ID)
	}
	for _, p := range slices.Concat(r.Paths, r.Except, r.Programs()) {
		if err := checkPath(p); err != nil {
			return fmt.Errorf("rule %s: %w", r.ID, err)
		}
	}
	if slices.ContainsFunc(r.Except, func(p string) bool { return strings.Contains(p, "**") }) {
		return fmt.Errorf("rule %s: except knows no %q", r.ID, "**")
	}
	if r.Only != "" && r.Only != "files" {
		return fmt.Errorf("rule %s: only may be \"files\", not %q", r.ID, r.Only)
	}
	return r.checkFields()
}

// checkFields returns fields that do not belong to the action, or are missing.
func (r *Rule) checkFields() error {
	removes := r.Action.Is(Delete, Regenerate)
	limits := removes || r.Action.Is(Refuse)
	for _, w := range []struct {
		ok   bool
		what string
	}{
		{(r.Editor != "") == r.Action.Is(Edit), "editor is for edit, and needed there"},
		{(r.Store != "") == r.Action.Is(Forget), "store is for forget, and needed there"},
		{len(r.Handlers) == 0 || removes, "handlers is for delete and regenerate"},
		{r.Pattern == "" || r.Action.Is(Edit, Refuse, Regenerate), "pattern is for edit, refuse and regenerate"},
		{r.isCheckKnown(), fmt.Sprintf("check is for refuse, and may be one of %q", checks)},
		{r.Names == "" || r.Names == "swap" && r.Action.Is(Delete), "names is for delete, and may be \"swap\""},
		{(len(r.By) > 0) == r.Action.Is(Regenerate), "by is for regenerate, and needed there"},
		{(r.File+r.Link != "") == r.Action.Is(Install), "file or link is for install, and needed there"},
		{r.File == "" || r.Link == "", "file and link exclude each other"},
		{(r.File == "") == (r.Mode == ""), "mode goes with file"},
		{len(r.Except) == 0 || limits, "except is for refuse, delete and regenerate"},
		{r.Only == "" || limits || r.Action.Is(Edit), "only is for refuse, edit, delete and regenerate"},
		{r.Unless == nil || r.Action.Is(Delete), "unless is for delete"},
		{!r.Present || r.Action.Is(Truncate), "present is for truncate"},
		{!r.Allowable || r.Action.Is(Refuse, Delete, Regenerate, Edit), "allowable is for refuse, delete, regenerate and edit"},
		{!r.Identity || r.Action.Is(Delete, Regenerate, Truncate), "identity is for delete, regenerate and truncate"},
	} {
		if !w.ok {
			return fmt.Errorf("rule %s: %s", r.ID, w.what)
		}
	}
	return r.checkTargets()
}

// isCheckKnown reports whether a check belongs to the action, and exists.
func (r *Rule) isCheckKnown() bool {
	return r.Check == "" || r.Action.Is(Refuse) && slices.Contains(checks, r.Check)
}

// checkTargets requires fixed paths for writing actions, and a way around needed files.
func (r *Rule) checkTargets() error {
	if len(r.NeededBy) > 0 && (!r.Action.Is(Delete) || !r.Allowable) {
		return fmt.Errorf("rule %s: neededBy is for delete, and needs allowable", r.ID)
	}
	if r.Action.Is(Record, Install, Truncate) && slices.ContainsFunc(r.Paths, Wild) {
		return fmt.Errorf("rule %s: record, install and truncate take paths without wildcards", r.ID)
	}
	if r.Action.Is(Record, Install) && len(r.Paths) != 1 {
		return fmt.Errorf("rule %s: record and install take one path", r.ID)
	}
	return nil
}

// Is reports whether the action is one of some.
func (a Action) Is(oneOf ...Action) bool { return slices.Contains(oneOf, a) }

// Wild reports whether a path has wildcards.
func Wild(p string) bool { return strings.ContainsAny(p, `*?[\`) }

// checkPath accepts absolute, clean paths below the root with valid wildcards.
func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" {
		return fmt.Errorf("the path %q must be absolute and clean, and not the root", p)
	}
	for _, part := range strings.Split(p[1:], "/") {
		if part == "*" && strings.Index(p[1:], part) == 0 || strings.HasPrefix(p, "/**") {
			return fmt.Errorf("the path %q would name everything", p)
		}
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("the path %q: %w", p, err)
		}
		if strings.Contains(part, "**") && part != "**" {
			return fmt.Errorf("the path %q: %q must stand alone between slashes", p, "**")
		}
	}
	return nil
}

// prepare compiles the rule.
func (r *Rule) prepare(file func(string) ([]byte, error)) (err error) {
	if r.Pattern != "" {
		if r.Matcher, err = regexp.Compile(r.Pattern); err != nil {
			return fmt.Errorf("rule %s: pattern: %w", r.ID, err)
		}
	}
	if r.Editor != "" {
		takesPattern, found := Editors[r.Editor]
		if !found {
			return fmt.Errorf("rule %s: unknown editor %q", r.ID, r.Editor)
		}
		if takesPattern != (r.Matcher != nil) {
			return fmt.Errorf("rule %s: editor %s and its pattern do not fit", r.ID, r.Editor)
		}
	}
	if r.Store != "" && !slices.Contains(Stores, r.Store) {
		return fmt.Errorf("rule %s: unknown kind of store %q", r.ID, r.Store)
	}
	if r.Unless != nil {
		if err := r.Unless.prepare(); err != nil {
			return fmt.Errorf("rule %s: unless: %w", r.ID, err)
		}
	}
	for i := range r.NeededBy {
		if err := r.NeededBy[i].prepare(); err != nil {
			return fmt.Errorf("rule %s: neededBy: %w", r.ID, err)
		}
	}
	if r.File == "" {
		return nil
	}
	bits, err := strconv.ParseUint(r.Mode, 8, 32)
	if err != nil || bits > 0o777 {
		return fmt.Errorf("rule %s: mode %q is not an octal number up to 0777", r.ID, r.Mode)
	}
	r.Installed.Perm = fs.FileMode(bits)
	if r.Installed.Content, err = file(r.File); err != nil {
		return fmt.Errorf("rule %s: %w", r.ID, err)
	}
	return nil
}

func (n *Need) prepare() (err error) {
	if len(n.Paths) == 0 || n.File != "" && n.Pattern == "" {
		return errors.New("paths are needed, and a pattern with file")
	}
	for _, p := range n.Paths {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	if n.Name != "" {
		if n.Namer, err = regexp.Compile(n.Name); err != nil || n.Namer.NumSubexp() != 1 || n.Pattern != "" {
			return errors.Join(err, errors.New("a name is an expression with one group, without a pattern"))
		}
	}
	n.Matcher, err = regexp.Compile(n.Pattern)
	return err
}

func (c *Condition) prepare() (err error) {
	if c.Pattern == "" || c.Reason == "" || len(c.Paths) == 0 {
		return errors.New("paths, a pattern and a reason are needed")
	}
	for _, p := range c.Paths {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	c.Matcher, err = regexp.Compile(c.Pattern)
	return err
}
