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

// Modules are those that cloud-init runs, by the lists in its settings; a list that nobody sets has all of them.
type Modules map[string][]string

// The lists, one for each stage of cloud-init.
const (
	initStage   = "cloud_init_modules"
	configStage = "cloud_config_modules"
	finalStage  = "cloud_final_modules"
)

// CloudInitModules reads the settings on a disk. Of two files that set a list the later one counts.
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

// moduleNames of a list, whose entries may be pairs of a name and how often it runs.
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

// Within are the orders that cloud-init carries out with these modules: runcmd leaves its script to scripts_user. A
// bootcmd counts as one of the commands.
func (o Orders) Within(m Modules) Orders {
	if !m.run(initStage, "write_files") {
		o.Files = nil
	}
	o.Bootstrap = o.Bootstrap && m.run(configStage, "runcmd") && m.run(finalStage, "scripts_user")
	return o
}

// Wants tells whether systemd starts a unit at boot.
func Wants(root, unit string) bool {
	return Exists(root, filepath.Join("etc/systemd/system/multi-user.target.wants", unit)) && Exists(root, filepath.Join("etc/systemd/system", unit))
}

// Exists tells whether there is anything at a path of the disk.
func Exists(root, path string) bool { return exists(filepath.Join(root, path)) }
