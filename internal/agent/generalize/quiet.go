package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

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

// The masks end: if captures stop, nodes would otherwise stay unpatched for good. The age of an image is that of its manifest. %s are
// units.
const (
	unmaskService = "etc/systemd/system/kamino-unmask.service"
	unmaskTimer   = "etc/systemd/system/kamino-unmask.timer"
	unmaskWanted  = "etc/systemd/system/timers.target.wants/kamino-unmask.timer"

	unmaskServiceText = `# Written by Kamino: pioneer.quietNodes.
[Unit]
Description=Unmask the tools that install patches, because the image of this node is older than 14 days

[Service]
Type=oneshot
ExecCondition=/bin/sh -c '[ ! -f /var/lib/kamino/generalize.json ] || [ -n "$$(find /var/lib/kamino/generalize.json -mmin +20160)" ]'
ExecStart=/bin/sh -c 'cd /etc/systemd/system || exit 1; \
  for u in %[1]s; do [ "$$(readlink $$u)" != /dev/null ] || rm -f $$u; done; \
  rm -f /etc/apt/apt.conf.d/99kamino-quiet; systemctl daemon-reload; \
  for u in %[1]s; do [ "$$(systemctl is-enabled $$u 2>/dev/null)" != enabled ] || systemctl start --no-block $$u; done; \
  systemctl disable --now --no-block kamino-unmask.timer'
`
	unmaskTimerText = `# Written by Kamino: pioneer.quietNodes.
[Timer]
OnBootSec=15min
OnCalendar=hourly
RandomizedDelaySec=30min

[Install]
WantedBy=timers.target
`
)

// quietContent is the content of a path of a quiet image; empty for a link.
func (m *Manifest) quietContent(p string) string {
	return map[string]string{
		quietAPT: quietText, unmaskTimer: unmaskTimerText, unmaskService: fmt.Sprintf(unmaskServiceText, strings.Join(m.unmasks, " ")),
	}[p]
}

// quietLink is the target of a link of a quiet image.
func quietLink(p string) string {
	if p == unmaskWanted {
		return "/" + unmaskTimer
	}
	return masked
}

// quietPaths are the paths that a quiet image gets: masks of the system's units, the setting of apt, and a timer that ends both. A unit
// of the user and an existing mask stay as they are. unmasks are the units whose masks end: those of an earlier image, too.
func (r *Runner) quietPaths(t *tree.Tree) (paths, unmasks []string, err error) {
	if paths, unmasks, err = r.masks(t); err != nil || !r.Quiet {
		return nil, nil, err
	}
	wasQuiet, err := hasPath(t, quietAPT)
	if err != nil || len(paths) == 0 && !wasQuiet {
		return paths, unmasks, err
	}
	if wasQuiet {
		unmasks = quietUnits
	}
	for _, p := range []string{unmaskService, unmaskTimer, unmaskWanted} {
		isTaken, err := hasPath(t, p)
		if err != nil {
			return nil, nil, err
		}
		if !isTaken {
			paths = append(paths, "/"+p)
		}
	}
	return paths, unmasks, nil
}

// masks are the masks and the setting of apt. unmasks are all units without an own mask of the user.
func (r *Runner) masks(t *tree.Tree) (paths, unmasks []string, _ error) {
	for _, unit := range quietUnits {
		mask := "/etc/systemd/system/" + unit
		isTaken, err := hasPath(t, tree.Rel(mask))
		if err != nil {
			return nil, nil, err
		}
		isInstalled, err := hasPath(t, "usr/lib/systemd/system/"+unit, "lib/systemd/system/"+unit)
		if err != nil {
			return nil, nil, err
		}
		if !isTaken {
			unmasks = append(unmasks, unit)
		}
		if isInstalled && !isTaken {
			paths = append(paths, mask)
		}
	}
	hasAPT, err := hasPath(t, "etc/apt/apt.conf.d")
	if err != nil || !hasAPT {
		return paths, unmasks, err
	}
	isTaken, err := hasPath(t, quietAPT)
	if err == nil && !isTaken {
		paths = append(paths, "/"+quietAPT)
	}
	return paths, unmasks, err
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
		p = tree.Rel(p)
		if content := m.quietContent(p); content != "" {
			_ = t.Replace(p, []byte(content), 0o644)
		} else {
			_ = t.Link(quietLink(p), p)
		}
	}
}

// whyNotQuiet returns the fault of a quiet image; empty if correct.
func whyNotQuiet(t *tree.Tree, m *Manifest) string {
	for _, p := range m.Quiet {
		p = tree.Rel(p)
		if content := m.quietContent(p); content != "" {
			if text, err := t.Read(p); err != nil || string(text) != content {
				return fmt.Sprintf("/%s has not the content that keeps other tools from patching, and lets them patch after 14 days", p)
			}
		} else if target, err := t.Readlink(p); err != nil || target != quietLink(p) {
			return fmt.Sprintf("/%s is not a link to %s", p, quietLink(p))
		}
	}
	return ""
}
