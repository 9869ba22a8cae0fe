package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/rules"
)

// Image is a container image in a store.
type Image struct {
	// Name is a reference; empty if the store has only a digest.
	Name string
	// Digest is the digest of the manifest. Docker's layer store has no manifests: the digest is the ID of the image.
	Digest string
}

// maxImages is the largest number of listed images.
const maxImages = 2000

// maxReference is the longest kept name, in bytes.
const maxReference = 512

// Images lists the images of a store. A store of layers without an index of names has none.
func (s Store) Images() ([]Image, error) {
	named := map[string][]string{}
	var err error
	switch s.kind {
	case rules.Containerd:
		err = containerdStore{s}.imageNames(named)
	case rules.Docker:
		err = dockerStore{s}.imageNames(named)
	case rules.Storage:
		err = storageStore{s}.imageNames(named)
	case rules.Snapshots:
	}
	var images []Image
	for _, digest := range slices.Sorted(maps.Keys(named)) {
		images = append(images, asImages(digest, named[digest])...)
	}
	return images[:min(len(images), maxImages)], err
}

// asImages are the names with a tag of one image. A name by digest is kept only for an image without a tag.
func asImages(digest string, names []string) []Image {
	var tagged, byDigest []Image
	for _, name := range names {
		repository, _, isByDigest := strings.Cut(name, "@")
		switch {
		case len(name) > maxReference || strings.HasPrefix(name, "sha256:"): // the ID of the image, as the CRI plugin names it
		case isByDigest:
			byDigest = append(byDigest, Image{repository, digest})
		default:
			tagged = append(tagged, Image{name, digest})
		}
	}
	switch {
	case len(tagged) > 0:
		return tagged
	case len(byDigest) > 0:
		return byDigest
	}
	return []Image{{Digest: digest}}
}

// imageNames reads the images of all namespaces, by the digest of the manifest.
func (s containerdStore) imageNames(into map[string][]string) error {
	return s.withDatabase(s.index, func(tx *bolt.Tx) error {
		if err := checkContainerd(tx); err != nil {
			return err
		}
		return eachBucket(tx.Bucket([]byte("v1")), func(_ string, namespace *bolt.Bucket) {
			_ = eachBucket(namespace.Bucket([]byte("images")), func(name string, image *bolt.Bucket) {
				if target := image.Bucket([]byte("target")); target != nil {
					digest := string(target.Get([]byte("digest")))
					into[digest] = append(into[digest], name)
				}
			})
		})
	})
}

// imageNames reads Docker's index of names: image/DRIVER/repositories.json. Source: Docker, reference store.
func (s dockerStore) imageNames(into map[string][]string) error {
	content, err := s.tree.Read(path.Dir(s.index) + "/repositories.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var index struct {
		Repositories map[string]map[string]string
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return err
	}
	for _, references := range index.Repositories {
		for name, id := range references {
			into[id] = append(into[id], name)
		}
	}
	return nil
}

// imageNames reads the list of images of containers/storage. Source: containers/storage, images.json.
func (s storageStore) imageNames(into map[string][]string) error {
	st, err := s.storage()
	if err != nil {
		return err
	}
	content, err := s.tree.Read(st.images)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var images []struct {
		Digest string   `json:"digest"`
		Names  []string `json:"names"`
	}
	if err := json.Unmarshal(content, &images); err != nil {
		return err
	}
	for _, image := range images {
		into[image.Digest] = append(into[image.Digest], image.Names...)
	}
	return nil
}
