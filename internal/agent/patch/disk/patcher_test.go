package disk

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// TestPatchers has the systems as their packages install them, and each way in which a tool is off.
func TestPatchers(t *testing.T) {
	const wanted = "etc/systemd/system/timers.target.wants/"
	ubuntu := map[string]string{
		wanted + "apt-daily-upgrade.timer": "", "usr/bin/unattended-upgrade": "",
		"etc/apt/apt.conf.d/20auto-upgrades":       "APT::Periodic::Update-Package-Lists \"1\";\nAPT::Periodic::Unattended-Upgrade \"1\";\n",
		"etc/apt/apt.conf.d/50unattended-upgrades": "Unattended-Upgrade::Allowed-Origins {\n};\n",
	}
	amazon := map[string]string{wanted + "dnf-automatic.timer": "", "etc/dnf/automatic.conf": "[commands]\napply_updates = yes\n"}
	with := func(files map[string]string, path, content string) map[string]string {
		files = maps.Clone(files)
		files[path] = content
		return files
	}
	without := func(files map[string]string, path string) map[string]string {
		files = maps.Clone(files)
		delete(files, path)
		return files
	}
	unattended := []Patcher{{"unattended-upgrades", "apt-daily-upgrade.timer"}}
	automatic := []Patcher{{"dnf-automatic", "dnf-automatic.timer"}}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []Patcher
	}{
		{"nothing", nil, nil},
		{"Ubuntu", ubuntu, unattended},
		{"the unit of a package", with(without(ubuntu, wanted+"apt-daily-upgrade.timer"), "usr/lib/systemd/system/timers.target.wants/apt-daily-upgrade.timer", ""), unattended},
		{"a block", with(ubuntu, "etc/apt/apt.conf.d/20auto-upgrades", "APT { Periodic { Unattended-Upgrade \"always\"; }; };\n"), unattended},
		{"a disabled timer", without(ubuntu, wanted+"apt-daily-upgrade.timer"), nil},
		{"a masked timer", with(ubuntu, "etc/systemd/system/apt-daily-upgrade.timer", "-> /dev/null"), nil},
		{"without the package", without(ubuntu, "usr/bin/unattended-upgrade"), nil},
		{"without the setting", without(ubuntu, "etc/apt/apt.conf.d/20auto-upgrades"), nil},
		{"a later setting", with(ubuntu, "etc/apt/apt.conf.d/99off", "APT::Periodic::Unattended-Upgrade \"0\";\n"), nil},
		{"a file that apt ignores", with(ubuntu, "etc/apt/apt.conf.d/99off.ucf-old", "APT::Periodic::Unattended-Upgrade \"0\";\n"), unattended},
		{"a comment", with(ubuntu, "etc/apt/apt.conf.d/20auto-upgrades", "// APT::Periodic::Unattended-Upgrade \"1\";\n"), nil},
		{"the last file", with(with(ubuntu, "etc/apt/apt.conf.d/99off", "APT::Periodic::Unattended-Upgrade \"0\";\n"), "etc/apt/apt.conf", "APT::Periodic::Unattended-Upgrade \"1\";\n"), unattended},
		{"Amazon Linux", amazon, automatic},
		{"downloads only", with(amazon, "etc/dnf/automatic.conf", "[commands]\ndownload_updates = yes\napply_updates = no\n"), nil},
		{"without settings", without(amazon, "etc/dnf/automatic.conf"), nil},
		{"always installs", map[string]string{wanted + "dnf-automatic-install.timer": ""}, []Patcher{{"dnf-automatic", "dnf-automatic-install.timer"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for p, content := range c.files {
				path := filepath.Join(dir, p)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				var err error
				if content == "-> /dev/null" {
					err = os.Symlink("/dev/null", path)
				} else {
					err = os.WriteFile(path, []byte(content), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			root, err := tree.OpenRunning(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			got, err := Patchers(root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got, want := Remedy(append(unattended, automatic...)), "systemctl disable --now apt-daily-upgrade.timer dnf-automatic.timer"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
