package quiesce

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// NonceDir is the directory of the nonce file, below the root of a disk. The file is named by the order, and holds the nonce
// in a line. A copy of the disk that has the file was taken after the flush that followed the file.
const NonceDir = "var/lib/kamino/quiesce"

var (
	nonceName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,62}$`)
	nonceText = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// CheckNonce returns why a name or a nonce is not valid: a name is a UID, and a nonce has 32 bytes in lower case
// hexadecimal.
func CheckNonce(name, nonce string) error {
	switch {
	case !nonceName.MatchString(name):
		return fmt.Errorf("the name of the nonce is %q: want a UID of letters, digits and hyphens", name)
	case !nonceText.MatchString(nonce):
		return errors.New("the nonce must have 64 hexadecimal digits in lower case")
	}
	return nil
}

// leaveNonce removes the nonces of other orders, and writes this one so that a flush is not needed for it. An existing file
// of this order is refused: an order quiesces a node once.
func leaveNonce(t *tree.Tree, name, nonce string) error {
	p := path.Join(NonceDir, name)
	if err := tree.CheckPath(t, p); err != nil {
		return fmt.Errorf("write the nonce: %w", err)
	}
	if err := removeOthers(t, name); err != nil {
		return err
	}
	if err := t.Mkdir(NonceDir, 0o755); err != nil {
		return fmt.Errorf("make /%s: %w", NonceDir, err)
	}
	f, err := t.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return refusef("/%s exists: this order has quiesced the node already. Make a new order", p)
	case errors.Is(err, syscall.EROFS):
		return refusef("the root file system is read-only, and cannot hold the proof of a flush: %s", inPlace)
	case err != nil:
		return fmt.Errorf("write the nonce: %w", err)
	}
	_, err = f.WriteString(nonce + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	// The names on the way to the file, too: a new directory is no more on the disk than a new file.
	for dir := NonceDir; err == nil && dir != "var"; dir = path.Dir(dir) {
		err = syncDir(t, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the nonce: %w", err), removeNonce(t, name))
	}
	return nil
}

// removeNonce removes the nonce of a run that ends without a copy.
func removeNonce(t *tree.Tree, name string) error {
	if _, err := t.Remove(path.Join(NonceDir, name), nil); err != nil {
		return fmt.Errorf("remove the nonce: %w", err)
	}
	return nil
}

func removeOthers(t *tree.Tree, name string) error {
	entries, err := t.List(NonceDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for older nonces: %w", err)
	}
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		if err := removeNonce(t, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(t *tree.Tree, dir string) error {
	f, err := t.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
