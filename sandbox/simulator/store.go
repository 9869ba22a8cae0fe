package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Store keeps the state of a simulated cloud in memory and on disk. A change is on disk before Write returns; changes that come at once
// share a write. Open makes one.
type Store[T any] struct {
	file string

	mu    sync.RWMutex
	state *T
	dirty int64 // number of the last change

	saveMu sync.Mutex
	saved  int64 // number of the last change on disk
}

// Open reads the file into fresh. The first write creates the file.
func Open[T any](file string, fresh *T) (*Store[T], error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("make the state's directory: %w", err)
	}
	s := &Store[T]{file: file, state: fresh}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("read the state: %w", err)
	}
	if err := json.Unmarshal(data, s.state); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove the file to start with an empty state: %w", file, err)
	}
	return s, nil
}

// Read calls f with the state; f keeps nothing that can change but copies of structs.
func (s *Store[T]) Read(f func(*T)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f(s.state)
}

// Write calls f to change the state, and returns once the change is on disk. If f fails it must not have
// changed anything.
func (s *Store[T]) Write(f func(*T) error) error {
	s.mu.Lock()
	err := f(s.state)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.dirty++
	mine := s.dirty
	s.mu.Unlock()
	return s.save(mine)
}

// save waits until the change is on disk. A write includes all changes so far.
func (s *Store[T]) save(change int64) error {
	s.saveMu.Lock()
	defer s.saveMu.Unlock()
	if s.saved >= change {
		return nil
	}
	s.mu.RLock()
	upTo := s.dirty
	data, err := json.Marshal(s.state)
	s.mu.RUnlock()
	if err == nil {
		err = ReplaceFile(s.file, data)
	}
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	s.saved = upTo
	return nil
}

// ReplaceFile writes a file atomically.
func ReplaceFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
