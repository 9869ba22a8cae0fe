package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Modules are the modules that cloud-init runs, from the lists in its settings. A list without a setting has all
// modules.
type Modules map[string][]string

// The lists of the stages of cloud-init.
const (
	initStage   = "cloud_init_modules"
	configStage = "cloud_config_modules"
	finalStage  = "cloud_final_modules"
)

// CloudInitModules reads the settings on a disk. A later file overrides an earlier file.
func CloudInitModules(root string) (Modules, error) {
	m := Modules{}
	more, err := filepath.Glob(filepath.Join(root, "etc/cloud/cloud.cfg.d/*.cfg"))
	if err != nil {
		return m, err
	}
	for _, file := range append([]string{filepath.Join(root, "etc/cloud/cloud.cfg")}, more...) {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var settings map[string]any
		if err == nil {
			err = yaml.Unmarshal(text, &settings)
		}
		if err != nil {
			return m, fmt.Errorf("settings of cloud-init: %s: %w", filepath.Base(file), err)
		}
		for _, stage := range []string{initStage, configStage, finalStage} {
			if list, set := settings[stage].([]any); set {
				m[stage] = moduleNames(list)
			}
		}
	}
	return m, nil
}

// moduleNames of a list. Entries may be pairs of a name and a frequency.
func moduleNames(list []any) []string {
	names := []string{}
	for _, entry := range list {
		if pair, is := entry.([]any); is && len(pair) > 0 {
			entry = pair[0]
		}
		names = append(names, strings.ReplaceAll(fmt.Sprint(entry), "-", "_"))
	}
	return names
}

func (m Modules) run(stage, module string) bool {
	list, set := m[stage]
	return !set || slices.Contains(list, module)
}

// Within restricts the orders to these modules: runcmd leaves its script to scripts_user. A bootcmd is a command,
// too.
func (o Orders) Within(m Modules) Orders {
	if !m.run(initStage, "write_files") {
		o.Files = nil
	}
	o.Bootstrap = o.Bootstrap && m.run(configStage, "runcmd") && m.run(finalStage, "scripts_user")
	return o
}

// StartsAtBoot reports whether systemd starts a unit at boot.
func StartsAtBoot(root, unit string) bool {
	return Exists(root, filepath.Join("etc/systemd/system/multi-user.target.wants", unit)) && Exists(root, filepath.Join("etc/systemd/system", unit))
}

// Masked reports whether systemd refuses to start a unit: its file is a link to /dev/null.
func Masked(root, unit string) bool {
	target, err := os.Readlink(filepath.Join(root, "etc/systemd/system", unit))
	return err == nil && target == "/dev/null"
}

// Exists reports whether a path exists on the disk.
func Exists(root, path string) bool { return exists(filepath.Join(root, path)) }
