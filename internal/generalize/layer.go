package generalize

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// layerStores tell, from the index of a container store, in which directories containers write, as paths
// of the tree. What the index does not know at all belongs to containers that are gone.
var layerStores = map[string]func(t *tree.Tree, index string) ([]string, error){
	"containerd": containerdLayers, "docker": dockerLayers, "containers-storage": storageLayers,
}

// layers turns the indexes that a rule finds into the layers that hold something.
func (a *applied) layers(indexes []tree.Match) (found []tree.Match, err error) {
	var problems []error
	for _, index := range indexes {
		dirs, err := layerStores[a.rule.Layers](a.tree, index.Path)
		if err != nil {
			problems = append(problems, err)
		}
		for _, dir := range dirs {
			if slices.Contains(a.before.spared, dir) {
				a.Kept = "the layer of the pod that does this"
				continue
			}
			info, err := a.tree.Lstat(dir)
			if err == nil && holdsSomething(a.tree, dir) {
				found = append(found, tree.Match{Path: dir, Info: info, Via: index.Via})
			}
		}
	}
	return found, errors.Join(problems...)
}

// empty removes what is in a directory; the directory stays, as its store knows it.
func (a *applied) empty(m tree.Match) error {
	entries, err := a.tree.List(m.Path)
	if err != nil {
		return err
	}
	var problems []error
	for _, entry := range entries {
		removed, err := a.tree.Remove(m.Path+"/"+entry.Name(), nil)
		a.Changed += removed.Files + removed.Dirs
		a.Bytes += removed.Bytes
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// whyNotEmptied names the first layer that holds something.
func whyNotEmptied(t *tree.Tree, r *Rule, before *Before) (why string, err error) {
	err = search(t, r, func(index string, _ fs.FileInfo) error {
		dirs, err := layerStores[r.Layers](t, index)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if why == "" && !slices.Contains(before.spared, dir) && holdsSomething(t, dir) {
				why = fmt.Sprintf("/%s holds what a container wrote", dir)
			}
		}
		return nil
	})
	return why, err
}

// holdsSomething is true as well of what cannot be looked at.
func holdsSomething(t *tree.Tree, dir string) bool {
	entries, err := t.List(dir)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0
}

// Kinds of containerd's snapshots. Source: containerd, core/snapshots.
const (
	snapshotView      = 1
	snapshotCommitted = 3
)

// snapshotDirs are where containerd's snapshotters keep a snapshot, by its number.
var snapshotDirs = []string{"snapshots", "active"}

// containerdLayers reads the index of a containerd snapshotter: of each snapshot its number and kind. A
// committed one is a layer of an image; an active one is what a container writes to.
func containerdLayers(t *tree.Tree, index string) (dirs []string, err error) {
	kinds, err := readSnapshots(t, index)
	if err != nil {
		return nil, fmt.Errorf("/%s does not tell which layers containers write to: %w", index, err)
	}
	base := path.Dir(index)
	seen := map[string]bool{}
	for _, sub := range snapshotDirs {
		entries, err := t.List(base + "/" + sub)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			seen[entry.Name()] = true
			if kind := kinds[entry.Name()]; kind != snapshotCommitted && kind != snapshotView {
				dirs = append(dirs, writableIn(t, base+"/"+sub+"/"+entry.Name())...)
			}
		}
	}
	if len(seen) > 0 {
		return dirs, nil
	}
	for number, kind := range kinds {
		if kind != snapshotCommitted && kind != snapshotView {
			return nil, fmt.Errorf("/%s knows the writable layer %s, and there is no directory of it that could be emptied", index, number)
		}
	}
	return dirs, nil
}

// writableIn are the directories of a snapshot that are written to: those of an overlay, else all of it.
func writableIn(t *tree.Tree, snapshot string) []string {
	if info, err := t.Lstat(snapshot + "/fs"); err != nil || !info.IsDir() {
		return []string{snapshot}
	}
	dirs := []string{snapshot + "/fs"}
	if info, err := t.Lstat(snapshot + "/work"); err == nil && info.IsDir() {
		dirs = append(dirs, snapshot+"/work")
	}
	return dirs
}

// readSnapshots returns the kind of each snapshot by its number.
// Source: containerd, core/snapshots/storage: buckets v1, snapshots, one for each name; id is a varint.
func readSnapshots(t *tree.Tree, index string) (kinds map[string]int, err error) {
	defer func() {
		// A database that is damaged makes the library panic.
		if p := recover(); p != nil {
			kinds, err = nil, fmt.Errorf("it is damaged: %v", p)
		}
	}()
	if info, err := t.Lstat(index); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("it is not a regular file"), err)
	}
	db, err := bolt.Open(index, 0, &bolt.Options{
		ReadOnly: true, Timeout: time.Second,
		OpenFile: func(_ string, _ int, _ fs.FileMode) (*os.File, error) {
			return t.OpenFile(index, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		},
	})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	kinds = map[string]int{}
	err = db.View(func(tx *bolt.Tx) error {
		version := tx.Bucket([]byte("v1"))
		if version == nil {
			return nil // nothing was ever unpacked
		}
		all := version.Bucket([]byte("snapshots"))
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(name []byte) error {
			snapshot := all.Bucket(name)
			number, n := binary.Uvarint(snapshot.Get([]byte("id")))
			kind := snapshot.Get([]byte("kind"))
			if n <= 0 || len(kind) != 1 {
				return fmt.Errorf("the entry %q is not one of a snapshot", name)
			}
			kinds[strconv.FormatUint(number, 10)] = int(kind[0])
			return nil
		})
	})
	return kinds, err
}

var layerName = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z_.-]*$`)

// dockerLayers reads which layer of Docker's overlay2 driver a container writes to: the index is a file
// that holds its name. Source: Docker, layer store.
func dockerLayers(t *tree.Tree, index string) ([]string, error) {
	content, err := t.Read(index)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSpace(string(content))
	base, _, found := strings.Cut(index, "/image/overlay2/")
	if !found || !layerName.MatchString(name) {
		return nil, fmt.Errorf("/%s does not name a layer", index)
	}
	return overlayDirs(t, base+"/overlay2/"+name), nil
}

// storageLayers reads which layers containers of CRI-O and Podman write to.
// Source: containers/storage, containers.json of the overlay driver.
func storageLayers(t *tree.Tree, index string) (dirs []string, err error) {
	content, err := t.Read(index)
	if err != nil {
		return nil, err
	}
	var containers []struct{ Layer string }
	if err := json.Unmarshal(content, &containers); err != nil {
		return nil, fmt.Errorf("/%s does not tell which layers containers write to: %w", index, err)
	}
	for _, c := range containers {
		if !layerName.MatchString(c.Layer) {
			return nil, fmt.Errorf("/%s does not name a layer: %q", index, c.Layer)
		}
		dirs = append(dirs, overlayDirs(t, path.Dir(path.Dir(index))+"/overlay/"+c.Layer)...)
	}
	return dirs, nil
}

func overlayDirs(t *tree.Tree, layer string) (dirs []string) {
	for _, sub := range []string{"diff", "work"} {
		if info, err := t.Lstat(layer + "/" + sub); err == nil && info.IsDir() {
			dirs = append(dirs, layer+"/"+sub)
		}
	}
	return dirs
}
