package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const fstab = "etc/fstab"

// addMounts is cloud-init's module mounts, which runs once for an instance: the entries in the settings on the disk go to fstab. A mount
// that fails stops nothing in this boot, but the next boot reads fstab before everything else.
func addMounts(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "etc/cloud/cloud.cfg.d/*.cfg"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var settings struct {
			Mounts [][]string `json:"mounts"`
		}
		if err := yaml.Unmarshal(text, &settings); err != nil {
			return fmt.Errorf("settings of cloud-init: %s: %w", filepath.Base(file), err)
		}
		for _, fields := range settings.Mounts {
			if defaults := []string{"", "", "auto", "defaults,nofail", "0", "2"}; len(fields) >= 2 {
				line := strings.Join(append(fields, defaults[min(len(fields), len(defaults)):]...), " ")
				if err := ensureLine(filepath.Join(root, fstab), line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// knownDevices are what every machine of the sandbox has. A path names a device of the machine, or a file on the disk.
var knownDevices = []string{"LABEL=cloudimg-rootfs", "LABEL=UEFI", "LABEL=BOOT"}

// MissingDevice returns the device and the directory of the first entry of fstab that the machine lacks, and that systemd waits for. Source:
// systemd.mount(5), fstab.
func MissingDevice(root string) (device, at string) {
	text, err := os.ReadFile(filepath.Join(root, fstab))
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[0], "#") || !strings.Contains(fields[0], "=") || slices.Contains(knownDevices, fields[0]) {
			continue
		}
		options := strings.Split(fields[3], ",")
		if !slices.Contains(options, "nofail") && !slices.Contains(options, "noauto") {
			return fields[0], fields[1]
		}
	}
	return "", ""
}
