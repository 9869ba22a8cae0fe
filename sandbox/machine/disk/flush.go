package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A running machine has its writes in memory. A copy of its disk holds what Flush and Fsync have written, as ext4 does with delayed
// allocation:
//   - All names are there, with their modes, owners and links, and removed files are gone: the journal has them.
//   - A file that was flushed, and has the same size and time of change, is whole. Another name does not matter.
//   - A file that was written after its flush has zeros, as many as it had bytes then. A file that was never flushed is empty.
//
// The model drops what would depend on luck: no time writes a file back, and a file is never partly old. A machine without power has lost
// nothing: what a loss of power destroys is not modelled. Programs of this host that call fsync are not seen; Flush is for them, too.
const (
	// flushedPath lists the flushed files, one in a line: inode, size and time of change, and a hash of the path, which may have an identity.
	flushedPath = "run/sandbox/flushed"
	// writesPath is locked by writers, shared, and by a freeze. The lock ends with its process, as a guarded freeze ends with its unit.
	writesPath = "run/sandbox/writes"
)

// Further is where a running machine has its further disks: a link to the tree, with the serial number as its name.
const Further = "run/sandbox/disks"

// Numbers is where a running machine has the device numbers of its further disks, by serial number.
const Numbers = "run/sandbox/numbers"

// state is the content of a file, as far as Flush can see.
type state struct{ inode, size, changed int64 }

func stateOf(info fs.FileInfo) state {
	s := state{size: info.Size(), changed: info.ModTime().UnixNano()}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		s.inode = int64(stat.Ino)
	}
	return s
}

func hashOf(path string) string { return Digest(filepath.Clean("/" + path))[:16] }

// Flush writes all that the machine has in memory to its disk.
func Flush(root string) error {
	var lines bytes.Buffer
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if relative, _ := filepath.Rel(root, path); err == nil && volatile[relative] {
			return filepath.SkipDir
		}
		var info fs.FileInfo
		if err == nil && entry.Type().IsRegular() {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && info != nil {
			fmt.Fprintln(&lines, stateOf(info), hashOf(path[len(root):]))
		}
		return err
	})
	return errors.Join(err, Append(filepath.Join(root, flushedPath), lines.String(), 0o600))
}

// Fsync writes a file, by its path below the root, to the disk of a running machine.
func Fsync(root, path string) error {
	info, err := os.Stat(filepath.Join(root, path))
	if err != nil || !exists(filepath.Join(root, flushedPath)) {
		return err
	}
	return Append(filepath.Join(root, flushedPath), fmt.Sprintln(stateOf(info), hashOf(path)), 0o600)
}

// onDisk is what the disk of a running machine holds; nil for a machine without power, whose disk is complete.
type onDisk struct {
	states map[state]bool
	// files are the last flushed states by the hash of the path.
	files map[string]state
}

func readFlushed(root string) (*onDisk, error) {
	text, err := os.ReadFile(filepath.Join(root, flushedPath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	d := &onDisk{map[state]bool{}, map[string]state{}}
	for line := range bytes.Lines(text) {
		var s state
		var path string
		if _, err := fmt.Sscanf(string(line), "{%d %d %d} %s", &s.inode, &s.size, &s.changed, &path); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", flushedPath, line, err)
		}
		d.states[s], d.files[path] = true, s
	}
	return d, err
}

// has reports whether the disk has the whole file. Otherwise the file has so many zeros.
func (d *onDisk) has(path string, info fs.FileInfo) (whole bool, zeros int64) {
	if d == nil {
		return true, 0
	}
	now, before := stateOf(info), d.files[hashOf(path)]
	if before.inode != now.inode {
		before.size = 0 // another file, or another name
	}
	return d.states[now], before.size
}

// Writing waits for the end of a freeze, and holds off the next freeze until done is called.
func Writing(root string) (done func()) {
	done, err := lock(root, syscall.LOCK_SH)
	if err != nil {
		return func() {} // the machine has no power
	}
	return done
}

// Freeze waits for the writers of a machine, flushes the disk, and lets the writers wait until thaw is called, or this process ends.
func Freeze(root string) (thaw func(), err error) {
	if thaw, err = lock(root, syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if err := Flush(root); err != nil {
		thaw()
		return nil, err
	}
	return thaw, nil
}

func lock(root string, how int) (unlock func(), err error) {
	file, err := os.Open(filepath.Join(root, writesPath))
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(file.Fd()), how)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Start begins to keep the writes of a machine in memory. It is called at the boot, with an empty /run.
func Start(root string) error {
	return errors.Join(WriteFile(filepath.Join(root, writesPath), nil, 0o600), Flush(root))
}

// RootUUID is the UUID of the root file system, which all disks of a platform have from the publisher's image.
func RootUUID(root string) string {
	sum := Digest(OSImage(root))
	return fmt.Sprintf("%s-%s-%s-%s-%s", sum[:8], sum[8:12], sum[12:16], sum[16:20], sum[20:32])
}
