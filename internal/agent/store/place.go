package store

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Place is a store named by a container runtime's configuration.
type Place struct {
	// Kind is empty for a directory without images, such as the state of containers.
	Kind rules.Store
	// Index is the store's path in the tree, and By the configuration file.
	Index, By string
}

// toml returns the expression of a setting with a directory.
func toml(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*` + name + `[ \t]*=[ \t]*["']([^"'\n]+)["']`)
}

// flag returns the expression of a flag with a path.
func flag(names string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[^#\n]*[\s"'](?:` + names + `)[= ]["']?(/[^\s"']+)`)
}

var (
	tomlSection  = regexp.MustCompile(`(?m)^[ \t]*\[`)
	tomlImports  = regexp.MustCompile(`(?m)^[ \t]*imports[ \t]*=[ \t]*\[([^\]]*)\]`)
	quotedPath   = regexp.MustCompile(`["'](/[^"']+)["']`)
	configFlag   = flag("--config-file|--config|-c")
	jsonRoot     = regexp.MustCompile(`"(?:data-root|graph)"\s*:\s*"([^"]+)"`)
	yamlData     = regexp.MustCompile(`(?m)^[ \t]*["']?data-dir["']?[ \t]*:[ \t]*["']?(/[^\s"']+)`)
	dataVariable = regexp.MustCompile(`(?m)^[^#\n]*\b(?:K3S|RKE2)_DATA_DIR=["']?(/[^\s"']+)`)
	rancher      = []string{"k3s", "k3s-agent", "rke2-agent", "rke2-server"}
)

const (
	metadata     = "io.containerd.metadata.v1.bolt/meta.db"
	tasks        = "io.containerd.runtime.v2.task/*"
	layersOfCRIO = "*-layers/layers.json"
)

// settings are where the directory of a runtime can be changed.
var settings = []struct {
	// files have the settings, beside the configuration that flags of the services name. Without files the services' own
	// files have them.
	files, services []string
	dir             *regexp.Regexp
	// top: settings below a section belong to a plugin.
	top bool
	// kind is empty for a place without images.
	kind  rules.Store
	index string
}{
	{[]string{"etc/containerd/config.toml", "etc/containerd/*.d/*.toml"}, []string{"containerd"}, toml("root"), true, rules.Containerd, metadata},
	{[]string{"etc/containerd/config.toml", "etc/containerd/*.d/*.toml"}, []string{"containerd"}, toml("state"), true, "", tasks},
	{[]string{"etc/containerd/config.toml", "etc/containerd/*.d/*.toml"}, []string{"containerd"}, toml("root_path"), false, rules.Snapshots, "metadata.db"},
	{nil, []string{"containerd"}, flag("--root"), false, rules.Containerd, metadata},
	{nil, []string{"containerd"}, flag("--state"), false, "", tasks},
	{nil, []string{"soci-snapshotter", "stargz-snapshotter", "containerd-stargz-grpc"}, flag("--root"), false,
		rules.Snapshots, "snapshotter/metadata.db"},
	{[]string{"etc/docker/daemon.json"}, []string{"docker"}, jsonRoot, false, rules.Docker, "image/*/layerdb"},
	{nil, []string{"docker"}, flag("--data-root|--graph|-g"), false, rules.Docker, "image/*/layerdb"},
	{[]string{"etc/containers/storage.conf", "usr/share/containers/storage.conf", "home/*/.config/containers/storage.conf"}, nil,
		toml("(?:graphroot|rootless_storage_path)"), false, rules.Storage, layersOfCRIO},
	{[]string{"etc/crio/crio.conf", "etc/crio/crio.conf.d/*"}, []string{"crio", "cri-o"}, toml("root"), false, rules.Storage, layersOfCRIO},
	{nil, []string{"crio", "cri-o"}, flag("--root|-r"), false, rules.Storage, layersOfCRIO},
	{[]string{"etc/rancher/*/config.yaml", "etc/rancher/*/config.yaml.d/*"}, rancher, yamlData, false, rules.Containerd, "agent/containerd/" + metadata},
	{nil, rancher, flag("--data-dir|-d"), false, rules.Containerd, "agent/containerd/" + metadata},
	{nil, rancher, dataVariable, false, rules.Containerd, "agent/containerd/" + metadata},
	{[]string{"etc/nerdctl/nerdctl.toml"}, nil, toml("data_root"), false, "", "*/containers/*"},
}

// filesOf returns patterns for the files of services: units, drop-ins, and environment.
func filesOf(services []string) (patterns []string) {
	for _, name := range services {
		for _, dir := range []string{"etc/systemd/system/", "usr/local/lib/systemd/system/", "usr/lib/systemd/system/", "lib/systemd/system/"} {
			patterns = append(patterns, dir+name+".service", dir+name+".service.d/*", dir+name+".service.env")
		}
		patterns = append(patterns, "etc/default/"+name, "etc/sysconfig/"+name)
	}
	return patterns
}

func valuesOf(setting *regexp.Regexp, text string) (values []string) {
	for _, match := range setting.FindAllStringSubmatch(text, -1) {
		values = append(values, match[1])
	}
	return values
}

// each calls visit for the text of each file. A directory or a dangling link is left out: runtimes cannot read it either.
func each(t *tree.Tree, patterns []string, visit func(file, text string)) error {
	for _, pattern := range patterns {
		found, err := t.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range found {
			if text, err := t.Read(file.Path); err == nil {
				visit(file.Path, string(text))
			}
		}
	}
	return nil
}

// configsOf returns patterns for the files with a setting: its own, those that flags of the services name, and their imports.
func configsOf(t *tree.Tree, files, services []string) ([]string, error) {
	own := filesOf(services)
	if files == nil {
		return own, nil
	}
	configs := slices.Clone(files)
	err := each(t, own, func(_, text string) {
		for _, file := range valuesOf(configFlag, text) {
			configs = append(configs, tree.Rel(file))
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(t, slices.Clone(configs), func(_, text string) {
		for _, list := range valuesOf(tomlImports, text) {
			for _, file := range valuesOf(quotedPath, list) {
				configs = append(configs, tree.Rel(file))
			}
		}
	})
	return configs, err
}

// Places returns the existing stores named by configurations of runtimes.
func Places(t *tree.Tree) (places []Place, err error) {
	for _, setting := range settings {
		configs, err := configsOf(t, setting.files, setting.services)
		if err != nil {
			return nil, err
		}
		var problems []error
		err = each(t, configs, func(file, text string) {
			if at := tomlSection.FindStringIndex(text); at != nil && setting.top {
				text = text[:at[0]]
			}
			for _, root := range valuesOf(setting.dir, text) {
				if !strings.HasPrefix(root, "/") || path.Clean(root) == "/" {
					continue
				}
				found, err := t.Glob(tree.Rel(root) + "/" + setting.index)
				problems = append(problems, err)
				for _, m := range found {
					if place := (Place{setting.kind, m.Path, "/" + file}); !slices.Contains(places, place) {
						places = append(places, place)
					}
				}
			}
		})
		if err := errors.Join(append(problems, err)...); err != nil {
			return nil, err
		}
	}
	return places, nil
}
