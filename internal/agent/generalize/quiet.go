package generalize

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// quietUnits install patches, or download patches, on a machine that no person asked to. Source: the packages apt,
// unattended-upgrades, dnf-automatic, dnf5-plugin-automatic and yum-cron.
var quietUnits = []string{
	"apt-daily.timer", "apt-daily.service", "apt-daily-upgrade.timer", "apt-daily-upgrade.service", "unattended-upgrades.service",
	"dnf-automatic.timer", "dnf-automatic-download.timer", "dnf-automatic-install.timer", "dnf-automatic-notifyonly.timer",
	"dnf5-automatic.timer", "yum-cron.service",
}

// quietAPT switches apt's periodic work off, also for a cron job. quietText is its content. Source: apt.systemd.daily.
const (
	quietAPT  = "etc/apt/apt.conf.d/99kamino-quiet"
	quietText = "// Written by Kamino: pioneer.quietNodes.\nAPT::Periodic::Enable \"0\";\n"
	masked    = "/dev/null"
)

// quietPaths are the paths that a quiet image gets: masks of the system's units, and the setting of apt. A unit of the user
// and an existing mask stay as they are.
func (r *Runner) quietPaths(t *tree.Tree) (paths []string, _ error) {
	if !r.Quiet {
		return nil, nil
	}
	for _, unit := range quietUnits {
		mask := "/etc/systemd/system/" + unit
		isTaken, err := hasPath(t, tree.Rel(mask))
		if err != nil {
			return nil, err
		}
		isInstalled, err := hasPath(t, "usr/lib/systemd/system/"+unit, "lib/systemd/system/"+unit)
		if err != nil {
			return nil, err
		}
		if isInstalled && !isTaken {
			paths = append(paths, mask)
		}
	}
	hasAPT, err := hasPath(t, "etc/apt/apt.conf.d")
	if err != nil || !hasAPT {
		return paths, err
	}
	isTaken, err := hasPath(t, quietAPT)
	if err == nil && !isTaken {
		paths = append(paths, "/"+quietAPT)
	}
	return paths, err
}

// RefuseQuiet returns a *Refused if a returning machine would keep the masks of a quiet image. The first boot knows the machine
// by its MachineKey.
func (r *Runner) RefuseQuiet(t *tree.Tree) error {
	if !r.Quiet || MachineKey(t) != "" {
		return nil
	}
	return NewRefused("the firmware of the machine has no UUID, so the donor would keep the masks of pioneer.quietNodes after its return. " +
		"Set pioneer.quietNodes to false, or settings.donor.method to Copy")
}

// hasPath reports whether one of the paths exists.
func hasPath(t *tree.Tree, paths ...string) (bool, error) {
	for _, p := range paths {
		switch _, err := t.Lstat(p); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, nil
}

// quieten writes the paths of a quiet image. whyNotQuiet finds a failed write.
func (r *Runner) quieten(t *tree.Tree, m *Manifest) {
	if r.DryRun {
		return
	}
	for _, p := range m.Quiet {
		if p = tree.Rel(p); p == quietAPT {
			_ = t.Replace(p, []byte(quietText), 0o644)
		} else {
			_ = t.Link(masked, p)
		}
	}
}

// whyNotQuiet returns the fault of a quiet image; empty if correct.
func whyNotQuiet(t *tree.Tree, m *Manifest) string {
	for _, p := range m.Quiet {
		if p = tree.Rel(p); p == quietAPT {
			if text, err := t.Read(p); err != nil || string(text) != quietText {
				return fmt.Sprintf("/%s does not switch apt's periodic work off", p)
			}
		} else if target, err := t.Readlink(p); err != nil || target != masked {
			return fmt.Sprintf("/%s is not a link to %s", p, masked)
		}
	}
	return ""
}
