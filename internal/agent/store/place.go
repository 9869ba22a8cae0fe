package store

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Place is a store named by a container runtime's configuration.
type Place struct {
	Kind rules.Store
	// Index is the store's path in the tree, and By the configuration file.
	Index, By string
}

var (
	tomlRoot     = regexp.MustCompile(`(?m)^[ \t]*root[ \t]*=[ \t]*["']([^"'\n]+)["']`)
	tomlGraph    = regexp.MustCompile(`(?m)^[ \t]*(?:graphroot|rootless_storage_path)[ \t]*=[ \t]*["']([^"'\n]+)["']`)
	tomlRootPath = regexp.MustCompile(`(?m)^[ \t]*root_path[ \t]*=[ \t]*["']([^"'\n]+)["']`)
	tomlSection  = regexp.MustCompile(`(?m)^[ \t]*\[`)
)

// settings are the configuration files in which a runtime's directory can be changed.
var settings = []struct {
	files []string
	roots func(text string) []string
	kind  rules.Store
	index string
}{
	{[]string{"etc/containerd/config.toml", "etc/containerd/*.d/*.toml"}, func(text string) []string {
		// Settings below a section belong to a plugin.
		if at := tomlSection.FindStringIndex(text); at != nil {
			text = text[:at[0]]
		}
		return valuesOf(tomlRoot, text)
	}, rules.Containerd, "io.containerd.metadata.v1.bolt/meta.db"},
	{[]string{"etc/containerd/config.toml", "etc/containerd/*.d/*.toml"}, func(text string) []string {
		return valuesOf(tomlRootPath, text)
	}, rules.Snapshots, "metadata.db"},
	{[]string{"etc/docker/daemon.json"}, func(text string) []string {
		var daemon struct {
			Root  string `json:"data-root"`
			Graph string `json:"graph"`
		}
		if json.Unmarshal([]byte(text), &daemon) != nil {
			return nil
		}
		return []string{daemon.Root, daemon.Graph}
	}, rules.Docker, "image/*/layerdb"},
	{[]string{"etc/containers/storage.conf", "usr/share/containers/storage.conf", "home/*/.config/containers/storage.conf"}, func(text string) []string {
		return valuesOf(tomlGraph, text)
	}, rules.Storage, "*-layers/layers.json"},
	{[]string{"etc/crio/crio.conf", "etc/crio/crio.conf.d/*"}, func(text string) []string {
		return valuesOf(tomlRoot, text)
	}, rules.Storage, "*-layers/layers.json"},
}

func valuesOf(setting *regexp.Regexp, text string) (values []string) {
	for _, match := range setting.FindAllStringSubmatch(text, -1) {
		values = append(values, match[1])
	}
	return values
}

// Places returns the existing stores named by configurations of runtimes.
func Places(t *tree.Tree) (places []Place, err error) {
	for _, setting := range settings {
		for _, pattern := range setting.files {
			files, err := t.Glob(pattern)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				text, err := t.Read(file.Path)
				if err != nil {
					continue // a directory or a dangling link: runtimes cannot read it either
				}
				for _, root := range setting.roots(string(text)) {
					if !strings.HasPrefix(root, "/") || path.Clean(root) == "/" {
						continue
					}
					found, err := t.Glob(tree.Rel(root) + "/" + setting.index)
					if err != nil {
						return nil, err
					}
					for _, m := range found {
						places = append(places, Place{setting.kind, m.Path, "/" + file.Path})
					}
				}
			}
		}
	}
	return places, nil
}
