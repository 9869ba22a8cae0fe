package bootconfig

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// runtimeConfig is the part of containerd's configuration that a node shows. Source: containerd, docs/cri/config.md.
type runtimeConfig struct {
	// version of containerd, such as "1.7.25".
	version       string
	withoutCRI    bool
	systemdCgroup bool
	// registries, networks and plugins are directories.
	registries, networks, plugins string
}

// runtime reads containerd's configuration and databases.
func (f files) runtime() (runtimeConfig, error) {
	r := runtimeConfig{networks: "/etc/cni/net.d", plugins: "/opt/cni/bin"}
	if f.masked(RuntimeUnit) {
		return r, failed(RuntimeUnit, "Unit %s is masked.", RuntimeUnit)
	}
	program, err := f.read("/usr/bin/containerd")
	if err != nil {
		return r, failed(RuntimeUnit, "Failed to locate executable /usr/bin/containerd: No such file or directory")
	}
	_, r.version, _ = strings.Cut(strings.TrimSpace(string(program)), " ")
	const path = "/etc/containerd/config.toml"
	if f.exists(path) {
		var config tree
		if _, err := toml.Decode(f.text(path), &config); err != nil {
			return r, failed(RuntimeUnit, "containerd: failed to load TOML: %s: %w", path, err)
		}
		r.readSettings(config)
	}
	if err := disk.CheckStores(f.root); err != nil {
		return r, failed(RuntimeUnit, "containerd: failed to load plugin io.containerd.metadata.v1.bolt: %w", err)
	}
	return r, nil
}

// tree is a decoded TOML table.
type tree map[string]any

// at is the table at a path; nil if there is none.
func (t tree) at(path ...string) tree {
	for _, name := range path {
		next, _ := t[name].(map[string]any)
		t = next
	}
	return t
}

func (t tree) text(name string) string {
	text, _ := t[name].(string)
	return text
}

// readSettings takes the settings of version 2 ("io.containerd.grpc.v1.cri") and version 3 of the file.
func (r *runtimeConfig) readSettings(config tree) {
	disabled, _ := config["disabled_plugins"].([]any)
	for _, plugin := range disabled {
		r.withoutCRI = r.withoutCRI || slices.Contains([]any{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}, plugin)
	}
	for _, plugin := range []string{"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"} {
		settings := config.at("plugins", plugin)
		systemd, _ := settings.at("containerd", "runtimes", "runc", "options")["SystemdCgroup"].(bool)
		r.systemdCgroup = r.systemdCgroup || systemd
		for field, value := range map[*string]string{
			&r.registries: settings.at("registry").text("config_path"),
			&r.networks:   settings.at("cni").text("conf_dir"), &r.plugins: settings.at("cni").text("bin_dir"),
		} {
			if value != "" {
				*field = value
			}
		}
	}
}

// cgroupProblem is the error of each pod sandbox if kubelet and runtime disagree. From containerd 2.0, the kubelet
// takes the runtime's driver. Source: Kubernetes documentation, "Configuring a cgroup driver"; runc, libcontainer/specconv.
func (r *runtimeConfig) cgroupProblem(driver string) string {
	if !strings.HasPrefix(r.version, "1.") || r.systemdCgroup == (driver == "systemd") {
		return ""
	}
	if r.systemdCgroup {
		return `runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/besteffort/pod" instead: unknown`
	}
	return `runc create failed: cgroup path "kubepods-besteffort-pod.slice:cri-containerd" is not valid for driver cgroupfs: unknown`
}

// NotInitialized is containerd's message, as the kubelet reports it.
const NotInitialized = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady " +
	"message:Network plugin returns error: cni plugin not initialized"

// network reads the first configuration of the network plugin, and looks for its programs. On EKS, a DaemonSet writes
// both at each boot, and the sandbox has none. Source: containerd/go-cni; libcni; amazon-vpc-cni-k8s, entrypoint.
func (f files) network(r runtimeConfig) (notReady, sandbox string) {
	if f.exists("/usr/bin/nodeadm") {
		return "", ""
	}
	for _, path := range f.list(r.networks, ".conf", ".conflist", ".json") {
		var config struct {
			Name    string `json:"name"`
			Type    string `json:"type"`
			Plugins []struct {
				Type string `json:"type"`
			} `json:"plugins"`
		}
		if err := json.Unmarshal([]byte(f.text(path)), &config); err != nil || config.Type == "" && len(config.Plugins) == 0 {
			continue // the runtime skips invalid files
		}
		kinds := []string{config.Type}
		for _, plugin := range config.Plugins {
			kinds = append(kinds, plugin.Type)
		}
		for _, kind := range kinds {
			if kind != "" && !f.exists(filepath.Join(r.plugins, kind)) {
				return "", fmt.Sprintf("plugin type=%q name=%q failed (add): failed to find plugin %q in path [%s]", kind, config.Name, kind, r.plugins)
			}
		}
		return "", ""
	}
	return NotInitialized, ""
}

// registries are the errors of pulls by host, from the hosts' hosts.toml. Source: containerd, docs/hosts.md.
func (f files) registries(r runtimeConfig) map[string]string {
	if r.registries == "" {
		return nil
	}
	problems := map[string]string{}
	for _, dir := range f.list(r.registries) {
		path := filepath.Join(dir, "hosts.toml")
		var config struct {
			CA   any `toml:"ca"`
			Host map[string]struct {
				CA any `toml:"ca"`
			} `toml:"host"`
		}
		if !f.exists(path) {
			continue
		}
		host := filepath.Base(dir)
		if _, err := toml.Decode(f.text(path), &config); err != nil {
			problems[host] = fmt.Sprintf("failed to parse hosts file: failed to parse TOML: %s", err)
			continue
		}
		authorities := []any{config.CA}
		for _, mirror := range config.Host {
			authorities = append(authorities, mirror.CA)
		}
		for _, authority := range authorities {
			if text, is := authority.(string); is && len(certificates([]byte(f.text(text)))) == 0 {
				problems[host] = fmt.Sprintf("unable to load CA file %q", text)
			}
		}
	}
	return problems
}

// NoHostDNS reports whether look-ups on the host fail.
func (c Config) NoHostDNS() bool { return c.resolver != "" }

// PullProblem is the error of a pull of an image; empty if the registry can be reached.
func (c Config) PullProblem(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(host, ".:") {
		host = "docker.io"
	}
	for _, own := range []string{host, "_default"} {
		if problem := c.registries[own]; problem != "" {
			return problem
		}
	}
	switch head := fmt.Sprintf("failed to do request: Head %q: ", "https://"+host+"/v2/"); {
	case c.resolver != "":
		return head + "dial tcp: lookup " + host + " " + c.resolver
	case c.authorities != "":
		return head + "tls: failed to verify certificate: " + c.authorities
	}
	return ""
}
