package simulator

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// Faults are the faults in the state of a cloud.
type Faults struct {
	read  func(use func(fault.List))
	write func(change func(fault.List) fault.List) error
	usual func(fault.Fault) (code, message string)
	log   *slog.Logger
}

// FaultsOf returns the faults in a part of the state. usual returns the cloud's code and message for a fault without these.
func FaultsOf[T any](s *Store[T], part func(*T) *fault.List, usual func(fault.Fault) (code, message string), log *slog.Logger) Faults {
	return Faults{
		read: func(use func(fault.List)) { s.Read(func(st *T) { use(*part(st)) }) },
		write: func(change func(fault.List) fault.List) error {
			return s.Write(func(st *T) error { *part(st) = change(*part(st)); return nil })
		},
		usual: usual, log: log,
	}
}

func (s Faults) add(f fault.Fault) (string, error) {
	f, err := f.Validate()
	if err != nil {
		return "", err
	}
	code, message := s.usual(f)
	if f.Code == "" {
		f.Code = code
	}
	if f.Message == "" {
		f.Message = message
	}
	if f.Name == "" {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		f.Name = "fault-" + hex.EncodeToString(b[:])
	}
	return f.Name, s.write(func(l fault.List) fault.List { return l.With(f) })
}

func (s Faults) live() (out []fault.Fault) {
	s.read(func(l fault.List) { out = l.Live() })
	return out
}

func (s Faults) clear(names ...string) error {
	return s.write(func(l fault.List) fault.List { return l.Without(names...) })
}

// Strike returns the first fault that strikes a request, and counts the request.
func (s Faults) Strike(method, path, noun, operation string) (struck *fault.Fault) {
	none := true
	s.read(func(l fault.List) { none = len(l) == 0 })
	if none {
		return nil
	}
	err := s.write(func(l fault.List) fault.List {
		struck = l.Strike(method, path, noun, operation)
		return l
	})
	if err != nil {
		s.log.Error("fault was not counted", "error", err)
	}
	return struck
}
