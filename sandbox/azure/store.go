package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// store keeps the state in memory and on disk. A change is on disk before it is answered; changes that come
// at once share a write.
type store struct {
	file string

	mu    sync.RWMutex
	state *state
	dirty int64 // number of the last change

	saveMu sync.Mutex
	saved  int64 // number of the last change that is on disk
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("azure simulator: make the state's directory: %w", err)
	}
	s := &store{file: filepath.Join(dir, "azure.json"), state: newState()}
	data, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("azure simulator: read the state: %w", err)
	}
	if err := json.Unmarshal(data, s.state); err != nil {
		return nil, fmt.Errorf("azure simulator: %s is damaged; remove it to start afresh: %w", s.file, err)
	}
	return s, nil
}

// read calls f with the state; f keeps nothing that can change but copies of structs.
func (s *store) read(f func(*state)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f(s.state)
}

// write calls f to change the state, and returns once the change is on disk. If f fails it must not have
// changed anything.
func (s *store) write(f func(*state) error) error {
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

// save waits until the change is on disk. Whoever gets to write takes along all changes made until then.
func (s *store) save(change int64) error {
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
		err = replaceFile(s.file, data)
	}
	if err != nil {
		return fmt.Errorf("azure simulator: save the state: %w", err)
	}
	s.saved = upTo
	return nil
}

// replaceFile writes a file that others see either as it was or whole.
func replaceFile(name string, data []byte) error {
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
