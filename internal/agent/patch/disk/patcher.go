package disk

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Patcher is a tool of the system that installs patches without Kamino. Unit is the systemd unit that starts the tool.
type Patcher struct{ Name, Unit string }

// patchers are the known tools. installs reports whether the settings let the tool install patches; nil: always.
var patchers = []struct {
	Patcher
	installs func(*tree.Tree) (bool, error)
}{
	{Patcher{"unattended-upgrades", "apt-daily-upgrade.timer"}, upgradesUnattended},
	{Patcher{"dnf-automatic", "dnf-automatic.timer"}, appliesUpdates("etc/dnf/automatic.conf", "usr/share/dnf5/dnf5-plugins/automatic.conf")},
	{Patcher{"dnf-automatic", "dnf-automatic-install.timer"}, nil},
	{Patcher{"dnf5-automatic", "dnf5-automatic.timer"}, appliesUpdates("etc/dnf/automatic.conf", "usr/share/dnf5/dnf5-plugins/automatic.conf")},
	{Patcher{"yum-cron", "yum-cron.service"}, nil},
	{Patcher{"transactional-update", "transactional-update.timer"}, nil},
}

// Patchers returns the tools that install patches on the system in a tree.
func Patchers(t *tree.Tree) ([]Patcher, error) {
	var found []Patcher
	for _, p := range patchers {
		on, err := isEnabled(t, p.Unit)
		if err == nil && on && p.installs != nil {
			on, err = p.installs(t)
		}
		if err != nil {
			return nil, err
		}
		if on {
			found = append(found, p.Patcher)
		}
	}
	return found, nil
}

// isEnabled reports whether a target wants a unit that is not masked. Source: systemd.unit(5).
func isEnabled(t *tree.Tree, unit string) (bool, error) {
	if target, err := t.Readlink("etc/systemd/system/" + unit); err == nil && target == "/dev/null" {
		return false, nil
	}
	for _, dir := range []string{"etc", "usr/lib", "lib"} {
		wanted, err := t.Glob(path.Join(dir, "systemd/system/*.wants", unit))
		if err != nil || len(wanted) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// periodic is the interval of unattended upgrades. Source: apt, apt.systemd.daily, UnattendedUpgradeInterval.
var periodic = regexp.MustCompile(`(?m)^[^/#\n]*\bUnattended-Upgrade\s+"([^"]*)"`)

// part is the name of a file that apt reads from a directory of settings. Source: apt.conf(5).
var part = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.conf)?$`)

// upgradesUnattended reports whether apt's daily upgrade runs unattended-upgrade. The last setting applies; "0" is off.
func upgradesUnattended(t *tree.Tree) (bool, error) {
	if _, err := t.Lstat("usr/bin/unattended-upgrade"); err != nil {
		return false, ignoreAbsent(err)
	}
	parts, err := t.Glob("etc/apt/apt.conf.d/*")
	if err != nil {
		return false, err
	}
	files := make([]string, 0, len(parts)+1)
	for _, m := range parts {
		if part.MatchString(m.Info.Name()) {
			files = append(files, m.Path)
		}
	}
	interval := "0"
	for _, file := range append(files, "etc/apt/apt.conf") {
		text, err := t.Read(file)
		if ignoreAbsent(err) != nil {
			return false, err
		}
		for _, m := range periodic.FindAllSubmatch(text, -1) {
			interval = string(m[1])
		}
	}
	return interval != "0" && interval != "", nil
}

// applies is the setting of dnf-automatic. Source: dnf5, automatic.conf.
var applies = regexp.MustCompile(`(?mi)^\s*apply_updates\s*=\s*(yes|true|on|1)\s*$`)

// appliesUpdates reports whether the first existing file lets dnf-automatic install updates.
func appliesUpdates(files ...string) func(*tree.Tree) (bool, error) {
	return func(t *tree.Tree) (bool, error) {
		for _, file := range files {
			text, err := t.Read(file)
			if err == nil {
				return applies.Match(text), nil
			}
			if ignoreAbsent(err) != nil {
				return false, err
			}
		}
		return false, nil
	}
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remedy is the command that disables the tools.
func Remedy(found []Patcher) string {
	units := make([]string, 0, len(found))
	for _, p := range found {
		units = append(units, p.Unit)
	}
	return "systemctl disable --now " + strings.Join(units, " ")
}
