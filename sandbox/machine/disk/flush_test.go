package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// running is a small disk of a machine that runs.
func running(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		put(t, root, path, text)
	}
	if err := Start(root); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t *testing.T, root, path, text string) {
	t.Helper()
	if err := WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// copied is the content of a copy of a disk.
func copied(t *testing.T, root string) map[string]string {
	t.Helper()
	dst, content := filepath.Join(t.TempDir(), "copy"), map[string]string{}
	err := Copy(dst, root)
	if err == nil {
		err = filepath.WalkDir(dst, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			relative, _ := filepath.Rel(dst, path)
			content[relative] = string(text)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestCopyOfARunningDisk: the copy of a running machine's disk has what was flushed, and the names of everything.
func TestCopyOfARunningDisk(t *testing.T) {
	root := running(t, map[string]string{"flushed": "a", "changed": "old", "grown": "old", "renamed": "b", "removed": "c", "again": "d", "permitted": "e"})
	put(t, root, "new", "lost")
	put(t, root, "synced", "kept")
	put(t, root, "grown", "old and new")
	put(t, root, "changed", "new")
	if err := errors.Join(
		os.Chtimes(filepath.Join(root, "changed"), time.Time{}, time.Now().Add(time.Second)), // the clock of the file system may stand
		Fsync(root, "synced"), os.Rename(filepath.Join(root, "renamed"), filepath.Join(root, "name")), os.Remove(filepath.Join(root, "removed")),
		os.Chmod(filepath.Join(root, "permitted"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"flushed": "a", "changed": "\x00\x00\x00", "grown": "\x00\x00\x00", "name": "b", "again": "d", "permitted": "e", "new": "", "synced": "kept",
	}
	if diff := cmp.Diff(want, copied(t, root)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if err := Flush(root); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"changed": "new", "grown": "old and new", "new": "lost"} {
		want[path] = text
	}
	put(t, root, "after", "lost again")
	want["after"] = ""
	if diff := cmp.Diff(want, copied(t, root)); diff != "" {
		t.Errorf("the copy after a flush (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Join(root, "run")); err != nil { // the end of the power
		t.Fatal(err)
	}
	want["after"] = "lost again"
	if diff := cmp.Diff(want, copied(t, root)); diff != "" {
		t.Errorf("the copy without power (-want +got):\n%s", diff)
	}
}

// TestPullWithoutAFlush: the runtime has synced what it knows of an image, and not the files of the layer.
func TestPullWithoutAFlush(t *testing.T) {
	root := running(t, nil)
	if err := AddImage(root, "registry.example.com/app:v1"); err != nil {
		t.Fatal(err)
	}
	text := "registry.example.com/app:v1\n"
	for _, flushed := range []bool{false, true} {
		dst := filepath.Join(t.TempDir(), "copy")
		if err := errors.Join(Copy(dst, root), Flush(root)); err != nil {
			t.Fatal(err)
		}
		layers, err := filepath.Glob(filepath.Join(dst, containerdSnap, "*/fs/etc/image"))
		if err != nil || len(layers) != 1 || !HasImage(dst, strings.TrimSpace(text)) {
			t.Fatalf("layers %v (%v), images %v", layers, err, Images(dst))
		}
		if got := readLine(layers[0]); flushed != (got == strings.TrimSpace(text)) || !flushed && got != "" {
			t.Errorf("flushed: %t, the layer has %q", flushed, got)
		}
	}
}

// TestFreeze: a freeze waits for a writer, flushes what the writer wrote, and lets the next writer wait for the thaw.
func TestFreeze(t *testing.T) {
	root := running(t, nil)
	done := Writing(root)
	frozen, thawed, wrote := make(chan func()), make(chan bool, 1), make(chan bool)
	go func() {
		thaw, err := Freeze(root)
		if err != nil {
			t.Error(err)
		}
		frozen <- thaw
	}()
	put(t, root, "before", "kept")
	select {
	case <-frozen:
		t.Fatal("frozen while a program writes")
	default:
	}
	done()
	thaw := <-frozen
	go func() {
		defer Writing(root)()
		wrote <- len(thawed) == 1
	}()
	if diff := cmp.Diff(map[string]string{"before": "kept"}, copied(t, root)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	thawed <- true
	thaw()
	if !<-wrote {
		t.Error("a program wrote to a frozen disk")
	}
}
