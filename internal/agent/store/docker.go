package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

var layerName = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z_.-]*$`)

// driverLayers has the layer directory of each driver of Docker and containers/storage, relative to the root. Other
// drivers use no file system, or one of their own.
var driverLayers = map[string]string{
	"overlay2": "overlay2", "overlay": "overlay", "fuse-overlayfs": "fuse-overlayfs", "aufs": "aufs/diff", "vfs": "vfs/dir",
}

// layers returns the layer directory of the store's driver; empty if there is none.
func (s dockerStore) layers() (string, error) {
	driver := path.Base(path.Dir(s.index))
	sub, known := driverLayers[driver]
	if !known {
		mounts, err := s.names(s.index + "/mounts")
		if err != nil || len(mounts) > 0 {
			return "", errors.Join(err, fmt.Errorf("/%s has layers of Docker's driver %s: %w", s.index, driver, errUnknown))
		}
		return "", nil
	}
	return path.Join(path.Dir(path.Dir(path.Dir(s.index))), sub), nil
}

// images returns the image layers by the driver's names. Source: Docker, layer store: sha256/CHAIN/cache-id.
func (s dockerStore) images() (images []string, err error) {
	chains, err := s.names(s.index + "/sha256")
	if err != nil {
		return nil, err
	}
	for _, chain := range chains {
		content, err := s.tree.Read(s.index + "/sha256/" + chain + "/cache-id")
		if err != nil {
			return nil, err
		}
		name := strings.TrimSpace(string(content))
		if !layerName.MatchString(name) {
			return nil, fmt.Errorf("/%s/sha256/%s/cache-id does not name a layer", s.index, chain)
		}
		images = append(images, name)
	}
	return images, nil
}

// forget removes all layers that belong to no image, and the records of containers. The build cache is removed too,
// because its records are.
func (s dockerStore) forget() (sum tree.Removed, err error) {
	layers, err := s.layers()
	if err != nil {
		return sum, err
	}
	images, err := s.images()
	if err != nil {
		return sum, err
	}
	if layers != "" {
		removed, err := s.keepOnly(layers, images)
		add(&sum, removed)
		if err != nil {
			return sum, err
		}
	}
	mounts, err := s.names(s.index + "/mounts")
	if err != nil {
		return sum, err
	}
	for _, name := range mounts {
		removed, err := s.tree.Remove(s.index+"/mounts/"+name, nil)
		add(&sum, removed)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// keepOnly removes all layers except some, and dangling short links.
func (s Store) keepOnly(layers string, images []string) (sum tree.Removed, err error) {
	names, err := s.names(layers)
	if err != nil {
		return sum, err
	}
	for _, name := range names {
		info, err := s.tree.Lstat(layers + "/" + name)
		if err != nil || !info.IsDir() || name == links || slices.Contains(images, name) || s.spares(layers+"/"+name) {
			continue
		}
		removed, err := s.remove(layers + "/" + name)
		add(&sum, removed)
		if err != nil {
			return sum, err
		}
	}
	short, err := s.names(layers + "/" + links)
	if err != nil {
		return sum, err
	}
	for _, name := range short {
		link := layers + "/" + links + "/" + name
		target, err := s.tree.Readlink(link)
		if err != nil {
			continue
		}
		if _, err := s.tree.Lstat(path.Join(path.Dir(link), target)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		removed, err := s.tree.Remove(link, nil)
		add(&sum, removed)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// links is the directory of short links to layers, which keep mount options short.
const links = "l"

// remembers checks each layer directory for its image.
func (s dockerStore) remembers() (string, error) {
	mounts, err := s.names(s.index + "/mounts")
	if err != nil {
		return "", err
	}
	if len(mounts) > 0 {
		return fmt.Sprintf("/%s/mounts knows %d containers", s.index, len(mounts)), nil
	}
	layers, err := s.layers()
	if err != nil || layers == "" {
		return "", err
	}
	ofImage := map[string]bool{}
	err = s.tree.Walk(s.index, func(p string, info fs.FileInfo) error {
		if path.Base(p) != "cache-id" || !info.Mode().IsRegular() {
			return nil
		}
		content, err := s.tree.Read(p)
		ofImage[strings.TrimSpace(string(content))] = true
		return err
	})
	if err != nil {
		return "", err
	}
	return s.writtenTo(layers, ofImage)
}

// writtenTo names a non-empty layer of no image.
func (s Store) writtenTo(layers string, ofImage map[string]bool) (string, error) {
	names, err := s.names(layers)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		dir := layers + "/" + name
		info, err := s.tree.Lstat(dir)
		if err == nil && info.IsDir() && name != links && !ofImage[name] && !s.spares(dir) && s.holdsSomething(dir) {
			return "/" + dir + " holds data of a container", nil
		}
	}
	return "", nil
}

// broken compares the files of each layer with Docker's record of the layer's archive.
func (s dockerStore) broken() (string, error) {
	layers, err := s.layers()
	if err != nil || layers == "" {
		return "", err
	}
	chains, err := s.names(s.index + "/sha256")
	if err != nil {
		return "", err
	}
	if _, err := s.images(); err != nil {
		return fmt.Sprintf("the layers of the layer store are unknown: %v", err), nil
	}
	for _, chain := range chains {
		record := s.index + "/sha256/" + chain
		name, err := s.tree.Read(record + "/cache-id")
		if err != nil {
			return "", err
		}
		why, err := s.splitDiffers(record+"/tar-split.json.gz", layers+"/"+strings.TrimSpace(string(name)))
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}
