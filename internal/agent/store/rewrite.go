package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// lockPatience is how long to wait for a program that is ending.
const lockPatience = time.Second

// withDatabase opens a database while do runs. All pages are checked before, because the library trusts pages and would crash.
func (s Store) withDatabase(p string, do func(tx *bolt.Tx) error) (err error) {
	if _, err := readPages(s.tree, p, nil); err != nil {
		return fmt.Errorf("/%s: %w", p, err)
	}
	db, err := bolt.Open(p, 0, &bolt.Options{
		ReadOnly: true, Timeout: lockPatience,
		OpenFile: func(string, int, fs.FileMode) (*os.File, error) {
			return s.tree.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		},
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = ErrInUse
	}
	if err != nil {
		return fmt.Errorf("/%s: %w", p, err)
	}
	defer db.Close()
	if err := db.View(do); err != nil {
		return fmt.Errorf("/%s: %w", p, err)
	}
	return nil
}

// rewrite replaces a database by a copy without the entries for which drop (buckets and key, value) returns true, and returns
// their number. The copy has no free pages with old data. Without such entries and pages the database stays.
func (s Store) rewrite(p string, drop func(at []string, value []byte) bool) (sum tree.Removed, err error) {
	stale, err := readPages(s.tree, p, nil)
	if err != nil {
		return sum, fmt.Errorf("/%s: %w", p, err)
	}
	by := path.Join(path.Dir(p), ".kamino-new-"+path.Base(p))
	if _, err := s.tree.Remove(by, nil); err != nil {
		return sum, err
	}
	err = s.withDatabase(p, func(from *bolt.Tx) error {
		dropped, err := s.copyTo(by, from, drop)
		sum.Files += dropped
		if err != nil || dropped == 0 && stale == 0 {
			return err
		}
		return s.tree.Supplant(p, by)
	})
	if _, left := s.tree.Remove(by, nil); left != nil {
		err = errors.Join(err, left)
	}
	if err != nil {
		return tree.Removed{}, err
	}
	return sum, nil
}

// copyTo writes the new database in one transaction.
func (s Store) copyTo(by string, from *bolt.Tx, drop func([]string, []byte) bool) (dropped int, err error) {
	db, err := bolt.Open(by, 0, &bolt.Options{
		Timeout: lockPatience, NoSync: true, PageSize: from.DB().Info().PageSize,
		OpenFile: func(string, int, fs.FileMode) (*os.File, error) {
			return s.tree.OpenFile(by, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		},
	})
	if err != nil {
		return 0, err
	}
	err = db.Update(func(to *bolt.Tx) error {
		return from.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			if drop([]string{string(name)}, nil) {
				dropped++
				return nil
			}
			copied, err := to.CreateBucket(name)
			if err != nil {
				return err
			}
			n, err := copyBucket(copied, bucket, []string{string(name)}, drop)
			dropped += n
			return err
		})
	})
	return dropped, errors.Join(err, db.Close())
}

func copyBucket(to, from *bolt.Bucket, at []string, drop func([]string, []byte) bool) (dropped int, err error) {
	// Keys arrive in order, so that pages need no spare room.
	to.FillPercent = 0.9
	if err := to.SetSequence(from.Sequence()); err != nil {
		return 0, err
	}
	err = from.ForEach(func(key, value []byte) error {
		here := append(at[:len(at):len(at)], string(key))
		if drop(here, value) {
			dropped++
			return nil
		}
		if value != nil {
			return to.Put(key, value)
		}
		copied, err := to.CreateBucket(key)
		if err != nil {
			return err
		}
		n, err := copyBucket(copied, from.Bucket(key), here, drop)
		dropped += n
		return err
	})
	return dropped, err
}
