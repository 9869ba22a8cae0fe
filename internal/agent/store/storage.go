package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// storage has the paths of containers/storage.
type storage struct {
	// images is the list of images, records the directory of the list of layers, and layers the directory of their
	// files.
	images, records, layers string
}

// volatileLayers is the second list of layers, which need not survive a crash.
const volatileLayers = "volatile-layers.json"

func (s storageStore) storage() (storage, error) {
	records := path.Dir(s.index)
	root, driver := path.Dir(records), strings.TrimSuffix(path.Base(records), "-layers")
	sub, known := driverLayers[driver]
	if !known {
		return storage{}, fmt.Errorf("/%s is of the driver %s: %w", s.index, driver, errUnknown)
	}
	return storage{images: path.Join(root, driver+"-images/images.json"), records: records, layers: path.Join(root, sub)}, nil
}

// record has the used fields of a layer or an image. whole keeps all fields.
type record struct {
	ID     string   `json:"id"`
	Parent string   `json:"parent"`
	Layer  string   `json:"layer"`
	Mapped []string `json:"mapped-layers"`
	whole  json.RawMessage
}

func (s storageStore) records(p string) ([]record, error) {
	content, err := s.tree.Read(p)
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("the writable layers in /%s are unknown: %w", p, err)
	}
	records := make([]record, len(all))
	for i, whole := range all {
		if err := json.Unmarshal(whole, &records[i]); err != nil || !layerName.MatchString(records[i].ID) {
			return nil, fmt.Errorf("/%s does not name a layer: %q", p, records[i].ID)
		}
		records[i].whole = whole
	}
	return records, nil
}

// imageLayers returns the layers of images, with all lower layers.
func (s storageStore) imageLayers(st storage) (keep []string, err error) {
	layers, err := s.records(s.index)
	if err != nil {
		return nil, err
	}
	images, err := s.records(st.images)
	if errors.Is(err, fs.ErrNotExist) && len(layers) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parents := map[string]string{}
	for _, l := range layers {
		parents[l.ID] = l.Parent
	}
	for _, image := range images {
		for _, top := range append(image.Mapped, image.Layer) {
			for l := top; l != "" && !slices.Contains(keep, l); l = parents[l] {
				keep = append(keep, l)
			}
		}
	}
	return keep, nil
}

// forget removes all layers of no image: files and list entries. A separate rule deletes the lists of containers.
func (s storageStore) forget() (sum tree.Removed, err error) {
	st, err := s.storage()
	if err != nil {
		return sum, err
	}
	keep, err := s.imageLayers(st)
	if err != nil {
		return sum, err
	}
	if sum, err = s.keepOnly(st.layers, keep); err != nil {
		return sum, err
	}
	for _, list := range []string{s.index, st.records + "/" + volatileLayers} {
		all, err := s.records(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return sum, err
		}
		stay := []json.RawMessage{}
		for _, l := range all {
			if slices.Contains(keep, l.ID) {
				stay = append(stay, l.whole)
				continue
			}
			sum.Files++
			if _, err := s.tree.Remove(st.records+"/"+l.ID+".tar-split.gz", nil); err != nil {
				return sum, err
			}
		}
		if len(stay) == len(all) {
			continue
		}
		content, err := json.Marshal(stay)
		if err == nil {
			err = s.tree.Replace(list, content, 0o600)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// remembers checks whether each layer in the lists and on the disk belongs to an image, starting from the images.
func (s storageStore) remembers() (string, error) {
	st, err := s.storage()
	if err != nil {
		return "", err
	}
	below, left := map[string]string{}, map[string]bool{}
	for _, list := range []string{s.index, st.records + "/" + volatileLayers} {
		all, err := s.records(list)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, l := range all {
			below[l.ID], left[l.ID] = l.Parent, true
		}
	}
	images, err := s.records(st.images)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	ofImage := map[string]bool{}
	for _, image := range images {
		for _, top := range append(image.Mapped, image.Layer) {
			for l := top; left[l]; l = below[l] {
				delete(left, l)
				ofImage[l] = true
			}
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("/%s lists %d writable layers", s.index, len(left)), nil
	}
	return s.writtenTo(st.layers, ofImage)
}

// broken compares the files of each layer with the record of its archive.
func (s storageStore) broken() (string, error) {
	st, err := s.storage()
	if err != nil {
		return "", err
	}
	keep, err := s.imageLayers(st)
	if err != nil {
		return "", err
	}
	for _, layer := range keep {
		why, err := s.splitDiffers(st.records+"/"+layer+".tar-split.gz", st.layers+"/"+layer)
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}
